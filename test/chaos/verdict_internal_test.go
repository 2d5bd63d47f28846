//go:build linux

package chaos

import (
	"reflect"
	"testing"
	"time"

	"github.com/strata-cache/strata/internal/testing/checker"
	"github.com/strata-cache/strata/test/internal/cluster"
)

// at is the time s seconds after the beginning.
func at(s float64) checker.Time { return checker.Time(s * float64(time.Second)) }

// back is the time by which an instance must be connected after a fault that
// ended at s.
func back(s float64) checker.Time { return at(s) + checker.Time(rejoin) }

func TestGapsThatMeetAreOneGap(t *testing.T) {
	win := func(slot int, from, to float64) window {
		return window{slots: []int{slot}, bus: true, from: at(from), to: at(to)}
	}
	paused := window{slots: []int{0, 1}, process: true, from: at(40), to: at(41)}
	tier := func(from, to float64) window {
		return window{slots: []int{0}, tier: true, from: at(from), to: at(to)}
	}
	r := &run{windows: []window{
		paused, win(0, 20, 30), win(0, 32, 33), win(1, 5, 10), win(0, 1, 2), win(0, 100, 110),
		win(0, 55, 56), tier(50, 60), win(0, 61, 62), tier(64.5, 66), // one gap
		tier(71, 80),
	}}
	for _, c := range []struct {
		name string
		life life
		want []checker.Link
	}{
		{"one that lives on", life{slot: 0, instance: 7, born: at(3), died: at(90)}, []checker.Link{
			{Instance: 7, At: at(3), State: checker.Deaf},
			{Instance: 7, At: back(3), State: checker.Connected},
			{Instance: 7, At: at(20), State: checker.Deaf},
			{Instance: 7, At: at(24), State: checker.Down},
			{Instance: 7, At: back(33), State: checker.Connected},
			{Instance: 7, At: at(40), State: checker.Deaf},
			{Instance: 7, At: back(41), State: checker.Connected},
			{Instance: 7, At: at(55), State: checker.Deaf},
			{Instance: 7, At: at(59), State: checker.Down},
			{Instance: 7, At: back(66), State: checker.Connected},
		}},
		{"one born in a gap", life{slot: 1, instance: 8, born: at(6), died: at(39)}, []checker.Link{
			{Instance: 8, At: at(5), State: checker.Deaf}, {Instance: 8, At: at(9), State: checker.Down}, {Instance: 8, At: back(10), State: checker.Connected},
		}},
	} {
		var h checker.History
		if got := links(&c.life, r.gaps(&c.life), &h); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s:\n%v; want\n%v", c.name, got, c.want)
		}
		if len(h.Excuses) == 0 || h.Excuses[0].Instance != c.life.instance {
			t.Errorf("%s: excuses %v", c.name, h.Excuses)
		}
	}
}

func TestReadsThatL2DidNotConfirmAreUncertainForAWhile(t *testing.T) {
	gaps := []window{{from: at(10), to: at(12)}}
	r := &run{windows: []window{
		{slots: []int{0}, tier: true, from: at(20), to: at(21)},
		{slots: []int{1}, tier: true, from: at(30), to: at(31)},
		{slots: []int{0}, bus: true, from: at(30), to: at(31)},
		{slots: []int{0}, tier: true, from: at(60), to: at(61)},
	}}
	late := time.Duration(back(21)).Seconds()
	for s, want := range map[float64]bool{9: false, 15: false, 19.9: true, 20.5: true, late - 0.1: true, late + 0.1: false, 30.5: false, 34.9: true, 35.1: false, 60.5: false} {
		log := &cluster.Log{
			Reads:        []checker.Read{{Call: at(s), Return: at(s + 0.11)}},
			RemoteErrors: []checker.Time{at(70), at(35), at(9.05)},
		}
		if r.markSuspect(&life{}, log, gaps); log.Reads[0].Degraded != want {
			t.Errorf("read at %v s: suspect: %t", s, !want)
		}
	}
}

func TestFencesOfTheDeadAreLost(t *testing.T) {
	log := &cluster.Log{
		Fences: []checker.Fence{{Key: "a", Call: 1, Return: 2}, {Key: "b", Call: 1, Return: 2, Failed: true}},
		Open:   []checker.Fence{{Key: "c", Call: 3}},
	}
	want := []checker.Fence{
		{Key: "a", Call: 1, Return: 2},
		{Key: "b", Call: 1, Return: 2, Failed: true, Lost: true},
		{Key: "c", Call: 3, Return: 9, Failed: true, Lost: true},
	}
	if got := ended(&life{died: 9}, log); !reflect.DeepEqual(got, want) {
		t.Errorf("killed: %+v", got)
	}
	want[1].Lost, want[2].Lost, want[2].Return = false, false, checker.Never
	if got := ended(&life{died: checker.Never}, log); !reflect.DeepEqual(got, want) {
		t.Errorf("lived on: %+v", got)
	}
}

func TestShortAndLongLivedKeysAreJudgedApart(t *testing.T) {
	load := func(key string, s float64) checker.Load {
		return checker.Load{Key: key, Since: at(s), Call: at(s), Return: at(s), OK: true}
	}
	h := &checker.History{Loads: []checker.Load{load("k3", 1), load("k3", 4), load("k4", 1), load("k4", 4)}}
	got := (&run{}).judge(h)
	if len(got) != 1 || got[0].Rule != checker.OneClusterLoad || got[0].Key != "k4" {
		t.Errorf("violations %v; want one of k4, whose entry lives for an hour", got)
	}
}

func TestVerdictsAreComparedWithTheFaultsOfTheRun(t *testing.T) {
	opinions := []cluster.Opinion{{At: at(1), Hears: true}, {At: at(10), Hears: false}, {At: at(20), Hears: true}}
	for _, c := range []struct {
		at    float64
		hears bool
		want  float64
		ok    bool
	}{{5, false, 10, true}, {5, true, 5, true}, {12, true, 20, true}, {12, false, 12, true}, {0.5, true, 1, true}, {25, true, 25, true}, {25, false, 25, false}} {
		if got, ok := next(opinions, at(c.at), c.hears); got != at(c.want) || ok != c.ok {
			t.Errorf("from %v s: %t at %v, %t", c.at, c.hears, time.Duration(got), ok)
		}
	}
	cut := func(slot int, from, to float64) window {
		return window{name: "cut", slots: []int{slot}, bus: true, silent: true, from: at(from), to: at(to)}
	}
	silent := cut(0, 5, 15)
	talks := silent
	talks.silent = false
	for _, c := range []struct {
		name     string
		windows  []window
		problems int
	}{
		{"found 5 s late", []window{silent}, 1},
		{"found at once", []window{cut(0, 9.9, 19)}, 0},
		{"not silent", []window{talks}, 0},
		{"another fault was there", []window{silent, {name: "reset", slots: []int{0}, bus: true, from: at(6), to: at(6)}}, 0},
		{"of another slot", []window{cut(1, 5, 15)}, 0},
		{"too short to be found", []window{cut(0, 5, 8)}, 0},
	} {
		r := &run{windows: c.windows, lives: []*life{{slot: 0, died: checker.Never}}}
		r.opinions([]*cluster.Log{{Opinions: opinions}})
		if len(r.problems) != c.problems {
			t.Errorf("%s: problems %q", c.name, r.problems)
		}
	}
}

func TestStallsWithoutACauseAreFaults(t *testing.T) {
	r := &run{
		slots:   []*slot{{index: 0}, {index: 1}},
		windows: []window{{slots: []int{0}, process: true, from: at(1), to: at(3)}, {slots: []int{0}, bus: true, from: at(4), to: at(9)}},
		lives:   []*life{{slot: 0, died: checker.Never}, {slot: 1, died: checker.Never}},
		stalls:  []cluster.Span{{From: at(20), To: at(21)}},
	}
	stall := []cluster.Span{{From: at(2.9), To: at(3.1)}, {From: at(5), To: at(6)}}
	r.addStalls([]*cluster.Log{{Stalls: stall}, {Stalls: stall[:1]}})
	want := []window{
		{name: "stall of the proxies", slots: []int{0, 1}, bus: true, tier: true, silent: true, from: at(20), to: at(21)},
		{name: "stall of", slots: []int{0}, process: true, from: at(5), to: at(6)},
		{name: "stall of", slots: []int{1}, process: true, from: at(2.9), to: at(3.1)},
	}
	if got := r.windows[2:]; !reflect.DeepEqual(got, want) {
		t.Errorf("%+v; want\n%+v", got, want)
	}
}

func TestOldValuesOfTheCutOffAreMarked(t *testing.T) {
	h := &checker.History{
		Writes: []checker.Write{{Key: "k", Version: 1, At: at(1)}},
		Fences: []checker.Fence{{Instance: 1, Key: "k", Call: at(2), Return: at(3)}},
		Links:  []checker.Link{{At: at(1.5), State: checker.Deaf}},
	}
	read := func(s float64, degraded bool) checker.Read {
		return checker.Read{Key: "k", Of: "k", Call: at(s), Return: at(s), Degraded: degraded}
	}
	r := &run{lives: []*life{{died: checker.Never}}, windows: []window{{slots: []int{0}, process: true, from: at(20), to: at(22)}}}
	for _, c := range []struct {
		read     checker.Read
		problems int
	}{{read(9, false), 1}, {read(9, true), 0}, {read(7.9, false), 0}, {read(26.9, false), 0}, {read(27.1, false), 1}} {
		r.problems = nil
		r.unmarked(h, []*cluster.Log{{Asked: []checker.Read{c.read}}})
		if len(r.problems) != c.problems {
			t.Errorf("%+v: problems %q", c.read, r.problems)
		}
	}
}

func TestAgesArePrintedAsQuantiles(t *testing.T) {
	a := Ages{}
	for i := range 998 {
		a[time.Duration(i/2)*time.Millisecond]++
	}
	a[time.Minute] = 2
	if got, want := a.String(), "p50 250ms, p99 495ms, p99.9 1m0s, most 1m0s (1000)"; got != want {
		t.Errorf("%s; want %s", got, want)
	}
	if got := once([]time.Duration{3, 3, 7}); len(got) != 2 || got[3] != 2 {
		t.Errorf("once each: %v", map[time.Duration]int(got))
	}
	if got := (Ages{}).String(); got != "none" {
		t.Errorf("of nothing: %s", got)
	}
}
