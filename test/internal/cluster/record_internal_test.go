//go:build linux

package cluster

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"github.com/strata-cache/strata/internal/testing/checker"
)

func TestRecordsSurviveAsTheyWereMade(t *testing.T) {
	path := filepath.Join(t.TempDir(), "records")
	r, err := newRecorder(path, 0)
	if err != nil {
		t.Fatal(err)
	}
	type T = checker.Time
	read := checker.Read{Key: "k1", Of: "k2", Version: 7, Call: 10, Return: 11, Stale: true}
	r.read(read)
	read.Call, read.Return = 14, 15
	r.read(read)
	read.Call, read.Return = 12, 13
	r.read(read) // one with the first two
	read.Call += together
	r.read(read)
	read.Stale = false
	r.read(read)
	read.Version = 8
	r.read(read)
	r.add(recFence, uint64(1), "k1", uint64(3), T(20), true, false)
	r.add(recFence, uint64(2), allKeys, uint64(0), T(21), false, true)
	r.add(recFenced, uint64(1), T(22), true)
	r.add(recLoad, uint64(3), "k1", T(30), T(31))
	r.add(recLoad, uint64(4), "k2", T(32), T(33))
	r.add(recLoaded, uint64(4), uint64(9), T(34), true)
	r.add(recLeft, "k1", T(40), T(41))
	r.add(recDropped, allKeys, T(42), T(43))
	r.add(recStalled, T(44), T(45))
	r.add(recAsked, "k1", "k1", uint64(3), T(46), T(47), false, false, true)
	r.add(recRemote, T(50), "drop-all")
	r.add(recHears, T(60), true)
	r.add(recSample, T(70), `{"Goroutines":5}`)
	r.flush()
	r.read(read)
	read.Key = "k3"
	r.read(read)
	r.keep(recSurprise, T(80), "so it goes") // not the reads
	want := &Log{
		Reads: []checker.Read{
			{Instance: 4, Key: "k1", Of: "k2", Version: 7, Call: 14, Return: 11, Stale: true, More: 2},
			{Instance: 4, Key: "k1", Of: "k2", Version: 7, Call: 12 + together, Return: 13, Stale: true},
			{Instance: 4, Key: "k1", Of: "k2", Version: 7, Call: 12 + together, Return: 13},
			{Instance: 4, Key: "k1", Of: "k2", Version: 8, Call: 12 + together, Return: 13},
		},
		Fences:     []checker.Fence{{Instance: 4, Key: "k1", Version: 3, Soft: true, Call: 20, Return: 22, Failed: true}},
		Open:       []checker.Fence{{Instance: 4, Stores: true, Call: 21}},
		Loads:      []checker.Load{{Instance: 4, Key: "k2", Version: 9, Since: 32, Call: 33, Return: 34, OK: true}},
		Unfinished: []checker.Load{{Instance: 4, Key: "k1", Since: 30, Call: 31}},
		Left:       []Span{{"k1", 40, 41}}, Dropped: []Span{{"", 42, 43}}, Stalls: []Span{{"", 44, 45}},
		Asked:        []checker.Read{{Instance: 4, Key: "k1", Of: "k1", Version: 3, Call: 46, Return: 47, Degraded: true}},
		RemoteErrors: []checker.Time{50}, Opinions: []Opinion{{60, true}},
		Samples: []Sample{{At: 70, Goroutines: 5}}, Surprises: []string{"80 so it goes"},
	}
	check := func() {
		t.Helper()
		if got, err := ReadLog(path, 4); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("read %+v, %v; want %+v", got, err, want)
		}
	}
	check()
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	f.WriteString("R k1 k1 8 90 91 true") // the process was killed here
	check()
}

func TestRecordsThatMakeNoSenseAreAnError(t *testing.T) {
	for _, text := range []string{"?", "R", "R k k 1 2 3 true false", "R k k -1 2 3 true false 0", "R k k 1 2 3 4 false 0", "f 1 2 true", "l 1 2 3 true", "S 1 {", "S x {}"} {
		path := filepath.Join(t.TempDir(), "records")
		if err := os.WriteFile(path, []byte(text+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := ReadLog(path, 0); err == nil {
			t.Errorf("%q is no error", text)
		}
	}
}

func TestOriginCountsReadsAndHoldsThem(t *testing.T) {
	o, err := StartOrigin(t.TempDir(), NewClock())
	if err != nil {
		t.Fatal(err)
	}
	c := &originClient{path: o.Path}
	read := func(ctx context.Context, want uint64) {
		t.Helper()
		if v, err := c.read(ctx, "k"); err != nil || v != want {
			t.Errorf("read %d, %v; want %d", v, err, want)
		}
	}
	read(t.Context(), 0)
	before := o.clock.Now()
	if v, err := c.write("k"); err != nil || v != 1 {
		t.Errorf("wrote %d, %v; want 1", v, err)
	}
	read(t.Context(), 1)
	if w := o.Writes(); len(w) != 1 || w[0].Key != "k" || w[0].Version != 1 || w[0].At < before || w[0].At > o.clock.Now() {
		t.Errorf("writes %+v", w)
	}

	hold := o.Hold("k")
	got := make(chan uint64)
	go func() {
		v, _ := c.read(context.Background(), "k")
		got <- v
	}()
	<-hold.Arrived
	o.Write("k")
	read(t.Context(), 2) // others are not held up
	hold.Release()
	hold.Release()
	if v := <-got; v != 1 {
		t.Errorf("the read that was held got %d, the version when it came was 1", v)
	}

	hold = o.Hold("k")
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := c.read(ctx, "k"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a read whose caller leaves returned %v", err)
	}
	hold.Release()
	read(t.Context(), 2)
	if n := o.Reads("k"); n != 6 {
		t.Errorf("%d reads were counted; want 6", n)
	}
	o.Close()
	if _, err := c.read(t.Context(), "k"); err == nil {
		t.Error("an origin that was closed has answered")
	}
}

func TestProcessesShareAClock(t *testing.T) {
	c := NewClock()
	a := c.Now()
	start := time.Now()
	<-time.After(20 * time.Millisecond)
	b, took := c.Now(), time.Since(start)
	if a < checker.Time(time.Second) || time.Duration(b-a) < 20*time.Millisecond || time.Duration(b-a) > took+time.Second {
		t.Errorf("the clock went from %v to %v in %v", time.Duration(a), time.Duration(b), took)
	}
}

func TestProcessesThatDidNotRunKnowWhen(t *testing.T) {
	c := NewClock()
	stalls := Stalls(c)
	before := c.Now()
	<-time.After(400 * time.Millisecond)
	if s, yes := stalls(); !yes || s.From > before || s.To < before+checker.Time(400*time.Millisecond) {
		t.Errorf("after 400ms: %v, %t", s, yes)
	}
	if s, yes := stalls(); yes {
		t.Errorf("at once: %v", s)
	}
}

func TestValuesNameTheirKeys(t *testing.T) {
	if of, v := parseValue(value("k7", 12)); of != "k7" || v != 12 {
		t.Errorf("parsed %q, %d", of, v)
	}
	for _, s := range []string{"", "k", "k:", ":1", "k:x", "k k:1"} {
		if of, v := parseValue(s); of != "?" || v != 0 {
			t.Errorf("parsed %q as %q, %d", s, of, v)
		}
	}
	if Short(Key(2)) || !Short(Key(3)) || Short("cold") {
		t.Error("every fourth key is short")
	}
	if Tag(Key(3)) != "" || Tag(Key(2)) == "" || Tag(Key(2)) != Tag(Key(52)) || Tag(Key(2)) == Tag(Key(7)) || Tag("cold") != "" {
		t.Error("every fifth key has a tag, and shares it")
	}
}
