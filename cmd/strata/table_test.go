package main

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/strata-cache/strata/cmd/strata/hello"
	"github.com/strata-cache/strata/cmd/strata/load"
	"github.com/strata-cache/strata/snapshot"
)

func TestNumbersAreReadable(t *testing.T) {
	for _, tt := range []struct{ name, got, want string }{
		{"small count", count(0), "0"},
		{"no separator", count(999), "999"},
		{"one separator", count(1000), "1,000"},
		{"two separators", count(1234567), "1,234,567"},
		{"negative", count(-123456), "-123,456"},
		{"no duration", duration(0), "-"},
		{"microseconds", duration(1500 * time.Nanosecond), "1.50 µs"},
		{"tens of microseconds", duration(45_670 * time.Nanosecond), "45.7 µs"},
		{"nearly a millisecond", duration(999_600 * time.Nanosecond), "1.00 ms"},
		{"milliseconds", duration(123_456 * time.Microsecond), "123 ms"},
		{"nearly a second", duration(999_600 * time.Microsecond), "1.00 s"},
		{"seconds", duration(12_345 * time.Millisecond), "12.3 s"},
		{"many seconds", duration(3600 * time.Second), "3,600 s"},
		{"chosen seconds", seconds(5 * time.Second), "5 s"},
		{"chosen fraction", seconds(1500 * time.Millisecond), "1.5 s"},
		{"chosen minutes", seconds(90 * time.Second), "1m30s"},
		{"slow rate", rate(1.234), "1.23"},
		{"no rate", rate(0), "0"},
		{"fast rate", rate(4999.6), "5,000"},
		{"bytes", bytes(999), "999 B"},
		{"kilobytes", bytes(1234), "1.23 kB"},
		{"gigabytes", bytes(12_345_678_901), "12.3 GB"},
		{"most digits", short(999_949), "999,949"},
		{"nearly a million", short(999_950), "1.00 M"},
		{"millions", short(345_678_901), "346 M"},
		{"one thing", plural(1, "URL", "URLs"), "1 URL"},
		{"things", plural(1000, "URL", "URLs"), "1,000 URLs"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if tt.got != tt.want {
				t.Errorf("%q; want %q", tt.got, tt.want)
			}
		})
	}
}

const comparisonText = `origin     SQLite
L2         embedded
load       each mode: 5,000 requests/s for 5 s, 10,000 URLs in groups of 100, up
           to 200 at once
           latency from the intended start; client and service share CPUs
shared     requests that joined the load of another
restarted  a new instance of strata, for 10 s: memory is empty, L2 is not

           requests                     origin     L1    L2
mode          per s      p50      p99  queries   hits  hits  shared  errors
none            680   1.88 s   3.42 s    8,398      0     0       0   1,002
restarted       800  4.56 ms  9.81 ms        0  4,542   250  12.3 M       0

requests that hit L1 in %, in steps of 0.5 s after the start of an instance

            1   2   3   4   5   6   7   8   9   10
restarted  12  22  32  42  52  62  72  82  92  100  ▁▂▃▃▄▅▆▇▇█

p99 in ms, in the same steps

             1    2   3   4   5    6    7    8    9   10
restarted  720  360  80  26  11  5.7  3.3  2.1  1.4  1.0  █▄▁

restarted: 240 of 250 entries in 12.0 ms, before the first request
none could not keep up: 16,602 requests of the schedule not sent
none: 1,000 × 503 Service Unavailable, 2 × timeout
`

func TestComparisonIsATable(t *testing.T) {
	c := &comparison{
		load:   load.Options{Rate: 5000, Duration: 5 * time.Second, Cardinality: 10_000, Group: 100, Concurrency: 200},
		phases: []phase{phase(hello.None), restarted},
		facts:  facts{{"origin", "SQLite"}, {"L2", "embedded"}},
	}
	rows := []row{
		{phase: phase(hello.None), queries: 8398, result: &load.Result{
			Elapsed: 5 * time.Second, Done: 3400, Unsent: 16_602,
			Status: map[int]int64{200: 2398, 503: 1000}, Errors: map[load.Kind]int64{load.Timeout: 2},
			Latency: load.Latencies{P50: 1880 * time.Millisecond, P95: 3340 * time.Millisecond, P99: 3420 * time.Millisecond},
		}},
		{phase: restarted, cache: hello.Counts{L1Hits: 4542, L2Hits: 250, Shared: 12_300_000}, result: &load.Result{
			Elapsed: 5*time.Second + 1_234_567*time.Nanosecond, Done: 4_000, Status: map[int]int64{200: 4_000},
			Latency: load.Latencies{P50: 4560 * time.Microsecond, P95: 7100 * time.Microsecond, P99: 9810 * time.Microsecond},
		}},
	}
	for i := range steps {
		rows[1].hits = append(rows[1].hits, min(100, float64(12+10*i)))
		rows[1].result.Steps = append(rows[1].result.Steps, load.Latencies{P99: 720 * time.Millisecond / time.Duration(i*i*i+1)})
	}
	rows[1].start = snapshot.Report{Took: 12 * time.Millisecond, Caches: []snapshot.CacheReport{{Entries: 250, Stored: 200, Confirmed: 40}}}
	var b strings.Builder
	if err := c.write(&b, rows); err != nil {
		t.Fatal(err)
	}
	// The number of processors depends on the machine.
	lines := strings.Split(b.String(), "\n")
	if i := strings.Index(lines[4], "share "); i >= 0 {
		lines[4] = lines[4][:i] + "share CPUs"
	}
	compare(t, strings.Join(lines, "\n"), comparisonText)

	c.load.Rate = 0
	b.Reset()
	if err := c.write(&b, rows); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(b.String(), "unlimited requests/s") || !strings.Contains(b.String(), "from the sending") {
		t.Errorf("load without a rate is described as\n%s", b.String())
	}
	checkWidth(t, b.String())
}

const reportText = `target    http://***@127.0.0.1:8008/{i}?***
load      100 requests/s for 10 s, 10 URLs, up to 50 at once
done      1,000 requests in 10.0 s (interrupted): 100 requests/s
received  1.23 MB
errors    103 requests: 10.30 % are errors
unsent    1 request of the schedule: the target could not keep up

latency from       mean      p50      p90      p95      p99    p99.9      max
intended start  2.00 ms  1.00 ms  3.00 ms  4.00 ms  5.00 ms  6.00 ms  7.00 ms
sending         1.00 ms   500 µs  1.50 ms  2.00 ms  2.50 ms  3.00 ms  3.50 ms

status                   answers    share
200 OK                       897  89.70 %
503 Service Unavailable      100  10.00 %

error    requests   share
other           1  0.10 %
timeout         2  0.20 %
other, for example: something else
`

func TestReportIsComplete(t *testing.T) {
	l := func(unit time.Duration) load.Latencies {
		return load.Latencies{Count: 1, Mean: 2 * unit, P50: unit, P90: 3 * unit, P95: 4 * unit, P99: 5 * unit, P999: 6 * unit, Max: 7 * unit}
	}
	o := load.Options{URL: "http://u:secret@127.0.0.1:8008/{i}?name=World", Rate: 100, Duration: 10 * time.Second, Cardinality: 10, Group: 1, Concurrency: 50}
	r := &load.Result{
		Elapsed: 10 * time.Second, Done: 1000, Unsent: 1, Interrupted: true, Bytes: 1_234_567,
		Status: map[int]int64{200: 897, 503: 100}, Errors: map[load.Kind]int64{load.Timeout: 2, load.OtherError: 1},
		ErrorExample: "something else", Latency: l(time.Millisecond), Service: l(500 * time.Microsecond),
	}
	var b strings.Builder
	if err := writeReport(&b, o, r); err != nil {
		t.Fatal(err)
	}
	compare(t, b.String(), reportText)
}

// The factor is not bounded by a rate, and needs both rows.
func TestUnlimitedDemoShowsTheFactorBetweenNoneAndStrata(t *testing.T) {
	done := func(p phase, n int64) row {
		return row{phase: p, result: &load.Result{Elapsed: time.Second, Done: n, Status: map[int]int64{200: n}}}
	}
	both := []row{done(phase(hello.None), 1000), done(phase(hello.Strata), 60_400), done(restarted, 5)}
	for _, tt := range []struct {
		name string
		rate float64
		rows []row
		want string
	}{
		{"unlimited", 0, both, "\n\nstrata answered 60.4 times as many requests/s as none\n"},
		{"with a rate", 100, both, ""},
		{"without none", 0, both[1:], ""},
		{"without strata", 0, both[:1], ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := &comparison{load: load.Options{Rate: tt.rate, Duration: time.Second, Cardinality: 1, Group: 1, Concurrency: 1}}
			var b strings.Builder
			if err := c.write(&b, tt.rows); err != nil {
				t.Fatal(err)
			}
			if got := b.String(); !strings.HasSuffix(got, tt.want) || tt.want == "" && strings.Contains(got, "times as many") {
				t.Errorf("got\n%s\nwant at the end %q", got, tt.want)
			}
			checkWidth(t, b.String())
		})
	}
}

func TestLongTextsKeepToTheScreen(t *testing.T) {
	word := strings.Repeat("x", 90)
	for _, tt := range []struct{ text, want string }{
		{"", ""},
		{"a b", "a b"},
		{strings.Repeat("ä", 40) + " " + strings.Repeat("ö", 39), strings.Repeat("ä", 40) + " " + strings.Repeat("ö", 39)},
		{strings.Repeat("ä", 40) + " " + strings.Repeat("ö", 40), strings.Repeat("ä", 40) + "|" + strings.Repeat("ö", 40)},
		{"a " + word + " b", "a|" + word + "|b"},
	} {
		if got := strings.Join(wrap(tt.text, screen), "|"); got != tt.want {
			t.Errorf("%q is split into %q; want %q", tt.text, got, tt.want)
		}
	}
}

func TestReportOfNothingIsShort(t *testing.T) {
	var b strings.Builder
	o := load.Options{URL: "http://127.0.0.1/", Duration: time.Second, Concurrency: 1}
	if err := writeReport(&b, o, &load.Result{Interrupted: true}); err != nil {
		t.Fatal(err)
	}
	compare(t, b.String(), `target    http://127.0.0.1/
load      unlimited requests/s for 1 s, up to 1 at once
done      0 requests in - (interrupted): 0 requests/s
received  0 B
`)
}

func TestReportTellsChangesAndEscapesTheTarget(t *testing.T) {
	var b strings.Builder
	o := load.Options{URL: "http://127.0.0.1/\u009b2J\u202e", Duration: time.Second, Concurrency: 1}
	r := &load.Result{
		Done: 1, Elapsed: time.Second, Changes: 3, Settings: load.Settings{Rate: 1500, Concurrency: 20, Paused: true},
		Latency: load.Latencies{Count: 1, Max: 2 * time.Second},
		Service: load.Latencies{Count: 1, Max: time.Second},
	}
	if err := writeReport(&b, o, r); err != nil {
		t.Fatal(err)
	}
	compare(t, b.String(), `target    http://127.0.0.1/\u009b2J\u202e
load      unlimited requests/s for 1 s, up to 1 at once
done      1 request in 1.00 s: 1.00 requests/s
received  0 B
changed   3 times while it ran, to 1,500 requests/s, up to 20 at once, paused

latency from    mean  p50  p90  p95  p99  p99.9     max
intended start     -    -    -    -    -      -  2.00 s
sending            -    -    -    -    -      -  1.00 s
`)
}

func compare(t *testing.T, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	checkWidth(t, got)
}

// checkWidth checks that no line wraps on a terminal of 80 columns.
func checkWidth(t *testing.T, text string) {
	t.Helper()
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		if n := utf8.RuneCountInString(line); n > 80 {
			t.Errorf("line of %d columns: %s", n, line)
		}
		if strings.TrimRight(line, " ") != line {
			t.Errorf("line ends with spaces: %q", line)
		}
	}
}
