package redis

import (
	"context"
	"errors"
	"time"

	"github.com/strata-cache/strata/internal/observe"
	"github.com/strata-cache/strata/internal/redis/layout"
	"github.com/strata-cache/strata/internal/redis/resp"
	"github.com/strata-cache/strata/internal/redis/slots"
	"github.com/strata-cache/strata/internal/redis/tier"
	"github.com/strata-cache/strata/internal/wire/mux"
	"github.com/strata-cache/strata/remote"
)

// tierServer is a server as a tier sees it. It is a tier.Server and, in a
// cluster, a tier.Node. owner is the cache that the Trace hears of; nil for the bus.
type tierServer struct {
	r     route
	owner *observe.Owner
}

// For returns the server for a space. It is called once for each view of a Tier.
func (s tierServer) For(space string) tier.Server { return tierServer{s.r, observe.OwnerOf(space)} }

// traced is node.traced for a command of the owner.
func (s tierServer) traced(ctx context.Context, c remote.Command, f func() error) error {
	s.owner.Sends(&c)
	return s.r.n.traced(ctx, c, f)
}

// Send implements tier.Server.
func (s tierServer) Send(ctx context.Context, put func([]byte, string) []byte, head string) (v resp.Value, err error) {
	if s.r.n.o.Trace == nil {
		return s.send(ctx, put, head)
	}
	name, script := tier.ScriptOf(head)
	_ = s.traced(ctx, remote.Command{Name: name, Script: script}, func() error {
		v, err = s.send(ctx, put, head)
		return failed(v, err)
	})
	return v, err
}

// look makes the client check whether the server is still the same, if a check
// is due.
func (s tierServer) look(now time.Time) {
	if s.r.n.look != nil {
		s.r.n.look(now)
	}
}

// failed is err, or the error that a reply is.
func failed(v resp.Value, err error) error {
	if err == nil && v.Kind() == resp.Error {
		return serverError(v.Bytes())
	}
	return err
}

func (s tierServer) send(ctx context.Context, put func([]byte, string) []byte, head string) (resp.Value, error) {
	const name = "EVAL"
	now := time.Now()
	s.look(now)
	// The name EVAL stands for a command that may not be sent twice: share repeats it only if it
	// was not sent.
	if c := s.r.shared(name); c != nil {
		c.text = put(c.text, head)
		a, err := s.r.n.share(ctx, name, c, now)
		if err != mux.ErrElsewhere {
			return a.value, err
		}
	}
	return s.alone(ctx, name, name, func(dst []byte) []byte { return put(dst, head) })
}

// Read implements tier.Server.
func (s tierServer) Read(ctx context.Context, timeout time.Duration, now time.Time, put func([]byte, string) []byte, key string) (v resp.Value, loan tier.Loan, err error) {
	if s.r.n.o.Trace == nil {
		return s.read(ctx, timeout, now, put, key)
	}
	_ = s.traced(ctx, single("HMGET"), func() error {
		v, loan, err = s.read(ctx, timeout, now, put, key)
		return failed(v, err)
	})
	return v, loan, err
}

func (s tierServer) read(ctx context.Context, timeout time.Duration, now time.Time, put func([]byte, string) []byte, key string) (resp.Value, tier.Loan, error) {
	const name = "HMGET"
	s.look(now)
	// The reply may stay in the memory of the command, which the tier frees as a loan: so a read of
	// a small value allocates nothing here.
	if c := s.r.shared(key); c != nil {
		c.text, c.lend = put(c.text, key), lent
		if timeout > 0 {
			c.Until = now.Add(timeout)
		}
		a, err := s.r.n.share(ctx, name, c, now)
		switch {
		case a.loan != nil:
			return a.value, a.loan, err
		case err != mux.ErrElsewhere:
			return a.value, nil, err
		}
	}
	ctx, cancel := remote.Within(ctx, timeout)
	defer cancel()
	v, err := s.alone(ctx, name, key, func(dst []byte) []byte { return put(dst, key) })
	return v, nil, err
}

// alone sends the command that put appends over a connection of its own.
func (s tierServer) alone(ctx context.Context, name, key string, put func([]byte) []byte) (v resp.Value, err error) {
	err = s.r.run(ctx, name, func(cn *conn) error {
		cn.W = put(cn.W[:0])
		err := cn.flush(true)
		if err == nil {
			v, err = cn.read()
		}
		return err
	})
	s.r.n.sizes.Note(key, v.Size())
	return v, err
}

// Together implements tier.Server.
func (s tierServer) Together(ctx context.Context, twice bool, f func(layout.Ask) error) error {
	s.look(time.Now())
	name, answer := "EVAL", error(nil)
	// The name tells run whether the function may be called again on another connection: HMGET only
	// reads, EVAL does not.
	if twice {
		name = "HMGET"
	}
	one := 1 // the length of a batch of one command, with ASKING
	if s.r.asking {
		one = 2
	}
	err := s.r.n.run(ctx, name, func(cn *conn) error {
		var broken error
		// An error of the connection is kept apart from the error of f: only the first one concerns
		// the connection, and may make run try another one.
		ask := func(b *layout.Batch) (replies []resp.Value, err error) {
			// As in roundAlone: a proxy may have carried out a part of the batch.
			cn.repeatable = cn.repeatable && (twice || b.N <= one)
			replies, broken = cn.askAll(b.Text, b.N)
			return replies, broken
		}
		if s.r.asking {
			ask = asked(ask)
		}
		if s.r.n.o.Trace != nil {
			ask = s.tracedAsk(ctx, cn, ask)
		}
		answer = f(ask)
		return broken
	})
	if err != nil {
		return err
	}
	return answer
}

// askAll sends n commands and returns their replies, which share memory.
func (c *conn) askAll(text []byte, n int) ([]resp.Value, error) {
	replies := make([]resp.Value, 0, n)
	b := resp.BatchOf(text, n)
	var slab resp.Slab
	err := c.converse(&b, func() error {
		slab.Left = n - len(replies)
		v, err := c.readTo(&slab)
		if err == nil {
			replies = append(replies, v)
		}
		return err
	})
	c.leaves(text, replies)
	return replies, err
}

// asked returns ask with ASKING before each command, and once before a whole transaction, for which it
// holds. A transaction with watched keys cannot be made so: it is refused as if the server did
// not serve its keys for the time being, which is until the slot has moved.
func asked(ask layout.Ask) layout.Ask {
	return func(b *layout.Batch) ([]resp.Value, error) {
		if _, name, _ := resp.CutCommand(b.Text); name == "MULTI" {
			replies, err := ask(&layout.Batch{Text: append(append([]byte(nil), asking...), b.Text...), N: b.N + 1})
			return replies[min(1, len(replies)):], err
		}
		var with layout.Batch
		for rest := b.Text; len(rest) > 0; {
			var one []byte
			var name string
			one, name, rest = resp.CutCommand(rest)
			// ASKING holds for one command. Inside of MULTI the server would queue it as a command
			// of the transaction.
			if name == "WATCH" || name == "MULTI" {
				return nil, &layout.Refusal{Text: "TRYAGAIN slot is being moved"}
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

// tracedAsk returns ask over cn, with the Trace told of each round trip.
func (s tierServer) tracedAsk(ctx context.Context, cn *conn, ask layout.Ask) layout.Ask {
	return func(b *layout.Batch) (replies []resp.Value, err error) {
		_ = s.traced(ctx, several(b.Text, b.N), func() error {
			// The status of a single command is its reply. Of several commands only the failure of
			// the connection is told.
			replies, err = ask(b)
			_, bounded := ctx.Deadline()
			cause := cn.explain(ctx, bounded, err)
			if b.N == 1 && len(replies) == 1 {
				return failed(replies[0], cause)
			}
			return cause
		})
		return replies, err
	}
}

// several describes n commands.
func several(text []byte, n int) remote.Command {
	all := ""
	for rest := text; len(rest) > 0; {
		var one []byte
		var name string
		one, name, rest = resp.CutCommand(rest)
		switch {
		case n == 1:
			return remote.Command{Name: name, Script: tier.ScriptIn(one)}
		case all != "" && all != name:
			return remote.Command{Name: "PIPELINE", Batch: n}
		}
		all = name
	}
	return remote.Command{Name: "PIPELINE " + all, Batch: n}
}

// Opened implements tier.Server. No two nodes have the same numbers.
func (s tierServer) Opened() uint64 { return s.r.n.serial<<32 + s.r.n.opened.Load() }

// Term implements tier.Terms.
func (s tierServer) Term() uint64 { return s.r.n.terms.number() }

// Holds implements tier.Terms.
func (s tierServer) Holds(ctx context.Context, term uint64) error {
	return s.r.n.terms.holds(ctx, term)
}

// MaxValue implements tier.Server.
func (s tierServer) MaxValue() int { return int(s.r.n.o.maxStored()) }

// Home implements tier.Node.
func (s tierServer) Home() *layout.Home { return &s.r.n.home }

// Settled implements tier.Node.
func (s tierServer) Settled() bool { return !s.r.asking }

// tierCluster is a cluster as a tier sees it. It is a tier.Cluster.
type tierCluster struct {
	k     *cluster
	owner *observe.Owner
}

// For is [tierServer.For].
func (c tierCluster) For(space string) tier.Cluster { return tierCluster{c.k, observe.OwnerOf(space)} }

// Follow implements tier.Cluster.
func (c tierCluster) Follow(ctx context.Context, key string, twice bool, f func(context.Context, tier.Node) error) error {
	var returned, seen error // the error of f, and the form of it that follow understands
	err := c.k.follow(ctx, target{slot: slots.Of(key), repeatable: twice}, func(ctx context.Context, r route) error {
		returned = f(ctx, tierServer{r, c.owner})
		seen = tierError(returned)
		return seen
	})
	// The tier gets its own error back, with all that it wraps, unless follow has replaced it by
	// another reason.
	if err == seen {
		return returned
	}
	return err
}

// Split implements tier.Cluster.
func (c tierCluster) Split(n int, key func(int) string) (parts [][]int) {
	of := map[*node]int{}
	for i := range n {
		// Only primaries: replicas may lack a drop, so a tier never reads from them.
		r, err := c.k.pick(slots.Of(key(i)), false)
		if err != nil {
			r.n = nil // the call that follows will find the node
		}
		p, ok := of[r.n]
		if !ok {
			p = len(parts)
			of[r.n] = p
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
				nodes = append(nodes, tierServer{route{n: n}, c.owner})
			}
			return nodes, nil
		}
		// No server has told the topology yet. A pause waits for the refresh.
		if _, err = c.k.pick(-1, false); c.k.closed() || !c.k.pause(ctx, n) {
			return nil, err
		}
	}
}

// Refresh implements tier.Cluster.
func (c tierCluster) Refresh(n tier.Node) {
	if s, ok := n.(tierServer); ok {
		c.k.fleet.Refresh(s.r.n.o.Addr)
	}
}

// MaxValue implements tier.Cluster.
func (c tierCluster) MaxValue() int { return int(c.k.o.maxStored()) }

// tierError makes an [*Error] of a refusal by the server.
func tierError(err error) error {
	if err == nil {
		return nil
	}
	var refused *layout.Refusal
	if errors.As(err, &refused) {
		return serverError([]byte(refused.Text))
	}
	return err
}
