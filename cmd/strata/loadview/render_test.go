package loadview

import (
	"fmt"
	"math"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	tea "charm.land/bubbletea/v2"

	"github.com/strata-cache/strata/cmd/strata/load"
)

var styles = regexp.MustCompile(`\x1b\[[0-9;]*m`) // read-only

// text returns the screen without styles.
func text(m *model) string { return styles.ReplaceAllString(m.View().Content, "") }

func last(m *model) string {
	s := text(m)
	return s[strings.LastIndexByte(s, '\n')+1:]
}

// buckets returns the buckets of a load with counts by their begin.
func buckets(counts map[time.Duration]int64) (all []load.Bucket) {
	from := time.Duration(0)
	for decade := 10 * time.Microsecond; decade < 1000*time.Second; decade *= 10 {
		for _, tenths := range []time.Duration{10, 15, 20, 30, 50, 70} {
			to := decade * tenths / 10
			all = append(all, load.Bucket{From: from, To: to, Count: counts[from]})
			from = to
		}
	}
	return append(all,
		load.Bucket{From: from, To: 1000 * time.Second, Count: counts[from]},
		load.Bucket{From: 1000 * time.Second, Count: counts[1000*time.Second]})
}

// running returns the model of a load after 30 looks.
func running() (*model, *fake) {
	f := &fake{settings: load.Settings{Rate: 1000, Concurrency: 50}}
	m := newModel(f, "http://127.0.0.1:8008/hello?name=World{i}", time.Minute, false)
	for i := range int64(30) {
		n := (i + 1) * 500
		f.progress = load.Progress{
			Elapsed: time.Duration(i+1) * every, Rate: 1000, Done: n, Errors: n / 500, Running: 12, Behind: 3,
			Latency:  load.Latencies{Count: n, P50: 3500 * time.Microsecond, P90: 9 * time.Millisecond, P99: 25 * time.Millisecond, P999: 90 * time.Millisecond, Max: 1200 * time.Millisecond},
			Recent:   load.Latencies{Count: 500, P50: 800 * time.Microsecond, P90: 2 * time.Millisecond, P99: 3 * time.Millisecond, P999: 4 * time.Millisecond, Max: 5 * time.Millisecond},
			Status:   map[int]int64{200: n * 9 / 10, 503: n / 10},
			Failures: map[load.Kind]int64{load.Timeout: n / 500},
			Buckets: buckets(map[time.Duration]int64{
				500 * time.Microsecond: n / 5, time.Millisecond: n / 2, 2 * time.Millisecond: n / 4, 5 * time.Millisecond: n / 20,
			}),
		}
		m.Update(tickMsg{})
	}
	return m, f
}

const screen80x24 = `
strata load  http://127.0.0.1:8008/hello?name=World{i}                   running
15 s of 1m0s  ━━━━━━━━━━━━━━─────────────────────────────────────────  45 s left
rate     1,000 requests/s         now 1,000 requests/s
at once  up to 50                 now 12, and 3 behind
done     15,000                   30 errors

latency         p50       p90       p99     p99.9       max
now          800 µs   2.00 ms   3.00 ms   4.00 ms   5.00 ms
whole run   3.50 ms   9.00 ms   25.0 ms   90.0 ms    1.20 s

latencies of the last 10 s
  500 µs - 1 ms  █████████████████████▋                                   20.0 %
    1 ms - 2 ms  ██████████████████████████████████████████████████████   50.0 %
    2 ms - 5 ms  ███████████████████████████                              25.0 %
   5 ms - 10 ms  █████▍                                                    5.0 %

answers per second                                                now      total
200 OK                   ███████████████                        900/s     13,500
503 Service Unavailable  ▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁                        100/s      1,500
errors                   ▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁                          2/s         30



↑↓ rate  ←→ at once  shift: twice, half  0 no limit  p pause  q quit
`

func TestScreenAt80x24(t *testing.T) {
	m, _ := running()
	compare(t, text(m), screen80x24)
}

const screen40x10 = `
strata load  http://127.0.0.1:…  running
15 s of 1m0s  ━━━━───────────  45 s left
rate 1,000 requests/s, now 1,000
at once 50, now 12, 3 behind
done 15,000, 30 errors
         p50      p90      p99      max
now   800 µs  2.00 ms  3.00 ms  5.00 ms
run  3.50 ms  9.00 ms  25.0 ms   1.20 s

↑↓ rate  ←→ at once  p pause  q quit
`

func TestScreenAt40x10(t *testing.T) {
	m, _ := running()
	m.Update(tea.WindowSizeMsg{Width: 40, Height: 10})
	compare(t, text(m), screen40x10)
}

func TestScreenBeforeTheFirstAnswer(t *testing.T) {
	m := newModel(&fake{settings: load.Settings{Concurrency: 50}}, "http://target/", 10*time.Second, false)
	compare(t, text(m), screenOfNothing)
}

const screenOfNothing = `
strata load  http://target/                                              running
0 s of 10 s  ────────────────────────────────────────────────────────  10 s left
rate     no limit                 now 0 requests/s
at once  up to 50                 now 0
done     0

latency         p50       p90       p99     p99.9       max
now               -         -         -         -         -
whole run         -         -         -         -         -

latencies since the start
none yet

answers per second                                                now      total
none yet








↑↓ rate  ←→ at once  shift: twice, half  0 no limit  p pause  q quit
`

func TestRateOfNowSmoothsASlowRate(t *testing.T) {
	f := &fake{settings: load.Settings{Rate: 1, Concurrency: 1}}
	m := newModel(f, "http://target/", time.Minute, false)
	for i := range int64(20) {
		f.progress = load.Progress{Elapsed: time.Duration(i+1) * every, Done: (i + 2) / 2}
		m.Update(tickMsg{})
		if i < rateWindow {
			continue
		}
		if s := text(m); !strings.Contains(s, "now 1 requests/s") {
			t.Fatalf("the screen is\n%s", s)
		}
	}
}

func TestPauseAndEndAreShown(t *testing.T) {
	m, f := running()
	m.Update(key("p"))
	if s := text(m); !strings.Contains(s, "  paused\n") || !strings.Contains(s, "p go on") {
		t.Errorf("the screen is\n%s", s)
	}
	f.progress.Elapsed = time.Minute + 2*time.Second
	m.Update(tickMsg{})
	if s := text(m); !strings.Contains(s, "  ending\n") || !strings.Contains(s, "1m0s of 1m0s") || !strings.Contains(s, "  0 s left") {
		t.Errorf("the screen is\n%s", s)
	}
}

// huge returns a model with the largest numbers.
func huge() *model {
	f := &fake{settings: load.Settings{Rate: load.MaxRate, Concurrency: load.MaxConcurrency}}
	m := newModel(f, "http://"+strings.Repeat("long", 1000), math.MaxInt64, true)
	counts := map[time.Duration]int64{}
	for _, b := range buckets(nil) {
		counts[b.From] = math.MaxInt64 / 100
	}
	status := map[int]int64{}
	for code := range 100 {
		status[code*10] = math.MaxInt64 / 100
	}
	l := load.Latencies{Count: math.MaxInt64, Mean: math.MaxInt64, P50: math.MaxInt64, P90: math.MaxInt64, P99: math.MaxInt64, P999: math.MaxInt64, Max: math.MaxInt64}
	for range 400 {
		f.progress = load.Progress{
			Elapsed: math.MaxInt64, Rate: math.Inf(1), Done: math.MaxInt64, Errors: math.MaxInt64, Running: math.MaxInt64, Behind: math.MaxInt64,
			Latency: l, Recent: l, Status: status, Buckets: buckets(counts),
		}
		m.Update(tickMsg{})
	}
	return m
}

func TestEveryScreenFitsItsTerminal(t *testing.T) {
	typical, _ := running()
	noted, _ := running()
	noted.note = strings.Repeat("note ", 50)
	for name, m := range map[string]*model{
		"typical": typical, "note": noted, "huge": huge(),
		"nothing": newModel(&fake{}, "", 0, true),
	} {
		for width := 0; width < 250; width += 1 + width/10 {
			for height := 0; height < 60; height += 1 + height/10 {
				m.Update(tea.WindowSizeMsg{Width: width, Height: height})
				if wrong := misfit(text(m), width, height); wrong != "" {
					t.Fatalf("%s: %s on %dx%d:\n%s", name, wrong, width, height, text(m))
				}
			}
		}
	}
}

// misfit tells how a screen does not fit a terminal.
func misfit(screen string, width, height int) string {
	if n := strings.Count(screen, "\n") + 1; n > max(1, height) || height >= 9 && width > 0 && n != height {
		return fmt.Sprintf("%d lines", n)
	}
	for l := range strings.SplitSeq(screen, "\n") {
		if n := utf8.RuneCountInString(l); n > width {
			return fmt.Sprintf("a line of %d columns", n)
		}
	}
	return ""
}

func TestHostileTextIsEscaped(t *testing.T) {
	m := newModel(&fake{}, "http://t/\x1b]0;x\a\u009b2J\r\n\u202e\U0001F600\x7f\xff", time.Minute, true)
	m.Update(tea.WindowSizeMsg{Width: 120, Height: 24})
	s := text(m)
	if want := `http://t/\x1b]0;x\a\u009b2J\r\n\u202e\U0001f600\x7f\ufffd`; !strings.Contains(s, want) {
		t.Errorf("the screen does not contain %s:\n%q", want, s)
	}
	if strings.ContainsAny(s, "\x1b\a\u009b\r\u202e\x7f") {
		t.Errorf("the screen is %q", s)
	}
}

func TestWithoutColoursThereAreNone(t *testing.T) {
	colours := regexp.MustCompile(`\x1b\[([0-9;]*;)?[349][0-9][0-9;]*m`)
	m, _ := running()
	if s := m.View().Content; colours.MatchString(s) {
		t.Errorf("a screen without colours is %q", s)
	}
	m.look = newLook(true)
	if s := m.View().Content; !colours.MatchString(s) {
		t.Errorf("a screen with colours is %q", s)
	}
}

func TestMergedBucketsCountEveryRequest(t *testing.T) {
	for range 2000 {
		counts := map[time.Duration]int64{}
		for _, b := range buckets(nil) {
			if rand.IntN(3) == 0 {
				counts[b.From] = int64(math.Exp(rand.Float64() * 15))
			}
		}
		all, most := buckets(counts), 1+rand.IntN(20)
		merged := merge(all, most)
		if len(merged) > most {
			t.Fatalf("%d of at most %d buckets", len(merged), most)
		}
		sum := func(of []load.Bucket) (n int64) {
			for _, b := range of {
				n += b.Count
			}
			return n
		}
		if sum(all) != sum(merged) {
			t.Fatalf("%d requests of %d: %+v", sum(merged), sum(all), merged)
		}
		for i, b := range merged[1:] {
			if merged[i].To != b.From {
				t.Fatalf("there is a gap: %+v", merged)
			}
		}
	}
}

func TestRareAnswersAreChartedTogether(t *testing.T) {
	m, f := running()
	f.progress.Status = map[int]int64{200: 5000, 201: 1, 302: 300, 404: 40, 500: 5, 999: 7000}
	m.Update(tickMsg{})
	m.Update(tickMsg{})
	for most, want := range map[int][]int{
		8: {200, 201, 302, 404, 500, 999, failures},
		6: {200, 302, 999, 404, others, failures},
		4: {200, 999, others, failures},
		2: {others, failures},
		1: {failures},
	} {
		var got []int
		total := int64(0)
		for _, s := range m.past.chart(m.now, 10, most) {
			got = append(got, s.code)
			total += s.total
		}
		if len(got) != len(want) {
			t.Errorf("at most %d: codes %v; want %v", most, got, want)
		}
		if want := int64(12346 + 30); most > 1 && total != want {
			t.Errorf("at most %d: %d answers and errors; want %d", most, total, want)
		}
	}
}

func compare(t *testing.T, got, want string) {
	t.Helper()
	lines := strings.Split(got, "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " ")
	}
	if got := strings.Join(lines, "\n"); got != strings.Trim(want, "\n") {
		t.Errorf("got\n%s\nwant%s", got, want)
	}
}
