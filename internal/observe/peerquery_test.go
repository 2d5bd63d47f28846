package observe

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/strata-cache/strata/remote"
)

// team are instances on one bus, each with a delay of its answers.
type team struct {
	all []*Asker
	mu  sync.Mutex
	cut map[uint64]bool // instances that hear nothing
}

func newTeam(t *testing.T, delays ...time.Duration) *team {
	g := &team{cut: map[uint64]bool{}}
	var runs sync.WaitGroup
	ctx, cancel := context.WithCancel(t.Context())
	for i, d := range delays {
		id := uint64(i + 1)
		g.all = append(g.all, &Asker{
			Instance: id, Open: ctx, Go: runs.Go,
			Usable: func(name string) bool { return len(name) < 100 },
			Explain: func(ctx context.Context, name string) (Explanation, error) {
				e := Explanation{Instance: fmt.Sprint("host/", id), Here: true, Answered: true}
				select {
				case <-time.After(d):
				case <-ctx.Done():
				}
				if name == "bad" {
					return e, errors.New("no key")
				}
				e.Verdict = name + " is fresh"
				return e, nil
			},
			Publish: func(k remote.Kind, key string) { g.publish(&remote.Message{Kind: k, From: id, Key: key}) },
		})
	}
	t.Cleanup(func() {
		cancel()
		runs.Wait()
	})
	return g
}

func (g *team) publish(m *remote.Message) {
	for _, a := range g.all {
		g.mu.Lock()
		cut := g.cut[a.Instance]
		g.mu.Unlock()
		if !cut {
			a.Receive(m)
		}
	}
}

// lose makes instances hear nothing.
func (g *team) lose(ids ...uint64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, id := range ids {
		g.cut[id] = true
	}
}

// ask asks by the first instance.
func (g *team) ask(t *testing.T, name string) (text string, took time.Duration) {
	t.Helper()
	begun := time.Now()
	all, err := g.all[0].Ask(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	for i, e := range all {
		if e.Here != (i == 0) {
			t.Errorf("answer %d: here is %v", i, e.Here)
		}
		text += fmt.Sprintf("%s %v %s; ", e.Instance, e.Answered, e.Verdict)
	}
	return text, time.Since(begun)
}

func TestEveryInstanceAnswersAndSilentOnesAreNamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newTeam(t, 0, 10*time.Millisecond, 300*time.Millisecond, time.Minute)
		text, took := g.ask(t, "k")
		if text != "host/1 true k is fresh; host/2 true k is fresh; host/3 true k is fresh; host/4 true k is fresh; " || took != time.Second {
			t.Errorf("after %v: %s", took, text)
		}
		if _, took = g.ask(t, "k"); took != 800*time.Millisecond {
			t.Errorf("all known instances have answered after %v", took)
		}
		g.lose(3)
		if text, took = g.ask(t, "k"); !strings.Contains(text, "host/4 true k is fresh; host/3 false No answer came within 1s.") || took != time.Second {
			t.Errorf("after %v: %s", took, text)
		}
		time.Sleep(11 * time.Minute)
		g.lose(3, 4)
		if text, took = g.ask(t, "k"); text != "host/1 true k is fresh; host/2 true k is fresh; " {
			t.Errorf("instances that are long gone are named, after %v: %s", took, text)
		}
	})
}

// TestInstanceThatHasClosedIsNotAwaited has a message arrive after the leave of its instance.
func TestInstanceThatHasClosedIsNotAwaited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newTeam(t, 0, 0, 0)
		g.ask(t, "k")
		g.lose(2, 3)
		g.all[2].Publish(remote.Answered, Leave)
		g.all[0].Seen(3)
		if text, _ := g.ask(t, "k"); strings.Contains(text, "host/3") || !strings.Contains(text, "host/2 false") {
			t.Errorf("after the third has closed: %s", text)
		}
		leave := time.AfterFunc(askAtLeast, func() { g.all[1].Publish(remote.Answered, Leave) })
		defer leave.Stop()
		if text, _ := g.ask(t, "k"); text != "host/1 true k is fresh; " {
			t.Errorf("while the second closes: %s", text)
		}
		if text, took := g.ask(t, "k"); text != "host/1 true k is fresh; " || took != askAtLeast {
			t.Errorf("after both have closed, %v: %s", took, text)
		}
	})
}

func TestSilentInstanceIsNamedWithTheTimeOfItsSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newTeam(t, 0, 0)
		g.ask(t, "k")
		g.lose(2)
		time.Sleep(3 * time.Minute)
		all, err := g.all[0].Ask(t.Context(), "k")
		if err != nil || len(all) != 2 {
			t.Fatalf("%d answers, %v", len(all), err)
		}
		if e := all[1]; e.Answered || e.Took != askFor || !strings.Contains(e.Verdict, "within 1s. The instance was last heard of 3m2s ago: ") {
			t.Errorf("%+v", e)
		}
	})
}

func TestInstanceThatWasHeardOfIsNamedByItsNumber(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newTeam(t, 0)
		g.all[0].Seen(0xabc)
		if text, took := g.ask(t, "k"); !strings.Contains(text, "instance 0000000000000abc false") || took != time.Second {
			t.Errorf("after %v: %s", took, text)
		}
	})
}

func TestErrorOfAnotherInstanceIsItsVerdict(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newTeam(t, 0, 0)
		if _, err := g.all[0].Ask(t.Context(), "bad"); err == nil {
			t.Error("the error of this instance is lost")
		}
		synctest.Wait() // the other one has answered
		explain := g.all[1].Explain
		g.all[1].Explain = func(ctx context.Context, _ string) (Explanation, error) { return explain(ctx, "bad") }
		if text, _ := g.ask(t, "k"); !strings.Contains(text, "host/2 true no key") {
			t.Errorf("got %s", text)
		}
	})
}

func TestFewQuestionsAreAnsweredAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newTeam(t, time.Second/2)
		var answers atomic.Int64
		publish := g.all[0].Publish
		g.all[0].Publish = func(k remote.Kind, key string) {
			answers.Add(1)
			publish(k, key)
		}
		for i := range 1000 {
			g.all[0].Receive(&remote.Message{Kind: remote.Asked, From: 77, Key: fmt.Sprintf("%x k", i)})
		}
		time.Sleep(time.Minute)
		if n := answers.Load(); n != maxAnswers {
			t.Errorf("%d of 1000 questions at once are answered, want %d", n, maxAnswers)
		}
	})
}

func TestInstancesThatAreRememberedAreBounded(t *testing.T) {
	a := &Asker{}
	for i := range 3 * maxInstances {
		a.Seen(uint64(i + 1))
	}
	if n := len(a.others()); n != maxInstances {
		t.Errorf("%d instances are remembered", n)
	}
}

func FuzzReceive(f *testing.F) {
	f.Add(byte(9), "1f k")
	f.Add(byte(10), `1 1 {"Instance":"a\u001b","Tags":["x"],"Took":5}`)
	f.Add(byte(10), `1 ffffffffffffffff {"L1Fresh":9223372036854775807}`)
	f.Fuzz(func(t *testing.T, kind byte, key string) {
		a := &Asker{
			Instance: 1, Open: t.Context(), Go: func(f func()) { f() },
			Usable:  func(string) bool { return true },
			Publish: func(remote.Kind, string) {},
			Explain: func(context.Context, string) (Explanation, error) { return Explanation{}, nil },
		}
		answers := make(chan answer, 1)
		a.await(1, answers)
		a.Receive(&remote.Message{Kind: remote.Kind(kind%2) + remote.Asked, From: 2, Key: key})
		select {
		case got := <-answers:
			if len(got.Verdict) > 500 || len(got.Tags) > 10 || strings.ContainsAny(got.Instance+got.Verdict+got.Err, "\x1b\n") {
				t.Errorf("unclean answer %+v", got)
			}
		default:
		}
	})
}

// programmed gives each instance of a team a program. It returns the strangers
// of which each was told, and the number of announcements published.
func (g *team) programmed(names ...string) (told [][]string, published *atomic.Int64) {
	told, published = make([][]string, len(names)), new(atomic.Int64)
	for i, a := range g.all {
		a.Program = names[i]
		a.Stranger = func(p string) {
			g.mu.Lock()
			defer g.mu.Unlock()
			told[i] = append(told[i], p)
		}
		publish := a.Publish
		a.Publish = func(k remote.Kind, key string) { published.Add(1); publish(k, key) }
	}
	return told, published
}

func TestInstancesOfTwoProgramsTellBothSidesOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newTeam(t, make([]time.Duration, 40)...)
		names := make([]string, 40)
		for i := range names {
			names[i] = "example.com/shop"
		}
		names[7], names[39] = "", "example.com/bank" // 7 is a test
		told, published := g.programmed(names...)
		for range 3 { // each joins, and joins again
			for _, a := range g.all {
				a.Announce()
			}
			time.Sleep(time.Minute)
		}
		synctest.Wait()
		for i := range names {
			want := "[example.com/bank]"
			switch i {
			case 7:
				want = "[]"
			case 39:
				want = "[example.com/shop]"
			}
			if got := fmt.Sprint(told[i]); got != want {
				t.Errorf("instance %d was told of %s, want %s", i, got, want)
			}
		}
		if n := published.Load(); n < 40 || n > 60 {
			t.Errorf("%d announcements of 39 instances", n)
		}
	})
}

func TestProgramThatHasJoinedEarlierIsToldOfByItsReply(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newTeam(t, 0, 0, 0)
		told, published := g.programmed("a", "a", "b")
		g.lose(3)
		g.all[0].Announce()
		g.all[1].Announce()
		g.lose()
		g.mu.Lock()
		g.cut = map[uint64]bool{}
		g.mu.Unlock()
		time.Sleep(time.Hour)
		synctest.Wait()
		if n := published.Load(); n != 2 {
			t.Errorf("%d announcements of instances that are idle, want 2", n)
		}
		g.all[2].Announce()
		time.Sleep(time.Minute)
		synctest.Wait()
		if fmt.Sprint(told) != "[[b] [b] [a]]" {
			t.Errorf("told %q", told)
		}
	})
}

func TestOneProgramAndHostileAnnouncementsTellNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newTeam(t, 0, 0)
		told, _ := g.programmed("a", "a")
		for _, a := range g.all {
			a.Announce()
		}
		for _, text := range []string{"", "0 0 ", "0 0 {", `0 0 {"Main":7}`, `0 0 {"Main":""}`, "0 0 " + strings.Repeat("x", 1<<20)} {
			g.publish(&remote.Message{Kind: remote.Answered, From: 99, Key: text})
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if fmt.Sprint(told) != "[[] []]" {
			t.Errorf("told %q", told)
		}
		for i := range 1000 {
			g.publish(&remote.Message{Kind: remote.Answered, From: 99, Key: fmt.Sprintf(`0 0 {"Main":"x%d\n%s"}`, i, strings.Repeat("y", 1000))})
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if n := len(told[0]); n != maxPrograms || len(told[0][0]) > maxVerdict || strings.Contains(told[0][0], "\n") {
			t.Errorf("told of %d programs, the first one %.300q", n, told[0])
		}
	})
}
