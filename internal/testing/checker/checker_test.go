package checker_test

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/strata-cache/strata/internal/testing/checker"
)

// Versions 1 and 2 of k are written at 10 and 20 in the histories below.
func register(h checker.History) *checker.History {
	h.Writes = append(h.Writes, checker.Write{Key: "k", Version: 1, At: 10}, checker.Write{Key: "k", Version: 2, At: 20})
	return &h
}

// get returns a read of k by instance 0 that takes no time.
func get(version uint64, at checker.Time) checker.Read {
	return checker.Read{Key: "k", Of: "k", Version: version, Call: at, Return: at + 1}
}

func reads(r ...checker.Read) []checker.Read       { return r }
func fences(f ...checker.Fence) []checker.Fence    { return f }
func loads(l ...checker.Load) []checker.Load       { return l }
func links(l ...checker.Link) []checker.Link       { return l }
func excuse(e ...checker.Excuse) []checker.Excuse  { return e }
func on(i int, r checker.Read) checker.Read        { r.Instance = i; return r }
func stale(r checker.Read) checker.Read            { r.Stale = true; return r }
func past(r checker.Read) checker.Read             { r.Past = true; return r }
func final(r checker.Read) checker.Read            { r.Final = true; return r }
func failed(f checker.Fence) checker.Fence         { f.Failed = true; return f }
func soft(f checker.Fence) checker.Fence           { f.Soft = true; return f }
func tags(f checker.Fence) checker.Fence           { f.Tags = true; return f }
func lost(f checker.Fence) checker.Fence           { f.Lost = true; return f }
func unsure(f checker.Fence) checker.Fence         { f.Failed, f.Unsure = true, true; return f }
func all(f checker.Fence) checker.Fence            { f.Key = ""; return f }
func by(i int, f checker.Fence) checker.Fence      { f.Instance = i; return f }
func sets(v uint64, f checker.Fence) checker.Fence { f.Stores, f.Version = true, v; return f }

func drop(call, ret checker.Time) checker.Fence {
	return checker.Fence{Key: "k", Call: call, Return: ret}
}

func load(i int, since, call, ret checker.Time) checker.Load {
	return checker.Load{Instance: i, Key: "k", Since: since, Call: call, Return: ret, OK: true, Version: 2}
}

func TestReadsAreJudged(t *testing.T) {
	foreign := get(1, 15)
	foreign.Of = "other"
	for _, c := range []struct {
		name string
		h    checker.History
		want []checker.Rule
	}{
		{"nothing", checker.History{}, nil},
		{"the latest", checker.History{Reads: reads(get(0, 5), get(1, 15), get(2, 25))}, nil},
		{"an old one that was not dropped", checker.History{Reads: reads(get(0, 500))}, nil},
		{"a value of another key", checker.History{Reads: reads(foreign)}, []checker.Rule{checker.OwnValue}},
		{"not written yet", checker.History{Reads: reads(get(2, 15))}, []checker.Rule{checker.Future}},
		{"never written", checker.History{Reads: reads(get(3, 50))}, []checker.Rule{checker.Future}},
		{"written during the read", checker.History{Reads: reads(checker.Read{Key: "k", Of: "k", Version: 2, Call: 15, Return: 21})}, nil},

		{"past the cache", checker.History{Reads: reads(past(get(2, 25)))}, nil},
		{"past the cache, old before the call", checker.History{Reads: reads(past(get(1, 25)))}, []checker.Rule{checker.PastCache}},
		{"past the cache, written during the read", checker.History{Reads: reads(past(checker.Read{Key: "k", Of: "k", Version: 1, Call: 15, Return: 25}))}, nil},

		{"dropped here", checker.History{Fences: fences(drop(22, 24)), Reads: reads(get(1, 25))}, []checker.Rule{checker.Local}},
		{"dropped here, in vain", checker.History{Fences: fences(failed(drop(22, 24))), Reads: reads(get(1, 25))}, []checker.Rule{checker.Local}},
		{"dropped here, or not", checker.History{Fences: fences(unsure(drop(22, 24))), Reads: reads(get(1, 25))}, nil},
		{"dropped here, or not, and read in the end", checker.History{Fences: fences(unsure(drop(22, 24))), Reads: reads(final(get(1, 25)))}, nil},
		{"an older one may have been set later", checker.History{Fences: fences(drop(22, 24), by(1, unsure(sets(1, drop(30, 34))))), Reads: reads(get(1, 40))}, nil},
		{"a read that began before the drop ended", checker.History{Fences: fences(drop(22, 24)), Reads: reads(get(1, 23))}, nil},
		{"a drop that began before the write", checker.History{Fences: fences(drop(19, 24)), Reads: reads(get(1, 25))}, nil},
		{"everything dropped here", checker.History{Fences: fences(all(drop(22, 24))), Reads: reads(get(1, 25))}, []checker.Rule{checker.Local}},
		{"an earlier drop after a later one", checker.History{Fences: fences(drop(22, 24), drop(12, 30)), Reads: reads(get(1, 35))}, []checker.Rule{checker.Local}},
		{"another key dropped", checker.History{Fences: fences(checker.Fence{Key: "l", Call: 22, Return: 24}), Reads: reads(get(1, 25))}, nil},

		{"expired here", checker.History{Fences: fences(soft(drop(22, 24))), Reads: reads(get(1, 25))}, []checker.Rule{checker.Local}},
		{"expired here, and then no load", checker.History{Fences: fences(soft(drop(22, 24))), Reads: reads(stale(get(1, 25)))}, nil},
		{"dropped here, and then no load", checker.History{Fences: fences(drop(22, 24)), Reads: reads(stale(get(1, 25)))}, []checker.Rule{checker.Local}},

		{"dropped elsewhere, just now", checker.History{Fences: fences(by(1, drop(22, 24))), Reads: reads(get(1, 124))}, nil},
		{"dropped elsewhere", checker.History{Fences: fences(by(1, drop(22, 24))), Reads: reads(get(1, 130))}, []checker.Rule{checker.Bounded}},
		{"dropped elsewhere in vain", checker.History{Fences: fences(failed(by(1, drop(22, 24)))), Reads: reads(get(1, 5000))}, nil},
		{"dropped elsewhere in vain, long ago", checker.History{Fences: fences(failed(by(1, drop(22, 24)))), Reads: reads(final(get(1, 5000)))}, []checker.Rule{checker.Converged}},
		{"dropped elsewhere in vain by one that is gone", checker.History{Fences: fences(lost(failed(by(1, drop(22, 24))))), Reads: reads(final(get(1, 5000)))}, nil},
		{"dropped here in vain, and then gone", checker.History{Fences: fences(lost(failed(drop(22, 24)))), Reads: reads(get(1, 25))}, []checker.Rule{checker.Local}},
		{"in the tier", checker.History{Fences: fences(by(1, drop(22, 24))), Reads: reads(on(checker.Shared, get(1, 25)))}, []checker.Rule{checker.InTier}},
		{"dropped in vain, and in the tier", checker.History{Fences: fences(failed(by(1, drop(22, 24)))), Reads: reads(on(checker.Shared, get(1, 25)))}, nil},
		{"dropped in vain, and in the tier in the end", checker.History{Fences: fences(failed(by(1, drop(22, 24)))), Reads: reads(final(on(checker.Shared, get(1, 5000))))}, []checker.Rule{checker.Converged}},
		{"in the tier while it is dropped", checker.History{Fences: fences(by(1, drop(22, 26))), Reads: reads(on(checker.Shared, get(1, 25)))}, nil},

		{"dropped here since the tier has lost writes", checker.History{Losses: losses(20, 30, 40), Fences: fences(drop(22, 24)), Reads: reads(get(1, 35))}, []checker.Rule{checker.Local}},
		{"dropped elsewhere since then", checker.History{Losses: losses(20, 200, 300), Fences: fences(by(1, drop(22, 24))), Reads: reads(get(1, 200), get(1, 300))}, nil},
		{"dropped before that", checker.History{Losses: losses(25, 200, 300), Fences: fences(by(1, drop(22, 24))), Reads: reads(get(1, 250))}, []checker.Rule{checker.Bounded}},
		{"dropped since, and read before it shows", checker.History{Losses: losses(20, 200, 300), Fences: fences(by(1, drop(22, 24))), Reads: reads(get(1, 198))}, []checker.Rule{checker.Bounded}},
		{"dropped since, and read from before to when it shows", checker.History{Losses: losses(20, 200, 300), Fences: fences(by(1, drop(22, 24))), Reads: reads(checker.Read{Key: "k", Of: "k", Version: 1, Call: 205, Return: 190, More: 3})}, nil},
		{"dropped since, and read when that is over", checker.History{Losses: losses(20, 200, 300), Fences: fences(by(1, drop(22, 24))), Reads: reads(get(1, 301))}, []checker.Rule{checker.Bounded}},
		{"dropped since, and read in the end", checker.History{Losses: losses(20, 30, 40), Fences: fences(drop(22, 24)), Reads: reads(final(get(1, 35)))}, []checker.Rule{checker.Converged}},

		{"an older one was set later", checker.History{Fences: fences(drop(22, 24), by(1, sets(1, drop(30, 34)))), Reads: reads(get(1, 40))}, nil},
		{"an older one was set before", checker.History{Fences: fences(sets(1, drop(21, 22)), drop(23, 24)), Reads: reads(get(1, 25))}, []checker.Rule{checker.Local}},
		{"an older one was set in vain before", checker.History{Fences: fences(failed(sets(1, drop(21, 22))), drop(23, 24)), Reads: reads(get(1, 25))}, []checker.Rule{checker.Local}},
		{"of two Sets at once either wins", checker.History{Fences: fences(sets(1, drop(21, 24)), sets(2, drop(22, 23))), Reads: reads(get(1, 25), get(2, 26))}, nil},
		{"of two Sets the later wins", checker.History{Fences: fences(sets(1, drop(21, 24)), sets(2, drop(25, 26))), Reads: reads(get(1, 27))}, []checker.Rule{checker.Local}},
	} {
		t.Run(c.name, func(t *testing.T) { judge(t, c.h, c.want) })
	}
}

func TestLostMessagesAreDetectedInTime(t *testing.T) {
	far := fences(by(1, drop(22, 24)))
	for _, c := range []struct {
		name string
		deaf []checker.Time
		call checker.Time
		want []checker.Rule
	}{
		{"not at once", []checker.Time{21}, 420, nil},
		{"but in time", []checker.Time{21}, 430, []checker.Rule{checker.Bounded}},
		{"what detects a loss may be lost", []checker.Time{21, 150}, 550, nil},
		{"but the next is not", []checker.Time{21, 150}, 560, []checker.Rule{checker.Bounded}},
		{"several times", []checker.Time{21, 150, 440}, 840, nil},
		{"losses after that are others", []checker.Time{21, 400}, 700, []checker.Rule{checker.Bounded}},
		{"later ones say nothing", []checker.Time{21, 440}, 420, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := checker.History{Fences: far, Reads: reads(get(1, c.call))}
			for _, at := range c.deaf {
				h.Links = append(h.Links, checker.Link{At: at, State: checker.Deaf})
			}
			judgeBy(t, checker.Promise{Delay: 100, Found: 300, Unconfirmed: 1000, Slack: 2}, h, c.want)
		})
	}
}

func TestReadsOfInstancesThatAreCutOffAreJudged(t *testing.T) {
	far := fences(by(1, drop(22, 24)))
	link := func(at checker.Time, s checker.State) checker.Link { return checker.Link{At: at, State: s} }
	for _, c := range []struct {
		name string
		h    checker.History
		want []checker.Rule
	}{
		{"a message before a gap is known", checker.History{Fences: far, Links: links(link(300, checker.Down)), Reads: reads(get(1, 500))}, []checker.Rule{checker.Bounded}},
		{"a message under way is not", checker.History{Fences: far, Links: links(link(60, checker.Down)), Reads: reads(get(1, 500))}, nil},
		{"a message after a gap is not known", checker.History{Fences: far, Links: links(link(21, checker.Down)), Reads: reads(get(1, 900))}, nil},
		{"but not for ever", checker.History{Fences: far, Links: links(link(21, checker.Down)), Reads: reads(get(1, 1200))}, []checker.Rule{checker.Bounded}},
		{"a long gap makes earlier entries unusable", checker.History{Fences: far, Links: links(link(60, checker.Down)), Reads: reads(get(1, 1200))}, []checker.Rule{checker.Bounded}},
		{"nor of another instance", checker.History{Fences: far, Links: links(checker.Link{Instance: 2, At: 40, State: checker.Down}), Reads: reads(get(1, 150))}, []checker.Rule{checker.Bounded}},
		{"joining tells of everything before it", checker.History{Fences: far, Links: links(link(21, checker.Down), link(40, checker.Connected)), Reads: reads(get(1, 43))}, []checker.Rule{checker.Bounded}},
		{"it takes a moment to join", checker.History{Fences: far, Links: links(link(21, checker.Down), link(40, checker.Connected)), Reads: reads(get(1, 41))}, nil},
		{"the deaf do not know", checker.History{Fences: far, Links: links(link(21, checker.Deaf)), Reads: reads(get(1, 5000))}, nil},
		{"the deaf know messages from before", checker.History{Fences: far, Links: links(link(300, checker.Deaf)), Reads: reads(get(1, 900))}, []checker.Rule{checker.Bounded}},
		{"messages under way are lost", checker.History{Fences: far, Links: links(link(60, checker.Deaf)), Reads: reads(get(1, 900))}, nil},
		{"the deaf are told at last", checker.History{Fences: far, Links: links(link(21, checker.Deaf), link(50, checker.Down), link(60, checker.Connected)), Reads: reads(get(1, 63))}, []checker.Rule{checker.Bounded}},
		{"the deaf go on until they have been told for long", checker.History{Fences: far, Links: links(link(21, checker.Deaf), link(900, checker.Down)), Reads: reads(get(1, 1800))}, nil},
		{"changes at once", checker.History{Fences: far, Links: links(link(10, checker.Down), link(30, checker.Connected), link(30, checker.Deaf)), Reads: reads(get(1, 31))}, nil},
	} {
		t.Run(c.name, func(t *testing.T) { judge(t, c.h, c.want) })
	}
}

func TestLoadsAreJudged(t *testing.T) {
	old := load(0, 30, 31, 40)
	old.Version = 1
	early := load(0, 11, 12, 15)
	bad := load(0, 30, 31, 40)
	bad.OK = false
	once := func(from, to checker.Time) checker.Excuse {
		return checker.Excuse{Instance: checker.Shared, From: from, To: to, Cluster: true}
	}
	here := func(from, to checker.Time) checker.Excuse { return checker.Excuse{Key: "k", From: from, To: to} }
	for _, c := range []struct {
		name string
		h    checker.History
		want []checker.Rule
	}{
		{"one", checker.History{Loads: loads(load(0, 30, 31, 40))}, nil},
		{"an old value that holds", checker.History{Loads: loads(old)}, nil},
		{"an old value that was dropped", checker.History{Fences: fences(by(1, drop(22, 24))), Loads: loads(old)}, []checker.Rule{checker.Fresh}},
		{"a value from the future", checker.History{Loads: loads(early)}, []checker.Rule{checker.Future}},

		{"two at once", checker.History{Loads: loads(load(0, 30, 31, 40), load(0, 32, 33, 45)), Excuses: excuse(once(33, 33))}, []checker.Rule{checker.OneLoad}},
		{"two at once after a drop here", checker.History{Fences: fences(failed(drop(32, 34))), Loads: loads(load(0, 30, 31, 40), load(0, 35, 36, 45)), Excuses: excuse(once(33, 33))}, nil},
		{"two at once after a drop of tags here", checker.History{Fences: fences(tags(drop(32, 34))), Loads: loads(load(0, 30, 31, 40), load(0, 35, 36, 45)), Excuses: excuse(once(33, 33))}, []checker.Rule{checker.OneLoad}},
		{"two at once after a drop before", checker.History{Fences: fences(failed(drop(22, 24))), Loads: loads(load(0, 30, 31, 40), load(0, 35, 36, 45)), Excuses: excuse(once(33, 33))}, []checker.Rule{checker.OneLoad}},
		{"two at once, the later one asked for before a drop", checker.History{Fences: fences(failed(drop(28, 29))), Loads: loads(load(0, 30, 31, 40), load(0, 27, 36, 45)), Excuses: excuse(once(33, 33))}, nil},
		{"two at once after the bus was connected", checker.History{Links: links(checker.Link{At: 33, State: checker.Connected}), Loads: loads(load(0, 30, 31, 40), load(0, 35, 36, 45)), Excuses: excuse(once(33, 33))}, nil},
		{"two at once with leave", checker.History{Loads: loads(load(0, 30, 31, 40), load(0, 35, 36, 45)), Excuses: excuse(once(33, 33), here(33, 34))}, nil},
		{"one that fails beside another", checker.History{Loads: loads(bad, load(0, 32, 33, 45)), Excuses: excuse(once(33, 33))}, []checker.Rule{checker.OneLoad}},

		{"one elsewhere at once", checker.History{Loads: loads(load(0, 30, 31, 40), load(1, 30, 33, 45))}, []checker.Rule{checker.OneClusterLoad}},
		{"one elsewhere afterwards", checker.History{Loads: loads(load(0, 30, 31, 40), load(1, 50, 51, 55))}, []checker.Rule{checker.OneClusterLoad}},
		{"one after the value has expired", checker.History{Loads: loads(load(0, 30, 31, 40), load(1, 2040, 2041, 2045))}, nil},
		{"one after another has failed", checker.History{Loads: loads(bad, load(1, 50, 51, 55))}, nil},
		{"one elsewhere after a drop", checker.History{Loads: loads(load(0, 30, 31, 40), load(1, 50, 51, 55)), Excuses: excuse(once(45, 45))}, nil},
		{"a drop excuses one load", checker.History{Loads: loads(load(0, 30, 31, 40), load(1, 50, 51, 55), load(0, 60, 61, 62)), Excuses: excuse(once(45, 45))}, []checker.Rule{checker.OneClusterLoad}},
		{"a long excuse among short ones", checker.History{Loads: loads(load(0, 30, 31, 40), load(1, 50, 51, 55)), Excuses: excuse(once(10, 48), once(20, 21), once(22, 23))}, nil},
		{"other keys are others", checker.History{Loads: loads(load(0, 30, 31, 40), checker.Load{Key: "l", Since: 32, Call: 33, Return: 34, OK: true})}, nil},
	} {
		t.Run(c.name, func(t *testing.T) { judge(t, c.h, c.want) })
	}
}

func judge(t *testing.T, h checker.History, want []checker.Rule) {
	t.Helper()
	judgeBy(t, checker.Promise{Delay: 100, Unconfirmed: 1000, TTL: 2000, Slack: 2}, h, want)
}

func judgeBy(t *testing.T, p checker.Promise, h checker.History, want []checker.Rule) {
	t.Helper()
	var got []checker.Rule
	var texts []string
	for _, v := range register(h).Judge(p) {
		got = append(got, v.Rule)
		if v.Key != "k" {
			t.Errorf("%v is about key %q", v, v.Key)
		}
		texts = append(texts, v.String())
	}
	if !slices.Equal(got, want) {
		t.Errorf("broken: %q, want %q\n%s", got, want, strings.Join(texts, "\n"))
	}
}

func losses(since, from, to checker.Time) []checker.Loss { return []checker.Loss{{since, from, to}} }

func TestAgesCountFromTheFirstFenceThatShouldHaveEndedAValue(t *testing.T) {
	other := get(0, 45)
	other.Key, other.Of = "m", "m"
	h := register(checker.History{
		Writes: []checker.Write{{Key: "k", Version: 3, At: 48}, {Key: "m", Version: 1, At: 15}},
		Fences: fences(drop(8, 9), failed(drop(21, 22)), soft(drop(23, 24)), drop(25, 28), all(drop(40, 41)), drop(50, 200), drop(60, 70)),
		Links:  links(checker.Link{At: 1000, State: checker.Deaf}),
		Reads: reads(
			get(3, 500), get(0, 9), get(1, 24), // not dropped by then
			get(1, 26), stale(get(1, 26)), stale(get(1, 30)), get(0, 29), other,
			get(2, 69), get(2, 100), on(3, get(2, 1500)), get(2, 1500),
			on(checker.Shared, get(1, 500)), get(7, 500)), // reads of the tier and of unknown versions do not count
	})
	type age struct {
		old       time.Duration
		connected bool
	}
	var got []age
	h.Ages(checker.Promise{Delay: 100, Slack: 2}, func(_ *checker.Read, old time.Duration, connected bool) {
		got = append(got, age{old, connected})
	})
	want := []age{
		{0, true},
		{0, true},
		{0, true},
		{2, true},
		{0, true},
		{2, true},
		{5, true},
		{4, true},
		{0, true},
		{30, true},
		{1430, true},
		{1430, false},
	}
	if !slices.Equal(got, want) {
		t.Errorf("ages %v, want %v", got, want)
	}
}

func TestRecorderGivesEveryEventATimeOfItsOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := checker.NewRecorder()
		a, b := r.Now(), r.Now()
		time.Sleep(time.Millisecond)
		c := r.Now()
		if a >= b || c != checker.Time(time.Millisecond) {
			t.Errorf("times %d, %d and, after 1ms, %d", a, b, c)
		}
		r.Write("k", 1)
		r.Link(1, checker.Down)
		r.Read(checker.Read{Key: "k", Of: "k", Call: r.Now()})
		r.Load(checker.Load{Key: "k", Call: r.Now()})
		r.Fence(checker.Fence{Key: "k", Call: r.Now()})
		r.Excuse(checker.Excuse{Key: "k"})
		h := r.History()
		times := []checker.Time{h.Writes[0].At, h.Links[0].At, h.Reads[0].Call, h.Reads[0].Return, h.Loads[0].Call, h.Loads[0].Return, h.Fences[0].Call, h.Fences[0].Return}
		if !slices.IsSorted(times) || times[0] <= c || len(h.Excuses) != 1 {
			t.Errorf("times %d are not in order", times)
		}
	})
}

func BenchmarkJudge(b *testing.B) {
	h := checker.History{}
	for i := range checker.Time(10_000) {
		h.Writes = append(h.Writes, checker.Write{Key: "k", Version: uint64(i) + 1, At: 10 * i})
		h.Fences = append(h.Fences, drop(10*i+1, 10*i+2))
		for r := range checker.Time(10) {
			h.Reads = append(h.Reads, on(int(r), get(uint64(i)+1, 10*i+3)))
		}
	}
	for b.Loop() {
		if v := h.Judge(checker.Promise{}); len(v) > 0 {
			b.Fatal(v[0])
		}
	}
}
