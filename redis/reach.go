package redis

import (
	"context"
	"time"

	"github.com/strata-cache/strata/internal/redistier/tier"
	"github.com/strata-cache/strata/internal/redistier/watch"
	"github.com/strata-cache/strata/internal/redistier/words"
	"github.com/strata-cache/strata/internal/resp"
	"github.com/strata-cache/strata/internal/slots"
)

// tierServer is a server as a tier sees it. It is a tier.Server and, in a
// cluster, a tier.Node.
type tierServer struct{ h hop }

// Send implements tier.Server.
func (s tierServer) Send(ctx context.Context, put func([]byte) []byte) (resp.Value, error) {
	return s.send(ctx, question{name: "EVAL", key: "EVAL", put: put})
}

// Read implements tier.Server.
func (s tierServer) Read(ctx context.Context, now time.Time, put func([]byte, string) []byte, key string) (resp.Value, error) {
	return s.send(ctx, question{name: "HMGET", key: key, at: now, read: put})
}

func (s tierServer) send(ctx context.Context, q question) (v resp.Value, err error) {
	n := s.h.n
	if !s.h.asking {
		a, err := n.share(ctx, q)
		if err != errElsewhere {
			return a.value, err
		}
	}
	err = s.h.run(ctx, q.name, func(cn *conn) error {
		if cn.w = cn.w[:0]; q.put != nil {
			cn.w = q.put(cn.w)
		} else {
			cn.w = q.read(cn.w, q.key)
		}
		err := cn.flush(true)
		if err == nil {
			v, err = cn.read()
		}
		return err
	})
	n.sizes.note(q.key, v.Size())
	return v, err
}

// Together implements tier.Server.
func (s tierServer) Together(ctx context.Context, twice bool, f func(watch.Ask) error) error {
	name, answer := "EVAL", error(nil)
	if twice {
		name = "HMGET"
	}
	err := s.h.n.run(ctx, name, func(cn *conn) error {
		var broken error
		ask := func(b *watch.Batch) (replies []resp.Value, err error) {
			replies, broken = cn.askAll(b.Text, b.N)
			return replies, broken
		}
		if s.h.asking {
			ask = asked(ask)
		}
		answer = f(ask)
		return broken
	})
	if err != nil {
		return err
	}
	return answer
}

// askAll sends n commands and returns their replies.
func (c *conn) askAll(text []byte, n int) ([]resp.Value, error) {
	replies := make([]resp.Value, 0, n)
	b := resp.BatchOf(text)
	err := c.converse(&b, func() error {
		v, err := c.read()
		if err == nil {
			replies = append(replies, v)
		}
		return err
	})
	return replies, err
}

// asked returns ask with ASKING before each command. Transactions cannot be made
// so: they are refused as if the server did not serve their keys for the time
// being, which is until the slot has moved.
func asked(ask watch.Ask) watch.Ask {
	return func(b *watch.Batch) ([]resp.Value, error) {
		var with watch.Batch
		for rest := b.Text; len(rest) > 0; {
			var one []byte
			var name string
			one, name, rest = resp.CutCommand(rest)
			if name == "WATCH" || name == "MULTI" {
				return nil, &watch.Refusal{Text: "TRYAGAIN slot is being moved"}
			}
			with.Text = append(append(with.Text, asking...), one...)
			with.N += 2
		}
		replies, err := ask(&with)
		for i := 1; i < len(replies); i += 2 {
			replies[i/2] = replies[i]
		}
		return replies[:len(replies)/2], err
	}
}

// Opened implements tier.Server. No two nodes have the same numbers.
func (s tierServer) Opened() uint64 { return s.h.n.serial<<32 + s.h.n.opened.Load() }

// MaxValue implements tier.Server.
func (s tierServer) MaxValue() int { return int(s.h.n.o.maxValue()) }

// Home implements tier.Node.
func (s tierServer) Home() *words.Home { return &s.h.n.home }

// Settled implements tier.Node.
func (s tierServer) Settled() bool { return !s.h.asking }

// tierCluster is a cluster as a tier sees it. It is a tier.Cluster.
type tierCluster struct{ k *cluster }

// Follow implements tier.Cluster.
func (c tierCluster) Follow(ctx context.Context, key string, twice bool, f func(context.Context, tier.Node) error) error {
	var told, meant error // what f has returned, and what it means here
	err := c.k.follow(ctx, way{slot: slots.Of(key), twice: twice}, func(ctx context.Context, h hop) error {
		told = f(ctx, tierServer{h})
		meant = tierError(told)
		return meant
	})
	if err == meant {
		return told
	}
	return err
}

// Split implements tier.Cluster.
func (c tierCluster) Split(n int, key func(int) string) (parts [][]int) {
	of := map[*node]int{}
	for i := range n {
		h, err := c.k.pick(slots.Of(key(i)), false)
		if err != nil {
			h.n = nil // who serves it will be known when it is asked for
		}
		p, ok := of[h.n]
		if !ok {
			p = len(parts)
			of[h.n] = p
			parts = append(parts, nil)
		}
		parts[p] = append(parts[p], i)
	}
	return parts
}

// Serving implements tier.Cluster.
func (c tierCluster) Serving(ctx context.Context) (nodes []tier.Node, err error) {
	for n := 0; ; n++ {
		if v := c.k.fleet.View(); v != nil {
			for _, n := range v.Primaries() {
				nodes = append(nodes, tierServer{hop{n: n}})
			}
			return nodes, nil
		}
		if _, err = c.k.pick(-1, false); c.k.closed() || !c.k.pause(ctx, n) {
			return nil, err
		}
	}
}

// MaxValue implements tier.Cluster.
func (c tierCluster) MaxValue() int { return int(c.k.c.o.maxValue()) }
