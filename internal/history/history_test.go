package history_test

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/strata-cache/strata/internal/history"
)

// Versions 1 and 2 of k are written at 10 and 20 in the histories below.
func register(h history.History) *history.History {
	h.Writes = append(h.Writes, history.Write{Key: "k", Version: 1, At: 10}, history.Write{Key: "k", Version: 2, At: 20})
	return &h
}

// get returns a read of k by instance 0 that takes no time.
func get(version uint64, at history.Time) history.Read {
	return history.Read{Key: "k", Of: "k", Version: version, Call: at, Return: at + 1}
}

func reads(r ...history.Read) []history.Read       { return r }
func fences(f ...history.Fence) []history.Fence    { return f }
func loads(l ...history.Load) []history.Load       { return l }
func links(l ...history.Link) []history.Link       { return l }
func excuse(e ...history.Excuse) []history.Excuse  { return e }
func on(i int, r history.Read) history.Read        { r.Instance = i; return r }
func stale(r history.Read) history.Read            { r.Stale = true; return r }
func past(r history.Read) history.Read             { r.Past = true; return r }
func final(r history.Read) history.Read            { r.Final = true; return r }
func failed(f history.Fence) history.Fence         { f.Failed = true; return f }
func soft(f history.Fence) history.Fence           { f.Soft = true; return f }
func tags(f history.Fence) history.Fence           { f.Tags = true; return f }
func lost(f history.Fence) history.Fence           { f.Lost = true; return f }
func unsure(f history.Fence) history.Fence         { f.Failed, f.Unsure = true, true; return f }
func all(f history.Fence) history.Fence            { f.Key = ""; return f }
func by(i int, f history.Fence) history.Fence      { f.Instance = i; return f }
func sets(v uint64, f history.Fence) history.Fence { f.Stores, f.Version = true, v; return f }

func drop(call, ret history.Time) history.Fence {
	return history.Fence{Key: "k", Call: call, Return: ret}
}

func load(i int, since, call, ret history.Time) history.Load {
	return history.Load{Instance: i, Key: "k", Since: since, Call: call, Return: ret, OK: true, Version: 2}
}

func TestReadsAreJudged(t *testing.T) {
	foreign := get(1, 15)
	foreign.Of = "other"
	for _, c := range []struct {
		name string
		h    history.History
		want []history.Rule
	}{
		{"nothing", history.History{}, nil},
		{"the latest", history.History{Reads: reads(get(0, 5), get(1, 15), get(2, 25))}, nil},
		{"an old one that was not dropped", history.History{Reads: reads(get(0, 500))}, nil},
		{"a value of another key", history.History{Reads: reads(foreign)}, []history.Rule{history.OwnValue}},
		{"not written yet", history.History{Reads: reads(get(2, 15))}, []history.Rule{history.Future}},
		{"never written", history.History{Reads: reads(get(3, 50))}, []history.Rule{history.Future}},
		{"written during the read", history.History{Reads: reads(history.Read{Key: "k", Of: "k", Version: 2, Call: 15, Return: 21})}, nil},

		{"past the cache", history.History{Reads: reads(past(get(2, 25)))}, nil},
		{"past the cache, old before the call", history.History{Reads: reads(past(get(1, 25)))}, []history.Rule{history.PastCache}},
		{"past the cache, written during the read", history.History{Reads: reads(past(history.Read{Key: "k", Of: "k", Version: 1, Call: 15, Return: 25}))}, nil},

		{"dropped here", history.History{Fences: fences(drop(22, 24)), Reads: reads(get(1, 25))}, []history.Rule{history.Local}},
		{"dropped here, in vain", history.History{Fences: fences(failed(drop(22, 24))), Reads: reads(get(1, 25))}, []history.Rule{history.Local}},
		{"dropped here, or not", history.History{Fences: fences(unsure(drop(22, 24))), Reads: reads(get(1, 25))}, nil},
		{"dropped here, or not, and read in the end", history.History{Fences: fences(unsure(drop(22, 24))), Reads: reads(final(get(1, 25)))}, nil},
		{"an older one may have been set later", history.History{Fences: fences(drop(22, 24), by(1, unsure(sets(1, drop(30, 34))))), Reads: reads(get(1, 40))}, nil},
		{"a read that began before the drop ended", history.History{Fences: fences(drop(22, 24)), Reads: reads(get(1, 23))}, nil},
		{"a drop that began before the write", history.History{Fences: fences(drop(19, 24)), Reads: reads(get(1, 25))}, nil},
		{"everything dropped here", history.History{Fences: fences(all(drop(22, 24))), Reads: reads(get(1, 25))}, []history.Rule{history.Local}},
		{"an earlier drop after a later one", history.History{Fences: fences(drop(22, 24), drop(12, 30)), Reads: reads(get(1, 35))}, []history.Rule{history.Local}},
		{"another key dropped", history.History{Fences: fences(history.Fence{Key: "l", Call: 22, Return: 24}), Reads: reads(get(1, 25))}, nil},

		{"expired here", history.History{Fences: fences(soft(drop(22, 24))), Reads: reads(get(1, 25))}, []history.Rule{history.Local}},
		{"expired here, and then no load", history.History{Fences: fences(soft(drop(22, 24))), Reads: reads(stale(get(1, 25)))}, nil},
		{"dropped here, and then no load", history.History{Fences: fences(drop(22, 24)), Reads: reads(stale(get(1, 25)))}, []history.Rule{history.Local}},

		{"dropped elsewhere, just now", history.History{Fences: fences(by(1, drop(22, 24))), Reads: reads(get(1, 124))}, nil},
		{"dropped elsewhere", history.History{Fences: fences(by(1, drop(22, 24))), Reads: reads(get(1, 130))}, []history.Rule{history.Bounded}},
		{"dropped elsewhere in vain", history.History{Fences: fences(failed(by(1, drop(22, 24)))), Reads: reads(get(1, 5000))}, nil},
		{"dropped elsewhere in vain, long ago", history.History{Fences: fences(failed(by(1, drop(22, 24)))), Reads: reads(final(get(1, 5000)))}, []history.Rule{history.Converged}},
		{"dropped elsewhere in vain by one that is gone", history.History{Fences: fences(lost(failed(by(1, drop(22, 24))))), Reads: reads(final(get(1, 5000)))}, nil},
		{"dropped here in vain, and then gone", history.History{Fences: fences(lost(failed(drop(22, 24)))), Reads: reads(get(1, 25))}, []history.Rule{history.Local}},
		{"in the tier", history.History{Fences: fences(by(1, drop(22, 24))), Reads: reads(on(history.Shared, get(1, 25)))}, []history.Rule{history.InTier}},
		{"dropped in vain, and in the tier", history.History{Fences: fences(failed(by(1, drop(22, 24)))), Reads: reads(on(history.Shared, get(1, 25)))}, nil},
		{"dropped in vain, and in the tier in the end", history.History{Fences: fences(failed(by(1, drop(22, 24)))), Reads: reads(final(on(history.Shared, get(1, 5000))))}, []history.Rule{history.Converged}},
		{"in the tier while it is dropped", history.History{Fences: fences(by(1, drop(22, 26))), Reads: reads(on(history.Shared, get(1, 25)))}, nil},

		{"dropped here since the tier has lost writes", history.History{Losses: losses(20, 30, 40), Fences: fences(drop(22, 24)), Reads: reads(get(1, 35))}, []history.Rule{history.Local}},
		{"dropped elsewhere since then", history.History{Losses: losses(20, 200, 300), Fences: fences(by(1, drop(22, 24))), Reads: reads(get(1, 200), get(1, 300))}, nil},
		{"dropped before that", history.History{Losses: losses(25, 200, 300), Fences: fences(by(1, drop(22, 24))), Reads: reads(get(1, 250))}, []history.Rule{history.Bounded}},
		{"dropped since, and read before it shows", history.History{Losses: losses(20, 200, 300), Fences: fences(by(1, drop(22, 24))), Reads: reads(get(1, 198))}, []history.Rule{history.Bounded}},
		{"dropped since, and read from before to when it shows", history.History{Losses: losses(20, 200, 300), Fences: fences(by(1, drop(22, 24))), Reads: reads(history.Read{Key: "k", Of: "k", Version: 1, Call: 205, Return: 190, More: 3})}, nil},
		{"dropped since, and read when that is over", history.History{Losses: losses(20, 200, 300), Fences: fences(by(1, drop(22, 24))), Reads: reads(get(1, 301))}, []history.Rule{history.Bounded}},
		{"dropped since, and read in the end", history.History{Losses: losses(20, 30, 40), Fences: fences(drop(22, 24)), Reads: reads(final(get(1, 35)))}, []history.Rule{history.Converged}},

		{"an older one was set later", history.History{Fences: fences(drop(22, 24), by(1, sets(1, drop(30, 34)))), Reads: reads(get(1, 40))}, nil},
		{"an older one was set before", history.History{Fences: fences(sets(1, drop(21, 22)), drop(23, 24)), Reads: reads(get(1, 25))}, []history.Rule{history.Local}},
		{"an older one was set in vain before", history.History{Fences: fences(failed(sets(1, drop(21, 22))), drop(23, 24)), Reads: reads(get(1, 25))}, []history.Rule{history.Local}},
		{"of two Sets at once either wins", history.History{Fences: fences(sets(1, drop(21, 24)), sets(2, drop(22, 23))), Reads: reads(get(1, 25), get(2, 26))}, nil},
		{"of two Sets the later wins", history.History{Fences: fences(sets(1, drop(21, 24)), sets(2, drop(25, 26))), Reads: reads(get(1, 27))}, []history.Rule{history.Local}},
	} {
		t.Run(c.name, func(t *testing.T) { judge(t, c.h, c.want) })
	}
}

func TestReadsOfInstancesThatAreCutOffAreJudged(t *testing.T) {
	far := fences(by(1, drop(22, 24)))
	link := func(at history.Time, s history.State) history.Link { return history.Link{At: at, State: s} }
	for _, c := range []struct {
		name string
		h    history.History
		want []history.Rule
	}{
		{"a message before a gap is known", history.History{Fences: far, Links: links(link(300, history.Down)), Reads: reads(get(1, 500))}, []history.Rule{history.Bounded}},
		{"a message under way is not", history.History{Fences: far, Links: links(link(60, history.Down)), Reads: reads(get(1, 500))}, nil},
		{"a message after a gap is not known", history.History{Fences: far, Links: links(link(21, history.Down)), Reads: reads(get(1, 900))}, nil},
		{"but not for ever", history.History{Fences: far, Links: links(link(21, history.Down)), Reads: reads(get(1, 1200))}, []history.Rule{history.Bounded}},
		{"a long gap makes earlier entries unusable", history.History{Fences: far, Links: links(link(60, history.Down)), Reads: reads(get(1, 1200))}, []history.Rule{history.Bounded}},
		{"nor of another instance", history.History{Fences: far, Links: links(history.Link{Instance: 2, At: 40, State: history.Down}), Reads: reads(get(1, 150))}, []history.Rule{history.Bounded}},
		{"joining tells of everything before it", history.History{Fences: far, Links: links(link(21, history.Down), link(40, history.Connected)), Reads: reads(get(1, 43))}, []history.Rule{history.Bounded}},
		{"it takes a moment to join", history.History{Fences: far, Links: links(link(21, history.Down), link(40, history.Connected)), Reads: reads(get(1, 41))}, nil},
		{"the deaf do not know", history.History{Fences: far, Links: links(link(21, history.Deaf)), Reads: reads(get(1, 5000))}, nil},
		{"the deaf know messages from before", history.History{Fences: far, Links: links(link(300, history.Deaf)), Reads: reads(get(1, 900))}, []history.Rule{history.Bounded}},
		{"messages under way are lost", history.History{Fences: far, Links: links(link(60, history.Deaf)), Reads: reads(get(1, 900))}, nil},
		{"the deaf are told at last", history.History{Fences: far, Links: links(link(21, history.Deaf), link(50, history.Down), link(60, history.Connected)), Reads: reads(get(1, 63))}, []history.Rule{history.Bounded}},
		{"the deaf go on until they have been told for long", history.History{Fences: far, Links: links(link(21, history.Deaf), link(900, history.Down)), Reads: reads(get(1, 1800))}, nil},
		{"changes at once", history.History{Fences: far, Links: links(link(10, history.Down), link(30, history.Connected), link(30, history.Deaf)), Reads: reads(get(1, 31))}, nil},
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
	once := func(from, to history.Time) history.Excuse {
		return history.Excuse{Instance: history.Shared, From: from, To: to, Cluster: true}
	}
	here := func(from, to history.Time) history.Excuse { return history.Excuse{Key: "k", From: from, To: to} }
	for _, c := range []struct {
		name string
		h    history.History
		want []history.Rule
	}{
		{"one", history.History{Loads: loads(load(0, 30, 31, 40))}, nil},
		{"an old value that holds", history.History{Loads: loads(old)}, nil},
		{"an old value that was dropped", history.History{Fences: fences(by(1, drop(22, 24))), Loads: loads(old)}, []history.Rule{history.Fresh}},
		{"a value from the future", history.History{Loads: loads(early)}, []history.Rule{history.Future}},

		{"two at once", history.History{Loads: loads(load(0, 30, 31, 40), load(0, 32, 33, 45)), Excuses: excuse(once(33, 33))}, []history.Rule{history.OneLoad}},
		{"two at once after a drop here", history.History{Fences: fences(failed(drop(32, 34))), Loads: loads(load(0, 30, 31, 40), load(0, 35, 36, 45)), Excuses: excuse(once(33, 33))}, nil},
		{"two at once after a drop of tags here", history.History{Fences: fences(tags(drop(32, 34))), Loads: loads(load(0, 30, 31, 40), load(0, 35, 36, 45)), Excuses: excuse(once(33, 33))}, []history.Rule{history.OneLoad}},
		{"two at once after a drop before", history.History{Fences: fences(failed(drop(22, 24))), Loads: loads(load(0, 30, 31, 40), load(0, 35, 36, 45)), Excuses: excuse(once(33, 33))}, []history.Rule{history.OneLoad}},
		{"two at once, the later one asked for before a drop", history.History{Fences: fences(failed(drop(28, 29))), Loads: loads(load(0, 30, 31, 40), load(0, 27, 36, 45)), Excuses: excuse(once(33, 33))}, nil},
		{"two at once after the bus was connected", history.History{Links: links(history.Link{At: 33, State: history.Connected}), Loads: loads(load(0, 30, 31, 40), load(0, 35, 36, 45)), Excuses: excuse(once(33, 33))}, nil},
		{"two at once with leave", history.History{Loads: loads(load(0, 30, 31, 40), load(0, 35, 36, 45)), Excuses: excuse(once(33, 33), here(33, 34))}, nil},
		{"one that fails beside another", history.History{Loads: loads(bad, load(0, 32, 33, 45)), Excuses: excuse(once(33, 33))}, []history.Rule{history.OneLoad}},

		{"one elsewhere at once", history.History{Loads: loads(load(0, 30, 31, 40), load(1, 30, 33, 45))}, []history.Rule{history.OneClusterLoad}},
		{"one elsewhere afterwards", history.History{Loads: loads(load(0, 30, 31, 40), load(1, 50, 51, 55))}, []history.Rule{history.OneClusterLoad}},
		{"one after the value has expired", history.History{Loads: loads(load(0, 30, 31, 40), load(1, 2040, 2041, 2045))}, nil},
		{"one after another has failed", history.History{Loads: loads(bad, load(1, 50, 51, 55))}, nil},
		{"one elsewhere after a drop", history.History{Loads: loads(load(0, 30, 31, 40), load(1, 50, 51, 55)), Excuses: excuse(once(45, 45))}, nil},
		{"a drop excuses one load", history.History{Loads: loads(load(0, 30, 31, 40), load(1, 50, 51, 55), load(0, 60, 61, 62)), Excuses: excuse(once(45, 45))}, []history.Rule{history.OneClusterLoad}},
		{"a long excuse among short ones", history.History{Loads: loads(load(0, 30, 31, 40), load(1, 50, 51, 55)), Excuses: excuse(once(10, 48), once(20, 21), once(22, 23))}, nil},
		{"other keys are others", history.History{Loads: loads(load(0, 30, 31, 40), history.Load{Key: "l", Since: 32, Call: 33, Return: 34, OK: true})}, nil},
	} {
		t.Run(c.name, func(t *testing.T) { judge(t, c.h, c.want) })
	}
}

func judge(t *testing.T, h history.History, want []history.Rule) {
	t.Helper()
	var got []history.Rule
	var texts []string
	for _, v := range register(h).Judge(history.Promise{Delay: 100, Unconfirmed: 1000, TTL: 2000, Slack: 2}) {
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

func losses(since, from, to history.Time) []history.Loss { return []history.Loss{{since, from, to}} }

func TestAgesCountFromTheFirstFenceThatShouldHaveEndedAValue(t *testing.T) {
	other := get(0, 45)
	other.Key, other.Of = "m", "m"
	h := register(history.History{
		Writes: []history.Write{{Key: "k", Version: 3, At: 48}, {Key: "m", Version: 1, At: 15}},
		Fences: fences(drop(8, 9), failed(drop(21, 22)), soft(drop(23, 24)), drop(25, 28), all(drop(40, 41)), drop(50, 200), drop(60, 70)),
		Links:  links(history.Link{At: 1000, State: history.Deaf}),
		Reads: reads(
			get(3, 500), get(0, 9), get(1, 24), // not dropped by then
			get(1, 26), stale(get(1, 26)), stale(get(1, 30)), get(0, 29), other,
			get(2, 69), get(2, 100), on(3, get(2, 1500)), get(2, 1500),
			on(history.Shared, get(1, 500)), get(7, 500)), // reads of the tier and of unknown versions do not count
	})
	type age struct {
		old       time.Duration
		connected bool
	}
	var got []age
	h.Ages(history.Promise{Delay: 100, Slack: 2}, func(_ *history.Read, old time.Duration, connected bool) {
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
		r := history.NewRecorder()
		a, b := r.Now(), r.Now()
		time.Sleep(time.Millisecond)
		c := r.Now()
		if a >= b || c != history.Time(time.Millisecond) {
			t.Errorf("times %d, %d and, after 1ms, %d", a, b, c)
		}
		r.Write("k", 1)
		r.Link(1, history.Down)
		r.Read(history.Read{Key: "k", Of: "k", Call: r.Now()})
		r.Load(history.Load{Key: "k", Call: r.Now()})
		r.Fence(history.Fence{Key: "k", Call: r.Now()})
		r.Excuse(history.Excuse{Key: "k"})
		h := r.History()
		times := []history.Time{h.Writes[0].At, h.Links[0].At, h.Reads[0].Call, h.Reads[0].Return, h.Loads[0].Call, h.Loads[0].Return, h.Fences[0].Call, h.Fences[0].Return}
		if !slices.IsSorted(times) || times[0] <= c || len(h.Excuses) != 1 {
			t.Errorf("times %d are not in order", times)
		}
	})
}

func BenchmarkJudge(b *testing.B) {
	h := history.History{}
	for i := range history.Time(10_000) {
		h.Writes = append(h.Writes, history.Write{Key: "k", Version: uint64(i) + 1, At: 10 * i})
		h.Fences = append(h.Fences, drop(10*i+1, 10*i+2))
		for r := range history.Time(10) {
			h.Reads = append(h.Reads, on(int(r), get(uint64(i)+1, 10*i+3)))
		}
	}
	for b.Loop() {
		if v := h.Judge(history.Promise{}); len(v) > 0 {
			b.Fatal(v[0])
		}
	}
}
