package top

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	tea "charm.land/bubbletea/v2"

	"github.com/strata-cache/strata/admin/api"
)

// sizes are terminals in which nothing may be cut.
var sizes = [][2]int{{80, 24}, {120, 40}} // read-only

// flat is a screen as one line, so that a text is found even if its line is broken at a space.
func flat(screen string) string {
	return strings.Join(strings.Fields(regexp.MustCompile("\x1b\\[[0-9;]*m").ReplaceAllString(screen, "")), " ")
}

// troubled is a cache with everything that can be wrong at once, under a long name.
func troubled() api.Summary {
	s := summary(strings.Repeat("customers-of-the-shop-", 4)+"by-id", 123456.789, 1)
	s.Info = api.Info{Service: strings.Repeat("checkout-", 5), Instance: strings.Repeat("host-", 20) + "/4194304/00c0ffee00c0ffee", L2: "x", Bus: "x"}
	s.Latest.Errors, s.Latest.Saved = 1234.5, 123*time.Hour
	n := &s.Numbers
	n.Memory.Off, n.Remote.StoringStopped = true, false
	n.Memory = api.Memory{Off: true, Entries: 1 << 40, MaxEntries: 1 << 41, Evicted: math.MaxUint64, EvictionAgeP50: 4096 * time.Hour}
	n.Guard = &api.Guard{Limit: math.MaxInt64, Source: "GOMEMLIMIT", Ceiling: 1<<40 - 1, Heap: 1023<<20 + 1<<19, Evicted: math.MaxUint64, Exhausted: true}
	n.Loads = api.Loads{OK: math.MaxUint64, Compared: api.Compared{Changed: 1 << 60, Unchanged: 1 << 60}, NotModified: 1 << 61, NotFound: 123456789, Errors: 99999, Running: 9999, P50: 7810 * time.Millisecond * 60, P99: 1 << 52, Saved: math.MaxInt64}
	n.Reads = api.Reads{Total: math.MaxUint64, L1: 999_999, Negative: 99_950, Stale: 99_999, Joined: 9_999}
	n.Remote = api.Remote{
		Hits: 999_999_999, Misses: 999_950, Errors: 1, TimedOut: 1, LeaseWaits: 99_950, LeaseWins: 9_999, P99: 999_999_999,
		ServersLeftAlone:     []string{"cache-17.eu-central-1.example.com:11211", "[2001:db8:85a3:8d3:1319:8a2e:370:7348]:11211"},
		ServersWithoutStores: []string{strings.Repeat("a", 90) + ".example.com:11211"},
	}
	n.Loads.Failing, n.Loads.Slow = 468600*time.Millisecond, time.Hour
	n.Bus = api.Bus{Silence: 468600 * time.Millisecond, Pending: 123456, Unreadable: 123456, EchoP99: 999_999}
	for i := range api.SparkPoints {
		x := float64(i)
		s.Spark = append(s.Spark, &x)
	}
	return s
}

// TestNoStateIsCut draws a cache with every state in the list, with others around it.
func TestNoStateIsCut(t *testing.T) {
	one := summary("orders", 5, 5)
	one.Info.Bus, one.Numbers.Bus.Silence, one.Numbers.Bus.Pending = "x", 19200*time.Millisecond, 1
	bad := troubled()
	breaker := troubled()
	breaker.Name, breaker.Numbers.Remote, breaker.Numbers.Bus.Silence = "breaker", api.Remote{BreakerOpen: true, StoringStopped: true}, 297*time.Millisecond
	for _, size := range sizes {
		m := view(t, summary("users", 7, 7), bad, one, breaker)
		m.Update(tea.WindowSizeMsg{Width: size[0], Height: size[1]})
		checkFits(t, m)
		text := m.draw()
		for _, s := range []api.Summary{bad, one, breaker} {
			for _, state := range states(&s) {
				if !strings.Contains(flat(text), state) && !strings.Contains(strings.ReplaceAll(flat(text), " ", ""), strings.ReplaceAll(state, " ", "")) {
					t.Errorf("%d columns: no %q in\n%s", size[0], state, text)
				}
			}
		}
		for _, want := range []string{"8 problems", "no memory left to evict", "2 problems", "bus is silent for 7.81 min", "123k drops are pending", "1 drop is pending", "bus is not connected", "L2: breaker is open", "origin is failing for 7.81 min", " ok", "…"} {
			if !strings.Contains(text, want) {
				t.Errorf("%d columns: no %q in\n%s", size[0], want, text)
			}
		}
	}
}

// TestNumbersAreNoWiderThanTheirColumns has numbers of all sizes.
func TestNumbersAreNoWiderThanTheirColumns(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	check := func(c column, x float64) {
		text := c.text(x)
		if n := utf8.RuneCountInString(text); n > c.width || strings.Contains(text, "e+") {
			t.Errorf("%v in the column %s is %q: %d of %d columns", x, c.head, text, n, c.width)
		}
		if digits := strings.Count(strings.Trim(text, "<0."), "") - 1; digits > 9 {
			t.Errorf("%v in the column %s is %q", x, c.head, text)
		}
	}
	for _, c := range columns() {
		if n := utf8.RuneCountInString(c.head) + 1; n > c.width {
			t.Errorf("the head %s with its mark has %d of %d columns", c.head, n, c.width)
		}
		top := 1.8e19
		if c.head == "load p99" || strings.HasPrefix(c.head, "saved") {
			top = math.MaxInt64
		}
		if strings.Contains(c.head, "%") || c.head == "shared" {
			top = 100
		}
		for _, x := range []float64{0, 0.001, 0.0049, 0.005, 9.999, 99.99, 99.95, 999.6, 9999.4, 9999.5, 99950, 999_950, 999.9e3, 999.9e6, 59.99e9, 119.9e9, math.NaN(), math.Inf(1), top} {
			check(c, min(x, top))
		}
		for range 20_000 {
			check(c, min(top, math.Exp(r.Float64()*44)))
		}
	}
}

func TestNumbersHaveThreeDigitsAndAUnit(t *testing.T) {
	for ns, want := range map[float64]string{
		0: "0 s", 500: "500 ns", 999: "999 ns", 999.6: "1 µs", 1234: "1.23 µs", 999_600: "1 ms", 999_999_999: "1 s", 12_345_678: "12.3 ms",
		100e9: "100 s", 119.9e9: "2 min", 468.6e9: "7.81 min", 7199e9: "2 h", 100e12: "27.8 h", 172800e9: "2 d", math.MaxInt64: "no end", math.NaN(): "–",
	} {
		if got := span(ns); got != want {
			t.Errorf("%v ns is %q, want %q", ns, got, want)
		}
	}
	for n, want := range map[float64]string{
		0: "0", 0.001: "<0.01", 0.126: "0.13", 1.005: "1", 12.34: "12.3", 999.9: "1000", 1234: "1234", 9999.4: "9999", 9999.9: "10k", 12_345: "12.3k", 999_950: "1M",
		999_400: "999k", 1.8446744073709552e19: "18.4E", math.Inf(1): "–",
	} {
		if got := number(n); got != want {
			t.Errorf("%v is %q, want %q", n, got, want)
		}
	}
	if percent(99.96) != "99.9" || percent(100) != "100" || percent(0.004) != "<0.01" {
		t.Errorf("%s, %s, %s", percent(99.96), percent(100), percent(0.004))
	}
}

// TestDetailIsNotCut draws all of the detail of a cache with long texts, by scrolling.
func TestDetailIsNotCut(t *testing.T) {
	bad := troubled()
	long := "L2 does not answer op=get error=" + strings.Repeat("redis: read tcp: i/o timeout; ", 12) + "END"
	for _, size := range sizes {
		m := view(t, bad)
		m.Update(tea.WindowSizeMsg{Width: size[0], Height: size[1]})
		press(m, "enter")
		d := api.Detail{Name: bad.Name, Info: bad.Info, Numbers: bad.Numbers, Events: []api.Event{{Level: "error", Text: long}}}
		d.Settings = []api.Setting{{Name: "Remote.Codec", Value: strings.Repeat("json ", 30) + "LAST", Tuned: true}}
		d.Hot = api.Hot{Since: 1, ByReads: []api.HotKey{{Key: strings.Repeat("k", 200), Reads: math.MaxUint64, Loads: math.MaxUint64, LoadTime: 1 << 60}}}
		m.Update(detailMsg{d, nil, d.Name})
		var all string
		for range 60 {
			checkFits(t, m)
			lines := strings.Split(m.draw(), "\n")
			all += lines[1] + "\n"
			press(m, "down")
		}
		all += m.draw()
		for _, want := range []string{
			"18.4E in all, 1M from L1, 100k negative, 100k stale, 9999 joined a load", "18.4E ok, 123M not found, 100k failed, 9999 running, 25 % with another value than before",
			"live heap 1 GiB of at most 1024 GiB, GOMEMLIMIT 8589934592 GiB, 18.4E evicted",
			"p50 at most 7.81 min, p99 at most 52.1 d in the last minutes, no end saved in all", "1.1T entries, 50 % full, 18.4E evicted, at an age of 171 d",
			"1G hits, 1M misses, 1 error, 1 time-out of them, p99 at most 1 s, breaker is closed, 100k waits for other loads, 9999 won", "silent for 7.81 min, last message 7.81 min ago, echo p99 at most 1 ms, 123k drops pending", "123k unreadable messages",
			"END", "LAST (tuned)", "▁▁", "▇█", "reads/s, at most 59", "bus is silent for 7.81 min", "00c0ffee",
		} {
			if !strings.Contains(flat(all), want) {
				t.Errorf("%d columns: no %q in\n%s", size[0], want, all)
			}
		}
	}
}

// TestInstancesThatDoNotAnswerAreExplained has an instance that ended.
func TestInstancesThatDoNotAnswerAreExplained(t *testing.T) {
	const gone = "No answer came within 1s. The instance was last heard of 3m0s ago: it is busy, has ended, or the bus does not reach it."
	for _, size := range sizes {
		m := view(t, summary("users", 1, 1))
		m.Update(tea.WindowSizeMsg{Width: size[0], Height: size[1]})
		press(m, "e", "k", "enter")
		m.Update(explainedMsg{api.Explained{Instances: []api.Explanation{
			{Instance: "here", Here: true, Answered: true, Verdict: "The read fails with the error of the last load, for another 3.01s.", L1: "negative", L1Fresh: 468600 * time.Millisecond, L2: "fresh", L2Fresh: math.MaxInt64, Failures: 4, RetryIn: 3_012_364_119, Err: "origin: unavailable"},
			{Instance: "gone", Took: time.Second, Verdict: gone},
		}}, nil, "users", "k"})
		checkFits(t, m)
		text := flat(m.draw())
		for _, want := range []string{
			"for another 3.01s.", "negative for 7.81 min", "fresh without end", "4, tried again in 3.01 s, origin: unavailable",
			"gone " + gone,
		} {
			if !strings.Contains(text, want) {
				t.Errorf("%d columns: no %q in\n%s", size[0], want, m.draw())
			}
		}
	}
}

// TestChosenCacheIsInView has caches with several lines each, more than the terminal has room for.
func TestChosenCacheIsInView(t *testing.T) {
	var all []api.Summary
	for i := range 30 {
		s := troubled()
		s.Name = fmt.Sprint("cache", 10+i)
		all = append(all, s)
	}
	m := view(t, all...)
	for range all {
		checkFits(t, m)
		if text := m.draw(); !strings.Contains(text, m.chosen) {
			t.Fatalf("%s is chosen and not shown:\n%s", m.chosen, text)
		}
		press(m, "down")
	}
}

func TestPlainTableHasWholeStates(t *testing.T) {
	bad := troubled()
	text := table(&api.Overview{Caches: []api.Summary{summary("users", 1, 1), bad}}, 80, -1, false)
	if lines := strings.Split(strings.TrimSpace(text), "\n"); len(lines) != 3 || !strings.HasSuffix(text, strings.Join(states(&bad), ", ")+"\n") && !strings.Contains(text, strings.Join(states(&bad), ", ")) {
		t.Errorf("the table is\n%s", text)
	}
}

// TestErrorOfADetailStaysUntilItsOwnAnswer: the overview comes beside each detail, and says nothing about it.
func TestErrorOfADetailStaysUntilItsOwnAnswer(t *testing.T) {
	m := view(t, summary("users", 10, 9), summary("products", 5, 5))
	overview := overviewMsg{api.Overview{Caches: []api.Summary{summary("users", 10, 9), summary("products", 5, 5)}}, nil}
	failed := detailMsg{api.Detail{}, errors.New("no cache is called users"), "users"}
	press(m, "enter")
	shown := func() bool { return strings.Contains(m.draw(), "no cache is called users; trying again") }
	m.Update(failed)
	for range 3 {
		if m.Update(overview); !shown() {
			t.Fatalf("a good overview wipes the error of the detail:\n%s", m.draw())
		}
	}
	if m.Update(detailMsg{api.Detail{Name: "users"}, nil, "users"}); shown() {
		t.Error("the error stays after a good detail")
	}
	m.Update(failed)
	if press(m, "esc"); shown() {
		t.Error("the error of a detail is in the list")
	}
	// A late answer about the cache before says nothing about this one.
	press(m, "down", "enter")
	if m.Update(failed); shown() {
		t.Error("the error of another cache is shown")
	}
	m.Update(overviewMsg{err: errors.New("no route")})
	m.Update(detailMsg{api.Detail{Name: "products"}, nil, "products"})
	if !strings.Contains(m.draw(), "no route; trying again") {
		t.Errorf("a good detail wipes the error of the overview:\n%s", m.draw())
	}
}
