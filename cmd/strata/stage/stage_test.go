package stage

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/strata-cache/strata/cmd/strata/hello"
)

// newStage opens a stage with a Redis in this process.
// testToken is the token of pages in tests.
const testToken = "token-of-a-test-0123"

// bearer is a transport that adds the token.
type bearer struct{}

func (bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r.Header.Set("Authorization", "Bearer "+testToken)
	return http.DefaultTransport.RoundTrip(r)
}

func newStage(t *testing.T) *Stage {
	t.Helper()
	t.Setenv("PATH", "")
	s, err := New(t.Context(), Options{Rate: 100, Latency: -1, Token: testToken})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// until waits for a state of the stage.
func until(t *testing.T, s *Stage, what string, ok func(State) bool) State {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); ; {
		st := s.State(t.Context(), 0)
		if ok(st) {
			return st
		}
		if time.Now().After(end) {
			t.Fatalf("%s does not come: %+v", what, st)
		}
		<-time.After(50 * time.Millisecond)
	}
}

// do does an action, again if L2 does not answer in time on a busy machine.
func do(t *testing.T, s *Stage, action string) string {
	t.Helper()
	said, err := s.Do(t.Context(), action)
	for range 5 {
		if err == nil {
			break
		}
		said, err = s.Do(t.Context(), action)
	}
	if err != nil {
		t.Errorf("%s: %v", action, err)
	}
	return said
}

func TestEveryActionHasItsEffect(t *testing.T) {
	s := newStage(t)
	until(t, s, "a connected bus and samples", func(st State) bool {
		return st.Instances[0].Connected && st.Instances[1].Connected && len(st.Samples) > 0 && st.Seen[0].Number > 0 && st.Seen[1].Number > 0
	})
	do(t, s, "rate 150")

	do(t, s, "break l2")
	until(t, s, "an L2 that is left alone", func(st State) bool { return st.Broken["l2"] && st.Instances[0].LeftAlone })
	do(t, s, "mend l2")
	until(t, s, "an L2 that is used again", func(st State) bool {
		return !st.Broken["l2"] && !st.Instances[0].LeftAlone && !st.Instances[1].LeftAlone && st.Instances[0].Connected && st.Instances[1].Connected
	})

	before := s.State(t.Context(), 0).Newest
	do(t, s, "invalidate World0")
	until(t, s, "a newer value on both instances", func(st State) bool {
		return st.Newest > before && st.Seen[0].Number > before && st.Seen[1].Number > before
	})
	do(t, s, "watch World1")
	until(t, s, "another watched greeting", func(st State) bool { return st.Watched == "World1" && st.Seen[0].Text != "" })

	do(t, s, "break origin")
	do(t, s, "mode none")
	st := until(t, s, "failed requests", func(st State) bool { return st.Samples[len(st.Samples)-1].Errors > 0 })
	if x := st.Samples[len(st.Samples)-1]; x.Why == "" {
		t.Errorf("failures have no reason: %+v", x)
	}
	if !slices.ContainsFunc(st.Marks, func(m Mark) bool { return m.Text == "failures begin" && strings.Contains(m.Said, " in a second: ") }) {
		t.Errorf("the begin of failures is not marked: %+v", st.Marks)
	}
	do(t, s, "mend origin")
	do(t, s, "mode naive")
	until(t, s, "answers of the map", func(st State) bool {
		x := st.Samples[len(st.Samples)-1]
		return st.Mode == hello.Naive && x.Memory > 0 && x.Errors == 0
	})
	until(t, s, "the watched greeting in both maps", func(st State) bool { return st.Seen[0].Number > 0 && st.Seen[1].Number > 0 })
	do(t, s, "invalidate World1")
	until(t, s, "an old value on the instance that is not told", func(st State) bool {
		return st.Seen[0].State == "fresh" && st.Seen[1].State == "old"
	})
	do(t, s, "expire")
	do(t, s, "mode strata")

	if said := do(t, s, "restart a cold"); !strings.Contains(said, "empty memory") {
		t.Error(said)
	}
	until(t, s, "greetings to take over", func(st State) bool { return st.Instances[0].Entries > 0 })
	for _, source := range []string{"transfer", "keys"} {
		said := ""
		for range 5 { // the values may not come in time, from L2 or from the other instance
			until(t, s, "instances on the bus", func(st State) bool { return st.Instances[0].Connected && st.Instances[1].Connected })
			if said = do(t, s, "restart b "+source); !strings.Contains(said, " 0 greetings") {
				break
			}
		}
		if !strings.Contains(said, "greetings, by "+source) || strings.Contains(said, " 0 greetings") {
			t.Error(said)
		}
	}
	if said := do(t, s, "jitter off"); !strings.Contains(said, "the same length") || s.State(t.Context(), 0).Jitter != 0 {
		t.Error(said)
	}
	if said := do(t, s, "jitter on"); !strings.Contains(said, "up to 0.1 of them") || s.State(t.Context(), 0).Jitter != 0.1 {
		t.Error(said)
	}
	do(t, s, "slow 1ms")
	do(t, s, "break bus")
	until(t, s, "a silent bus", func(st State) bool { return !st.Instances[0].Connected && !st.Instances[1].Connected })
	do(t, s, "mend bus")
	do(t, s, "expire")
	st = until(t, s, "stale answers", func(st State) bool {
		return slices.ContainsFunc(st.Samples, func(x Sample) bool { return x.Stale > 0 })
	})
	if len(st.Marks) < 18 || st.Marks[0].Text != "start" || st.Marks[0].Action != 0 || st.Marks[1].Number != 2 || st.Latency != int64(time.Millisecond) {
		t.Errorf("%d marks, the first %+v, latency %d", len(st.Marks), st.Marks[0], st.Latency)
	}
}

// TestGuardKeepsGreetingsWhileReportsFillTheMemory fills a process of 64 MiB.
func TestGuardKeepsGreetingsWhileReportsFillTheMemory(t *testing.T) {
	t.Setenv("PATH", "")
	s, err := New(t.Context(), Options{Rate: 100, Latency: -1, Token: testToken, MemoryLimit: 64 << 20})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	until(t, s, "greetings in memory", func(st State) bool { return st.Instances[0].Entries > 0 && len(st.Samples) > 0 })
	do(t, s, "fill on")
	do(t, s, "fill on")
	until(t, s, "evicted reports in a sample", func(st State) bool {
		return st.Filling && slices.ContainsFunc(st.Samples, func(x Sample) bool { return x.Reports > 0 && x.Heap > 0 })
	})
	st := until(t, s, "memory filled twice", func(st State) bool { return st.Memory.Stored > 128<<20 })
	m := st.Memory
	if m.Limit != 64<<20 || m.Ceiling <= 0 || m.Ceiling > m.Limit || m.Held == 0 || m.Reports == 0 || st.Instances[0].Entries == 0 {
		t.Errorf("memory %+v, %d greetings on instance A", m, st.Instances[0].Entries)
	}
	// Requests read the greetings again and again, so reports pay.
	if greetings := m.Evicted - m.Reports; greetings > m.Reports/10 {
		t.Errorf("%d reports and %d greetings were evicted", m.Reports, greetings)
	}
	if said := do(t, s, "fill off"); !strings.Contains(said, " MiB of them were stored so far") {
		t.Error(said)
	}
	if st := s.State(t.Context(), 0); st.Filling || st.Memory.Held != 0 {
		t.Errorf("after the end: %+v", st.Memory)
	}
	if _, err := New(t.Context(), Options{MemoryLimit: 1}); err == nil {
		t.Error("a limit of a byte is taken")
	}
}

func TestFailuresAreToldByTheirMostFrequentReason(t *testing.T) {
	g := newGenerator(1)
	for i := range 1000 {
		g.fail(fmt.Errorf("error %d\nof many", i))
	}
	g.fail(fmt.Errorf("greet: %w", context.DeadlineExceeded))
	g.refused.Add(5000)
	if _, failed, why, _ := g.second(); failed != 6001 || why != tooMany {
		t.Errorf("%d failures: %s", failed, why)
	}
	for range 3 {
		g.fail(fmt.Errorf("greet: %w", context.DeadlineExceeded))
	}
	g.fail(errors.New(strings.Repeat("x", 5000)))
	if _, failed, why, _ := g.second(); failed != 4 || why != tooSlow {
		t.Errorf("%d failures: %s", failed, why)
	}
	g.fail(errors.New(strings.Repeat("x", 5000)))
	if _, _, why, _ := g.second(); len(why) > 2*maxAction {
		t.Errorf("a reason has %d bytes", len(why))
	}
	if _, failed, why, _ := g.second(); failed != 0 || why != "" {
		t.Errorf("%d failures in a quiet second: %s", failed, why)
	}
}

func TestBadActionsChangeNothing(t *testing.T) {
	for _, bad := range []string{
		"", "  ", "dance", "mode", "mode fast", "mode none naive", "break l3", "slow", "slow 10", "slow -1s", "slow 1h", "rate 0", "rate x",
		"rate 999999", "restart c cold", "restart a hot", "load x", "load 5", "jitter", "jitter 0.1", "jitter on off", "fill", "fill 5", "watch", "watch a b", "invalidate " + strings.Repeat("x", 101), strings.Repeat("x", 500), "watch a\x1bb",
	} {
		if _, _, err := parse(bad); err == nil {
			t.Errorf("%q is an action", bad)
		}
	}
	for _, line := range Help() {
		if len(line) > 100 {
			t.Errorf("%q is long", line)
		}
	}
}

func TestScriptsAreParsedWithTheirLines(t *testing.T) {
	s, err := ParseScript([]byte("# a comment\n\nat\t1s  break l2\n  at 1.5s   mend l2 \nat 3s end\n"))
	if err != nil || len(s.Steps) != 2 || s.Steps[1].At != 1500*time.Millisecond || s.Steps[1].Action != "mend l2" || s.End != 3*time.Second || !s.HasEnd {
		t.Errorf("%+v, %v", s, err)
	}
	if s, err = ParseScript([]byte("at 1s expire")); err != nil || s.End != 6*time.Second || s.HasEnd {
		t.Errorf("%+v, %v", s, err)
	}
	for text, want := range map[string]string{
		"at 1s expire\nat 5 expire":        "line 2",
		"at 2s expire\n\nat 1s expire":     "line 3: 1s is before 2s",
		"in 1s expire":                     "line 1: want: at TIME ACTION",
		"at 1s":                            "line 1",
		"at 1s explode":                    "line 1: no action is called",
		"at 1s end\nat 2s expire":          "line 2: the script has ended",
		"at 2h expire":                     "line 1",
		strings.Repeat("#", maxScript+1):   "longer than",
		"at 1s slow 1y":                    "line 1: slow",
		"at 9999999999999999999999s break": "line 1",
	} {
		if _, err := ParseScript([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40q: %v, want %q", text, err, want)
		}
	}
}

func FuzzParseScript(f *testing.F) {
	f.Add([]byte("at 1s break l2\nat 2s end"))
	f.Add([]byte("at 1s watch \xff\n#\r\nat 1h rate 5"))
	f.Fuzz(func(t *testing.T, text []byte) {
		s, err := ParseScript(text)
		if err != nil {
			return
		}
		last := time.Duration(0)
		for _, step := range s.Steps {
			if _, _, err := parse(step.Action); err != nil || step.At < last {
				t.Errorf("%+v: %v", step, err)
			}
			last = step.At
		}
	})
}

func TestScriptIsPlayed(t *testing.T) {
	s := newStage(t)
	script, err := ParseScript([]byte("at 0s break origin\nat 100ms mend origin\nat 1500ms end"))
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := s.Play(t.Context(), script, &out); err != nil {
		t.Fatal(err)
	}
	text := out.String()
	if !strings.Contains(text, "0.0s  * break origin: The origin is broken.\n") || !strings.Contains(text, "0.1s  * mend origin: The origin is mended.\n") || strings.Count(text, "\n") < 4 {
		t.Error(text)
	}
	for line := range strings.Lines(text) {
		if len([]rune(line)) > 91 {
			t.Errorf("%q is wider than a terminal", line)
		}
	}
}

func TestPageAnswersTheTokenWithStateAndActions(t *testing.T) {
	s := newStage(t)
	p, err := s.Page()
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(p)
	defer server.Close()
	defer p.Close()
	client := &http.Client{Transport: bearer{}}
	get := func(path string) (int, string) {
		r, err := client.Get(server.URL + path)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Body.Close()
		body, _ := io.ReadAll(r.Body)
		return r.StatusCode, string(body)
	}
	for path, want := range map[string]string{"/": "<title>strata: the stage", "/assets/stage.js": "import {", "/assets/uplot.js": "uPlot", "/api/state": `"mode":"strata"`} {
		if status, body := get(path); status != 200 || !strings.Contains(body, want) {
			t.Errorf("%s: %d %.80s", path, status, body)
		}
	}
	for path, want := range map[string]int{"/x": 404, "/api/do": 405, "/api/state?after=x": 400, "/assets/none.js": 404} {
		if status, _ := get(path); status != want {
			t.Errorf("%s: %d, want %d", path, status, want)
		}
	}
	post := func(body string) (int, string) {
		r, err := client.Post(server.URL+"/api/do", "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		defer r.Body.Close()
		text, _ := io.ReadAll(r.Body)
		return r.StatusCode, string(text)
	}
	if status, body := post(`{"action":"slow 5ms"}`); status != 200 || !strings.Contains(body, `"ok":true`) {
		t.Errorf("%d %s", status, body)
	}
	for _, bad := range []string{`{"action":"dance"}`, `{}`, `x`, `{"action":"expire","more":1}`, `{"action":"jitter 1"}`, `{"action":"load all"}`} {
		if status, body := post(bad); status != 400 {
			t.Errorf("%s: %d %s", bad, status, body)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	req, _ := http.NewRequestWithContext(ctx, http.MethodGet, server.URL+"/api/stream", nil)
	r, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	event := make([]byte, 6)
	var st State
	if _, err := io.ReadFull(r.Body, event); err != nil || string(event) != "data: " {
		t.Fatalf("%q, %v", event, err)
	}
	if err := json.NewDecoder(r.Body).Decode(&st); err != nil || st.Mode != hello.Strata || st.Latency != int64(5*time.Millisecond) {
		t.Errorf("%+v, %v", st, err)
	}
	for _, action := range []string{"expire", "load", "jitter off"} {
		outside := httptest.NewRequest(http.MethodPost, "/api/do", strings.NewReader(`{"action":"`+action+`"}`))
		outside.Host, outside.RemoteAddr = "localhost", "127.0.0.1:5"
		w := httptest.NewRecorder()
		if p.ServeHTTP(w, outside); w.Code != http.StatusForbidden {
			t.Errorf("%s without the token: %d", action, w.Code)
		}
	}
	if st := s.State(t.Context(), 0); st.Jitter != 0.1 || len(st.Marks) > 2 {
		t.Errorf("requests without the token have done something: %+v", st.Marks)
	}
}
