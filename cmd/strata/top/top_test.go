package top

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	tea "charm.land/bubbletea/v2"
	"charm.land/lipgloss/v2"

	"github.com/strata-cache/strata"
	"github.com/strata-cache/strata/admin"
	"github.com/strata-cache/strata/admin/api"
)

func summary(name string, reads, l1 float64) api.Summary {
	s := api.Summary{Name: name, Latest: &api.Sample{Answers: api.Answers{L1: l1, Loaded: reads - l1}, Saved: 4 * time.Second}}
	s.Numbers.Memory = api.Memory{Entries: 50, MaxEntries: 200}
	s.Numbers.Loads = api.Loads{OK: 100, Waiters: 300, P99: 20 * time.Millisecond}
	return s
}

func view(t *testing.T, caches ...api.Summary) *model {
	t.Helper()
	c, err := newClient("http://127.0.0.1:1/debug/strata")
	if err != nil {
		t.Fatal(err)
	}
	m := newModel(t.Context(), c, newStyles(false))
	m.Update(overviewMsg{api.Overview{Caches: caches}, nil})
	return m
}

func press(m *model, keys ...string) (last tea.Cmd) {
	codes := map[string]rune{"up": tea.KeyUp, "down": tea.KeyDown, "left": tea.KeyLeft, "right": tea.KeyRight, "enter": tea.KeyEnter, "esc": tea.KeyEscape, "backspace": tea.KeyBackspace}
	for _, k := range keys {
		msg := tea.KeyPressMsg{Text: k}
		if code, ok := codes[k]; ok {
			msg = tea.KeyPressMsg{Code: code}
		} else {
			msg.Code = []rune(k)[0]
		}
		_, last = m.Update(msg)
	}
	return last
}

// checkFits checks that a screen is no larger than the terminal.
func checkFits(t *testing.T, m *model) {
	t.Helper()
	lines := strings.Split(m.draw(), "\n")
	if len(lines) > max(m.height, 1) {
		t.Errorf("%d lines in a terminal of %d", len(lines), m.height)
	}
	for _, l := range lines {
		plain := l
		for strings.Contains(plain, "\x1b[") {
			i := strings.Index(plain, "\x1b[")
			j := strings.IndexByte(plain[i:], 'm')
			plain = plain[:i] + plain[i+j+1:]
		}
		if n := utf8.RuneCountInString(plain); n > m.width {
			t.Errorf("%d columns in a terminal of %d: %q", n, m.width, plain)
		}
	}
}

func TestTableHasARowForEachCache(t *testing.T) {
	users := summary("users", 1000, 990)
	users.Info.Service = "shop"
	m := view(t, users, summary("products", 20, 5))
	m.Update(tea.WindowSizeMsg{Width: 120, Height: 24})
	text := m.draw()
	for _, want := range []string{"shop/users", "1000", "99", "products", "20", "25", "20 ms", "75", "50", "2 s", "ok", "reads/s▾"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	if strings.Index(text, "users") > strings.Index(text, "products") {
		t.Errorf("not sorted by reads:\n%s", text)
	}
}

func TestKeysSortAndChoose(t *testing.T) {
	m := view(t, summary("b", 10, 9), summary("a", 20, 5), summary("c", 5, 5))
	order := func() (names string) {
		for _, s := range m.rows() {
			names += s.Name
		}
		return names
	}
	if order() != "abc" || m.chosen != "a" {
		t.Errorf("by reads: %s, %s is chosen", order(), m.chosen)
	}
	if press(m, "right"); order() != "cba" {
		t.Errorf("by hits: %s", order())
	}
	if press(m, "r"); order() != "abc" {
		t.Errorf("reversed: %s", order())
	}
	press(m, "r", "left", "left", "left")
	if order() != "abc" || m.by != -1 {
		t.Errorf("by name: %s, %d", order(), m.by)
	}
	if press(m, "down", "down", "down"); m.chosen != "c" {
		t.Errorf("%s is chosen", m.chosen)
	}
	if press(m, "up"); m.chosen != "b" {
		t.Errorf("%s is chosen", m.chosen)
	}
	m.Update(overviewMsg{api.Overview{Caches: []api.Summary{summary("x", 1, 1)}}, nil})
	if press(m, "down"); m.chosen != "x" {
		t.Errorf("%s is chosen after its cache is gone", m.chosen)
	}
}

// TestLateDetailIsNotShownUnderAnotherName has the answer about a cache come after another one was chosen.
func TestLateDetailIsNotShownUnderAnotherName(t *testing.T) {
	m := view(t, summary("carts", 5, 1), summary("users", 5, 1))
	press(m, "enter")
	chosen := m.chosen
	late := api.Detail{Name: map[string]string{"carts": "users", "users": "carts"}[chosen], Events: []api.Event{{Text: "of another cache"}}}
	m.Update(detailMsg{late, nil, late.Name})
	if strings.Contains(m.draw(), "of another cache") {
		t.Errorf("the detail of %s is shown under the name %s", late.Name, chosen)
	}
	late.Name = chosen
	m.Update(detailMsg{late, nil, late.Name})
	if !strings.Contains(m.draw(), "of another cache") {
		t.Errorf("the detail of %s is not shown", chosen)
	}
}

func TestLateExplanationIsNotShownUnderAnotherKey(t *testing.T) {
	m := view(t, summary("users", 1, 1))
	says := func(verdict string) api.Explained {
		return api.Explained{Instances: []api.Explanation{{Instance: "i", Answered: true, Verdict: verdict}}}
	}
	press(m, "e", "a", "enter", "e", "b", "enter")
	m.Update(explainedMsg{says("about b"), nil, "users", "b"})
	m.Update(explainedMsg{says("about a"), nil, "users", "a"})
	m.Update(explainedMsg{api.Explained{}, errors.New("no answer about a"), "users", "a"})
	if text := m.draw(); !strings.Contains(text, "users: b") || !strings.Contains(text, "about b") || strings.Contains(text, "about a") {
		t.Errorf("under the name b stands\n%s", text)
	}
}

func TestPastedKeyIsTyped(t *testing.T) {
	m := view(t, summary("users", 7, 7))
	m.Update(tea.PasteMsg{Content: "before"})
	press(m, "e", "a")
	m.Update(tea.PasteMsg{Content: "user:\x1b42\n"})
	if m.typed != "auser:42" || !strings.Contains(m.draw(), "auser:42_") {
		t.Errorf("after a paste the key is %q:\n%s", m.typed, m.draw())
	}
	m.Update(tea.PasteMsg{Content: strings.Repeat("x", api.MaxKey)})
	if m.typed != "auser:42" {
		t.Errorf("a key of %d bytes is taken", len(m.typed))
	}
}

func TestErrorOfAnExplanationStays(t *testing.T) {
	m := view(t, summary("users", 7, 7))
	press(m, "e", "a", "enter")
	m.Update(explainedMsg{api.Explained{}, errors.New("too many actions"), "users", "a"})
	// The overview is asked for each second on every screen.
	m.Update(overviewMsg{api.Overview{Caches: []api.Summary{summary("users", 7, 7)}}, nil})
	if text := m.draw(); !strings.Contains(text, "too many actions") || strings.Contains(text, "are asked") {
		t.Errorf("after the next answer of the page:\n%s", text)
	}
	if press(m, "e", "b", "enter"); strings.Contains(m.draw(), "too many actions") {
		t.Errorf("the error is shown under another key:\n%s", m.draw())
	}
}

func TestScreensFitEveryTerminal(t *testing.T) {
	hostile := summary("\x1b[31mevil\u202e\u4e16\u754c"+strings.Repeat("long", 100), 5, 1)
	hostile.Info.Bus, hostile.Numbers.Bus.Pending, hostile.Numbers.Remote.BreakerOpen = "x", 3, true
	all := []api.Summary{hostile, {}}
	for i := range 100 {
		all = append(all, summary(fmt.Sprint("cache", i), float64(i)*1e7, math.Inf(1)))
	}
	for _, size := range [][2]int{{80, 24}, {40, 10}, {1, 1}, {0, 0}, {300, 100}, {20, 3}} {
		m := view(t, all...)
		m.Update(tea.WindowSizeMsg{Width: size[0], Height: size[1]})
		checkFits(t, m)
		press(m, "enter")
		m.Update(detailMsg{api.Detail{Name: m.chosen, Info: api.Info{L2: "\x1b]0;x\a"}, Events: []api.Event{{Text: "a\x1b[2Jb"}}, Hot: api.Hot{ByReads: []api.HotKey{{Key: "\x9b1m"}}}}, nil, m.chosen})
		checkFits(t, m)
		press(m, "down", "down")
		checkFits(t, m)
		press(m, "e", "k")
		checkFits(t, m)
		press(m, "enter")
		m.Update(explainedMsg{api.Explained{Instances: []api.Explanation{{Instance: "a", Answered: true, Verdict: "\x1b[1m"}, {Instance: "b"}}}, nil, m.chosen, m.typed})
		checkFits(t, m)
		m.Update(overviewMsg{err: errors.New("dial\x1b[0m refused")})
		checkFits(t, m)
		if strings.Contains(clean(m.body()[0].text, 100), "\x1b") {
			t.Error("a control character reaches the terminal")
		}
	}
}

// Some characters that are neither of East Asia nor among the newer emoji take two columns, or none.
func TestEachCharacterIsOneColumn(t *testing.T) {
	m := view(t, summary(strings.Repeat("\u2705\u2b50\u231a\u26a1\u1160", 20), 1, 1))
	press(m, "e", "k", "enter")
	for l := range strings.Lines(m.draw()) {
		if n := lipgloss.Width(l); n > m.width {
			t.Errorf("%d columns in a terminal of %d: %q", n, m.width, l)
		}
	}
}

func TestTextOfOthersIsHarmless(t *testing.T) {
	for _, bad := range []string{"\x1b[31m", "a\u202eb", "\u4e16", "\U0001f600", "\xff", "e\u0301", "\n\t"} {
		if got := clean(bad, 50); strings.ContainsAny(got, "\x1b\n\t\u202e\u0301") || !utf8.ValidString(got) {
			t.Errorf("clean(%q) = %q", bad, got)
		}
	}
}

// page is a page of two caches.
func page(t *testing.T) string {
	t.Helper()
	c, err := strata.New(strata.Options[string, int]{Name: "users", TTL: time.Minute, ShowKeys: true, Loader: func(context.Context, string) (int, error) { return 1, nil }})
	if err != nil {
		t.Fatal(err)
	}
	p := admin.New(admin.Options{Token: "token-of-a-test-0123"}, c)
	s := httptest.NewServer(p)
	t.Cleanup(func() {
		p.Close()
		s.Close()
		c.Close(context.Background())
	})
	_, _ = c.GetOrLoad(t.Context(), "k", nil)
	return s.URL + "/?token=token-of-a-test-0123"
}

func TestPageOfARealCacheIsShown(t *testing.T) {
	url := page(t)
	var out, problems bytes.Buffer
	if err := Run(t.Context(), Options{URL: url, Once: true, Out: &out, Err: &problems}); err != nil || !strings.Contains(out.String(), "users") {
		t.Errorf("%v\n%s", err, out.String())
	}
	c, err := newClient(url)
	if err != nil {
		t.Fatal(err)
	}
	m := newModel(t.Context(), c, newStyles(true))
	do := func(cmd tea.Cmd) {
		if cmd != nil {
			m.Update(cmd())
		}
	}
	do(m.Init())
	do(press(m, "enter"))
	if text := m.draw(); !strings.Contains(text, "hottest keys") || !strings.Contains(text, "users") {
		t.Errorf("the detail is\n%s", text)
	}
	do(press(m, "e", "k", "x", "backspace", "enter"))
	if text := m.draw(); !strings.Contains(text, "fresh") || !strings.Contains(text, "this page") {
		t.Errorf("the explanation is\n%s", text)
	}
	if press(m, "esc", "esc"); m.screen != list {
		t.Error("Escape does not lead back")
	}
	if cmd := press(m, "q"); cmd == nil {
		t.Error("q does not end the view")
	}
}

func TestErrorsAreClearAndNotFatal(t *testing.T) {
	answer := "{"
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if answer == "403" {
			w.WriteHeader(http.StatusForbidden)
			_ = json.NewEncoder(w).Encode(map[string]string{"error": "not local"})
			return
		}
		fmt.Fprint(w, answer)
	}))
	defer s.Close()
	c, err := newClient(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	if _, err = c.overview(t.Context()); err == nil || !strings.Contains(err.Error(), "not that of a page") {
		t.Errorf("an answer that is no JSON: %v", err)
	}
	answer = "403"
	if _, err = c.overview(t.Context()); err == nil || err.Error() != "not local" {
		t.Errorf("a refusal: %v", err)
	}
	m := view(t, summary("users", 1, 1))
	_, next := m.Update(overviewMsg{err: errors.New("refused")})
	if !strings.Contains(m.draw(), "refused; trying again") || !strings.Contains(m.draw(), "users") || next == nil {
		t.Errorf("after an error:\n%s", m.draw())
	}
	for _, bad := range []string{"", "127.0.0.1:80", "ftp://x/", "http://", "::"} {
		err := Run(t.Context(), Options{URL: bad, Once: true})
		if _, ok := errors.AsType[URLError](err); !ok {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

func TestPlainTablesGoOnAfterErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		var out, problems bytes.Buffer
		c, err := newClient("http://127.0.0.1:1/")
		if err != nil {
			t.Fatal(err)
		}
		c.http.Transport = refusing{}
		if err := printTables(ctx, c, &Options{Out: &out, Err: &problems, Every: time.Second}); err != nil {
			t.Error(err)
		}
		if n := strings.Count(problems.String(), "no route; trying again\n"); n < 5 || n > 6 {
			t.Errorf("%d lines: %s", n, problems.String())
		}
	})
}

type refusing struct{}

func (refusing) RoundTrip(*http.Request) (*http.Response, error) {
	return nil, &net.OpError{Op: "dial", Err: errors.New("no route")}
}

// TestQueryThatCannotBeReadIsAnError: the token in it would be left out.
func TestQueryThatCannotBeReadIsAnError(t *testing.T) {
	for _, query := range []string{"?token=s3cret;x", "?token=s3cret%"} {
		if _, err := newClient("http://127.0.0.1:1/" + query); err == nil || !strings.Contains(err.Error(), "query") || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%s: %v", query, err)
		}
	}
}

// TestTokenGoesToNoOtherServer: a redirect to another port of the host, or from https to http, would take it along.
func TestTokenGoesToNoOtherServer(t *testing.T) {
	taken := ""
	other := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { taken = r.Header.Get("Authorization") }))
	defer other.Close()
	s := httptest.NewServer(http.RedirectHandler(other.URL, http.StatusFound))
	defer s.Close()
	c, err := newClient(s.URL + "/?token=s3cret")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.overview(t.Context()); err == nil || taken != "" || !strings.Contains(err.Error(), "302") {
		t.Errorf("%v, and the other server got %q", err, taken)
	}
}
