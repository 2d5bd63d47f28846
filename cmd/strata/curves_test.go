package main

import (
	"context"
	"errors"
	"net"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/strata-cache/strata/cmd/strata/expiry"
	"github.com/strata-cache/strata/cmd/strata/hello"
	"github.com/strata-cache/strata/cmd/strata/load"
	"github.com/strata-cache/strata/cmd/strata/origin"
)

const synchronyText = `
10,000 keys are loaded together with a TTL of 40 s, and each is read 5 times a
step from 26 s on: origin queries in steps of 1 s, by the time since the load.
The origin only counts. A read refreshes an entry after 0.8 of its life.

         worst
Jitter  second  28 s   29 s   30 s   31 s   32 s  33 s
0        9,800     0      0      0      0  9,800   200      █
0.1      3,100   120  3,100  3,000  2,900    880     0   ▃▂▂▁
`

// The columns begin with the first query, and both charts have one scale.
func TestCurvesOfExpiryAreATable(t *testing.T) {
	at := func(second int, n ...int64) []int64 { return append(make([]int64, second), n...) }
	s := newSynchrony([]phase{phase(hello.Naive), phase(hello.Strata), restarted, warmTransfer}, time.Hour)
	s.curves = []expiry.Curve{{Jitter: 0, Queries: at(32, 9800, 200)}, {Jitter: 0.1, Queries: at(28, 120, 3100, 3000, 2900, 880)}}
	var b strings.Builder
	if err := s.write(&b); err != nil {
		t.Fatal(err)
	}
	compare(t, b.String(), synchronyText)

	// A slow machine needs more steps than there are columns.
	s.options.Step, s.options.TTL = 200*time.Millisecond, 8*time.Second
	s.curves[0].Queries = at(32, 2_000_000, 2_000_000, 2_000_000, 2_000_000, 2_000_000, 2_000_000, 2_000_000, 1)
	b.Reset()
	if err := s.write(&b); err != nil {
		t.Fatal(err)
	}
	if text := b.String(); !strings.Contains(text, "Jitter   0.2 s   6.8 s     7 s") || !strings.Contains(text, "7.8 s\n0       2.00 M  2.00 M") {
		t.Error(text)
	}
	checkWidth(t, b.String())
}

// The measurement ends before the comparison, and needs a long enough one.
func TestExpiryIsMeasuredBesideTheComparison(t *testing.T) {
	all := []phase{phase(hello.None), phase(hello.Naive), phase(hello.Strata), restarted, warmKeys, warmTransfer}
	for _, tt := range []struct {
		phases    []phase
		each      time.Duration
		step, ttl time.Duration // 0 is none
	}{
		{all, 5 * time.Second, time.Second, 40 * time.Second},
		{all, time.Hour, time.Second, 40 * time.Second},
		{all, 2 * time.Second, 400 * time.Millisecond, 16 * time.Second},
		{all, time.Second, 0, 0},
		{all[2:], 5 * time.Second, 35 * time.Second / 45, 40 * (35 * time.Second / 45)},
		{all[:2], time.Hour, 0, 0},
	} {
		d := demoCommand{Duration: tt.each}
		s := d.comparison(plan{phases: tt.phases}, &net.TCPAddr{}).beside
		if s == nil && tt.step == 0 {
			continue
		}
		if s == nil || s.options.Step != tt.step || s.options.TTL != tt.ttl || s.options.Keys != 10_000 {
			t.Errorf("%v of %v each: %+v", tt.phases, tt.each, s)
		}
	}
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		s := newSynchrony(all, 5*time.Second)
		s.options.Keys = 2_000 // for the race detector
		if err := s.start(t.Context())(); err != nil || time.Since(begun) > 35*time.Second {
			t.Errorf("%v after %v", err, time.Since(begun))
		}
		if len(s.curves) != 2 || s.curves[0].Worst() < 2*s.curves[1].Worst() {
			t.Errorf("%+v", s.curves)
		}
	})
}

// TestComparisonShowsTheExpiryMeasuredBesideIt runs a comparison with a small measurement on a service of its own.
func TestComparisonShowsTheExpiryMeasuredBesideIt(t *testing.T) {
	db, err := origin.Open(t.Context(), origin.Options{URL: "sqlite:" + filepath.Join(t.TempDir(), "db")})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	service, err := hello.New(hello.Options{Origin: db})
	if err != nil {
		t.Fatal(err)
	}
	defer closeService(service)
	server := httptest.NewServer(service)
	defer server.Close()
	c := &comparison{
		load:   load.Options{URL: server.URL + "/hello?name=World{i}&locale=ru-RU", Rate: 10, Cardinality: 1, Group: 1, Concurrency: 5, Duration: 500 * time.Millisecond},
		phases: []phase{phase(hello.Strata)}, service: service,
		beside: &synchrony{options: expiry.Options{Keys: 400, TTL: 400 * time.Millisecond, Step: 10 * time.Millisecond, Jitters: []float64{0, 0.1}}},
	}
	var out, errs output
	if err := c.run(&environment{ctx: t.Context(), stdout: &out, stderr: &errs}); err != nil {
		t.Fatal(err)
	}
	if text := out.String(); !strings.Contains(text, "\n400 keys are loaded together with a TTL of 0.4 s") || strings.Count(text, "\n0") != 2 {
		t.Error(text)
	}
}

func TestInterruptedExpiryIsNotShown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, interrupt := context.WithCancel(t.Context())
		s := newSynchrony([]phase{phase(hello.Strata)}, time.Hour)
		wait := s.start(ctx)
		interrupt()
		var b strings.Builder
		if err := wait(); !errors.Is(err, context.Canceled) || s.write(&b) != nil || b.Len() > 0 {
			t.Errorf("%v, %q", err, b.String())
		}
	})
	var none *synchrony
	var b strings.Builder
	if err := none.start(t.Context())(); err != nil || none.write(&b) != nil || b.Len() > 0 {
		t.Errorf("%v, %q", err, b.String())
	}
}
