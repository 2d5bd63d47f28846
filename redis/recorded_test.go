package redis_test

import (
	"context"
	"flag"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/strata-cache/strata/internal/testing/fakes"
	"github.com/strata-cache/strata/internal/testing/netsim"
	"github.com/strata-cache/strata/redis"
)

var everyCut = flag.Bool("everycut", false, "cut and stall recorded conversations at every byte of long values too")

// outcome is the result of a call, and how long it took.
type outcome struct {
	result string
	err    error
	took   time.Duration
}

// replay plays a conversation again. fault sets one on a connection.
func replay(t *testing.T, p fakes.Play, said *fakes.Conversation, fault func(i int, client *netsim.Conn)) (all []outcome, wrong string) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		player := &fakes.Player{Conversation: said, OnDial: fault}
		// No connection counts as stuck, or another one would be asked for.
		o := redis.Options{DialContext: player.Dial, MaxConns: 16, Timeout: 10 * time.Second}
		if p.Change != nil {
			p.Change(&o)
		}
		c, err := redis.New(o)
		if err != nil {
			t.Fatal(err)
		}
		p.Run(func(f func(context.Context) (string, error)) {
			ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
			defer cancel()
			start := time.Now()
			result, err := f(ctx)
			all = append(all, outcome{fakes.Short(result), err, time.Since(start)})
		}, c)
		c.Close()
		wrong = player.Close()
	})
	return all, wrong
}

func TestRecordedConversationsPlayAgain(t *testing.T) {
	plays := fakes.Plays()
	if len(plays) < 12 {
		t.Errorf("%d conversations", len(plays))
	}
	for _, p := range plays {
		said, err := fakes.Read("testdata/conversations", p.Name)
		if err != nil {
			t.Fatal(err)
		}
		again, err := fakes.Parse(said.String())
		if err != nil || again.String() != said.String() {
			t.Errorf("%s: written and read it is another one: %v", p.Name, err)
		}
		all, wrong := replay(t, p, said, nil)
		if len(all) != len(said.Results) || wrong != "" {
			t.Errorf("%s: %d results, recorded are %d; the client said %s", p.Name, len(all), len(said.Results), wrong)
			continue
		}
		for i, o := range all {
			if o.result != said.Results[i] || o.err != nil || o.took != 0 {
				t.Errorf("%s, %d: %q, %v after %v, recorded is %q", p.Name, i, o.result, o.err, o.took, said.Results[i])
			}
		}
	}
}

// faults are the positions at which a connection is cut or stalled: all of
// them, except most positions inside long texts.
func faults(said *fakes.Conversation, conn int) (all []int) {
	at := 0
	for _, turn := range said.Conns[conn] {
		for i := range len(turn.Server) {
			inside := i > 100 && i < len(turn.Server)-50 && len(turn.Server) > 2500
			if *everyCut || !inside || (at+i)%4096 < 3 || i%997 == 0 {
				all = append(all, at+i)
			}
		}
		at += len(turn.Server)
	}
	return append(all, at)
}

// TestEveryCutGivesAnErrorOrTheFullValue: never a wrong value, wherever a
// connection is reset in a recorded conversation.
func TestEveryCutGivesAnErrorOrTheFullValue(t *testing.T) {
	eachFault(t, func(p fakes.Play, said *fakes.Conversation, conn, at int) {
		all, _ := replay(t, p, said, func(i int, client *netsim.Conn) {
			if i == conn {
				client.CutAfter(at)
			}
		})
		for i, o := range all {
			if o.err == nil && o.result != said.Results[i] {
				t.Errorf("%s, connection %d cut at %d, call %d: %q instead of %q", p.Name, conn, at, i, o.result, said.Results[i])
			}
		}
	})
}

// TestEveryStallEndsWithItsContext: wherever a server stops in the middle of a
// recorded conversation, a call with 200 ms is over after exactly that.
func TestEveryStallEndsWithItsContext(t *testing.T) {
	eachFault(t, func(p fakes.Play, said *fakes.Conversation, conn, at int) {
		all, _ := replay(t, p, said, func(i int, client *netsim.Conn) {
			if i == conn {
				client.StallAfter(at)
			}
		})
		for i, o := range all {
			where := fmt.Sprintf("%s, connection %d stalled at %d, call %d", p.Name, conn, at, i)
			if o.err == nil && o.result != said.Results[i] {
				t.Errorf("%s: %q instead of %q", where, o.result, said.Results[i])
			}
			if o.took != 0 && (o.took != 200*time.Millisecond || o.err == nil) {
				t.Errorf("%s: %v after %v", where, o.err, o.took)
			}
		}
	})
}

// eachFault calls f for each position of each connection of each play.
func eachFault(t *testing.T, f func(p fakes.Play, said *fakes.Conversation, conn, at int)) {
	for _, p := range fakes.Plays() {
		said, err := fakes.Read("testdata/conversations", p.Name)
		if err != nil {
			t.Fatal(err)
		}
		for conn := range said.Conns {
			for n, at := range faults(said, conn) {
				if raceEnabled && n%5 != 0 {
					continue // it finds races at any of them
				}
				if f(p, said, conn, at); t.Failed() {
					return
				}
			}
		}
	}
}
