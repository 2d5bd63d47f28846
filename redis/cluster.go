package redis

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/strata-cache/strata/internal/fleet"
	"github.com/strata-cache/strata/internal/resp"
	"github.com/strata-cache/strata/internal/slots"
	"github.com/strata-cache/strata/remote"
)

const (
	// maxHops is how often a call is sent on before it fails.
	maxHops = 5
	// maxTopology is the largest description of a cluster, in bytes. One in
	// which each slot is a range of its own takes a third of it.
	maxTopology = 16 << 20
	// pauseFirst and pauseMost bound the pause before a call is tried again.
	pauseFirst = 10 * time.Millisecond
	pauseMost  = 200 * time.Millisecond
)

// Errors of a cluster that callers tell apart.
var (
	// ErrNoNode is in the chain of the error of a call about a slot that no
	// node serves. Nothing was sent.
	ErrNoNode = errors.New("redis: no node serves the slot")
	// ErrCrossSlot is returned when keys that must be in one slot are in
	// several. Nothing was sent. What is in braces decides the slot of a key,
	// as in {user1}name and {user1}age.
	ErrCrossSlot = errors.New("redis: keys are in different slots")
)

var (
	// errUnknown stands for what a cluster has not told yet.
	errUnknown = errors.New("redis: topology of the cluster is not known")
	// errDismissed is the reason when a connection was closed because its
	// server had lost its role.
	errDismissed = errors.New("redis: server has lost its role in the cluster")
	errCrowd     = fmt.Errorf("%w: more servers than a cluster has", ErrProtocol)
)

// cluster is what a client has instead of one node: all of them, and the rules
// by which a call finds its own.
type cluster struct {
	c     *Client
	fleet *fleet.Fleet[*node]
	nodes atomic.Uint64 // that were made so far

	mu   sync.Mutex // guards below
	gone Stats      // of nodes that were closed
}

func newCluster(c *Client) *cluster {
	k := &cluster{c: c}
	k.fleet = fleet.New(fleet.Config[*node]{
		Seeds:    append([]string{c.o.Addr}, c.o.Addrs...),
		Ask:      k.topology,
		Open:     k.open,
		Close:    k.shut,
		Changed:  (*node).doubt,
		Silent:   (*node).silent,
		Replicas: c.o.ReplicaReads,
		Timeout:  c.o.DialTimeout,
		Closed:   ErrClosed,
		Crowd:    errCrowd,
	})
	return k
}

// open makes a node.
func (k *cluster) open(addr string, replica bool) *node {
	var greet func(context.Context, *conn) error
	if replica {
		greet = func(ctx context.Context, cn *conn) error {
			_, err := cn.once(ctx, k.c.o.DialTimeout, "READONLY")
			return err
		}
	}
	n := newNode(k.c, k.c.o.at(addr), greet)
	n.serial = k.nodes.Add(1)
	return n
}

// shut closes a node and keeps its counters.
func (k *cluster) shut(n *node) {
	n.close()
	s := Stats(n.pool.Stats())
	k.mu.Lock()
	defer k.mu.Unlock()
	k.gone.add(s)
}

func (k *cluster) stats() Stats {
	k.mu.Lock()
	s := k.gone
	k.mu.Unlock()
	for _, n := range k.fleet.Nodes() {
		s.add(Stats(n.pool.Stats()))
	}
	return s
}

// topology asks a server for the topology, over a connection of its own: those
// of the pool may all be in use, and replies are bounded more tightly.
func (k *cluster) topology(ctx context.Context, addr string) (*slots.Map, error) {
	o := k.c.o.at(addr)
	if o.MaxReply == 0 || o.MaxReply > maxTopology {
		o.MaxReply = maxTopology
	}
	cn, err := connect(ctx, &o, &k.c.steps)
	if err != nil {
		return nil, err
	}
	defer cn.Close()
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, err
	}
	asked := slots.Asked{Host: host, TLS: o.TLS != nil}
	parse := asked.ParseShards
	v, err := cn.once(ctx, o.DialTimeout, "CLUSTER", "SHARDS")
	var refused *Error
	if errors.As(err, &refused) {
		parse = asked.ParseSlots
		v, err = cn.once(ctx, o.DialTimeout, "CLUSTER", "SLOTS")
	}
	if err != nil {
		return nil, err
	}
	m, err := parse(v)
	switch {
	case err == slots.ErrEmpty:
		return nil, &ConnError{Op: "route", Err: ErrNoNode}
	case err != nil:
		return nil, &ConnError{Op: "route", Err: fmt.Errorf("%w: %w", ErrProtocol, err)}
	}
	return m, nil
}

// once asks one question outside of a pool. Errors of the server are errors.
func (c *conn) once(ctx context.Context, timeout time.Duration, args ...any) (v resp.Value, err error) {
	calm, err := c.exchange(ctx, time.Now(), timeout, func(c *conn) (err error) {
		if err = c.Look(true); err != nil {
			return &ConnError{Op: "read", Err: err}
		}
		if err = c.command(args); err == nil {
			err = c.flush(true)
		}
		if err == nil {
			v, err = c.read()
		}
		return err
	})
	switch {
	case err != nil:
		return v, err
	case !calm:
		return v, &ConnError{Op: "read", Sent: true, Err: ctx.Err()}
	case v.Kind() == resp.Error:
		return v, serverError(v.Bytes())
	}
	return v, nil
}

// speaker returns the options for a server that tells what is published: the
// one that serves a slot, or any if it is negative.
func (c *Client) speaker(ctx context.Context, slot int) (*Options, error) {
	if c.cluster == nil {
		return c.home.o, nil
	}
	for n := 0; ; n++ {
		h, err := c.cluster.pick(slot, false)
		if err == nil {
			return h.n.o, nil
		}
		if _, v := c.cluster.judge(h, true, err); v == final || !c.cluster.pause(ctx, n) {
			return nil, err
		}
	}
}

// hop is where one attempt of a call goes: a node, and whether the server has
// to be told that it was named for this call.
type hop struct {
	n      *node
	asking bool
}

// do is node.do.
func (h hop) do(ctx context.Context, name string, args []any) Reply {
	if !h.asking {
		return h.n.do(ctx, name, args)
	}
	return h.ask(ctx, name, func(cn *conn) error { return cn.command(args) })
}

// get is node.get.
func (h hop) get(ctx context.Context, dst []byte, key string) ([]byte, error) {
	if !h.asking {
		return h.n.get(ctx, dst, key)
	}
	b, err := h.do(ctx, "GET", []any{"GET", key}).Bytes()
	return append(dst, b...), err
}

// eval is node.eval.
func (h hop) eval(ctx context.Context, name string, weight int, put func([]byte) ([]byte, error)) Reply {
	if !h.asking {
		return h.n.eval(ctx, name, weight, put)
	}
	return h.ask(ctx, name, func(cn *conn) (err error) {
		cn.w, err = put(cn.w)
		return err
	})
}

// ask is node.ask, with ASKING before it.
func (h hop) ask(ctx context.Context, name string, put func(*conn) error) (reply Reply) {
	err := h.run(ctx, name, func(cn *conn) error {
		if reply.err = put(cn); reply.err != nil {
			return nil
		}
		if err := cn.flush(true); err != nil {
			return err
		}
		v, err := cn.read()
		reply = newReply(v)
		return err
	})
	if err != nil {
		return Reply{err: err}
	}
	return reply
}

// run is node.run.
func (h hop) run(ctx context.Context, name string, f func(*conn) error) error {
	return h.n.run(ctx, name, h.behind(f))
}

// behind returns f, with ASKING before it if that is needed.
func (h hop) behind(f func(*conn) error) func(*conn) error {
	if !h.asking {
		return f
	}
	return func(cn *conn) error {
		cn.w = append(cn.w, asking...)
		if err := cn.flush(true); err != nil {
			return err
		}
		if _, err := cn.read(); err != nil {
			return err
		}
		if err := cn.Look(true); err != nil {
			return &ConnError{Op: "read", Err: err}
		}
		return f(cn)
	}
}

const asking = "*1\r\n$6\r\nASKING\r\n"

// way says how a call finds its node.
type way struct {
	slot    int  // negative: any node
	twice   bool // it may be carried out twice
	replica bool // a replica will do at first
}

// way is that of a command.
func (k *cluster) way(name string, slot int) way {
	reads := resp.ReadsOnly(name)
	return way{slot: slot, twice: reads, replica: reads && k.c.o.ReplicaReads}
}

// pick returns where a call about a slot begins; about any if slot is negative.
func (k *cluster) pick(slot int, replica bool) (hop, error) {
	v := k.fleet.View()
	if v == nil {
		err := k.fleet.Err()
		if err == ErrClosed {
			return hop{}, err
		}
		if err == nil {
			err = errUnknown
		}
		return hop{}, &ConnError{Op: "route", Err: err}
	}
	if slot < 0 {
		return hop{n: v.Any()}, nil
	}
	if replica {
		if n, ok := v.Replica(slot); ok {
			return hop{n: n}, nil
		}
	}
	n, ok := v.Primary(slot)
	switch {
	case !ok && k.closed():
		return hop{}, ErrClosed
	case !ok:
		return hop{}, &ConnError{Op: "route", Err: ErrNoNode}
	}
	return hop{n: n}, nil
}

// follow makes a call where its slot is served. try is one attempt; its error
// is that of the connection or of the server.
func (k *cluster) follow(ctx context.Context, w way, try func(context.Context, hop) error) error {
	start := time.Now()
	h, err := k.pick(w.slot, w.replica)
	if err == nil {
		if err = try(ctx, h); err == nil {
			return nil
		}
	}
	return k.detour(ctx, start, w, h, err, try)
}

// detour goes on with a call that began at start and failed with err.
func (k *cluster) detour(ctx context.Context, start time.Time, w way, h hop, err error, try func(context.Context, hop) error) error {
	ctx, cancel := k.within(ctx, start)
	defer cancel()
	for hops, pauses := 0, 0; ; {
		next, v := k.judge(h, w.twice, err)
		switch v {
		case final:
			return k.dismissed(err)
		case elsewhere:
			if hops++; hops > maxHops {
				return err
			}
			h = next
		case later:
			if !k.pause(ctx, pauses) {
				return late(ctx, err)
			}
			pauses++
			if h, err = k.pick(w.slot, false); err != nil {
				continue
			}
		}
		err = try(ctx, h)
	}
}

// within bounds a call that began at start, if its context does not.
func (k *cluster) within(ctx context.Context, start time.Time) (context.Context, context.CancelFunc) {
	if _, bounded := ctx.Deadline(); bounded {
		return ctx, func() {}
	}
	return remote.WithTimeout(ctx, k.c.o.Timeout-time.Since(start))
}

// verdict says what becomes of a call after an attempt.
type verdict uint8

const (
	final     verdict = iota
	elsewhere         // it goes to another node at once
	later             // it is tried again after a pause
)

// judge says what becomes of a call of which an attempt at h ended with err.
// twice says that it may be carried out twice.
func (k *cluster) judge(h hop, twice bool, err error) (next hop, v verdict) {
	var refused *Error
	var broken *ConnError
	switch {
	case errors.As(err, &broken):
		if errors.Is(err, context.Canceled) {
			return h, final
		}
		k.fleet.Refresh("")
		switch {
		case errors.Is(err, ErrProtocol):
		case errors.As(err, &refused) && !passes(refused): // nothing is opened here, or told
		case SafeToRetry(err), twice && lost(err), errors.Is(err, ErrClosed) && (twice || !broken.Sent) && !k.closed():
			return h, later
		}
	case errors.Is(err, ErrClosed): // nothing was sent
		if !k.closed() {
			return h, later
		}
	case errors.As(err, &refused):
		return k.judgeRefusal(h, refused)
	}
	return h, final
}

// judgeRefusal is judge for what a server has answered.
func (k *cluster) judgeRefusal(h hop, refused *Error) (next hop, v verdict) {
	switch refused.Code {
	case "MOVED", "ASK":
		host, _, err := net.SplitHostPort(h.n.o.Addr)
		r, ok := slots.Asked{Host: host}.ParseRedirect(refused.Code, refused.Message)
		if err != nil || !ok {
			return h, final
		}
		if !r.Ask {
			k.fleet.Refresh(r.Addr)
		}
		n, err := k.fleet.At(r.Addr)
		if err != nil {
			return h, final
		}
		n.doubt() // it has got the slot lately
		return hop{n: n, asking: r.Ask}, elsewhere
	}
	if !passes(refused) {
		return h, final
	}
	if refused.Code != "TRYAGAIN" {
		k.fleet.Refresh("")
	}
	return h, later
}

// passes reports whether a server has refused because of a state in which a
// cluster is for a while: after a failover another one may serve.
func passes(refused *Error) bool {
	switch refused.Code {
	case "CLUSTERDOWN", "MASTERDOWN", "READONLY", "LOADING", "TRYAGAIN":
		return true
	}
	return false
}

// dismissed returns err, or what is to be told instead if a connection was
// closed under a call that cannot be tried again.
func (k *cluster) dismissed(err error) error {
	var broken *ConnError
	if errors.As(err, &broken) && broken.Err == ErrClosed && !k.closed() {
		return &ConnError{Op: broken.Op, Sent: broken.Sent, Err: errDismissed}
	}
	return err
}

func (k *cluster) closed() bool { return k.fleet.Err() == ErrClosed }

// pause waits before a call is tried again for the n-th time, or until the
// topology is there. It reports false if the context has ended.
func (k *cluster) pause(ctx context.Context, n int) bool {
	if ctx.Err() != nil {
		return false
	}
	var news <-chan struct{}
	if k.fleet.View() == nil {
		news = k.fleet.Refresh("")
	}
	d := min(pauseFirst<<min(n, 8), pauseMost)
	timer := time.NewTimer(d/2 + rand.N(d/2+1))
	defer timer.Stop()
	if news != nil {
		timer.Stop() // the refresh has a bound of its own
	}
	select {
	case <-timer.C:
	case <-news:
	case <-ctx.Done():
		return false
	}
	return true
}

// late is the error of a call that has no time left after err.
func late(ctx context.Context, err error) error {
	reason := ctx.Err()
	if caller, _ := remote.Split(ctx); caller.Err() != nil {
		reason = caller.Err()
	}
	if reason == nil || errors.Is(err, reason) {
		return err
	}
	return &ConnError{Op: "route", Err: fmt.Errorf("%w: %w", reason, err)}
}
