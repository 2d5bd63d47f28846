package redis

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"time"

	"github.com/strata-cache/strata/internal/redis/resp"
	"github.com/strata-cache/strata/internal/redis/slots"
	"github.com/strata-cache/strata/remote"
)

// follow makes a call at the node that serves its slot. pick chooses the first
// route, judge decides after each failed attempt: the error is final, or the
// call goes elsewhere at once (a redirection), or it is repeated later (a
// failover). Invariant: a call that may have had an effect is repeated only if
// its target is repeatable; a call ends within its time.

const (
	// maxHops is the number of redirections before a call fails. A pause begins the count anew: a
	// circle of redirections without a pause still ends.
	maxHops = 5
	// pauseFirst and pauseMost bound the pause before a call is repeated.
	pauseFirst = 10 * time.Millisecond
	pauseMost  = 200 * time.Millisecond
)

var (
	// errUnknown stands for a topology that no server has told yet.
	errUnknown = errors.New("redis: topology of the cluster is not known")
	// errDismissed is the reason when a connection was closed because its
	// server had lost its role.
	errDismissed = errors.New("redis: server has lost its role in the cluster")
)

// target says which node a call needs.
type target struct {
	slot       int  // negative: any node
	repeatable bool // the call may be carried out twice
	replica    bool // the first attempt may be at a replica
}

// target returns the target of a command: its slot, and whether replicas may
// answer it.
func (k *cluster) target(name string, slot int) target {
	reads := resp.ReadsOnly(name)
	return target{slot: slot, repeatable: reads, replica: reads && k.o.ReplicaReads}
}

// follow makes a call where its slot is served. try is one attempt; its error
// comes from the connection or from the server.
func (k *cluster) follow(ctx context.Context, t target, try func(context.Context, route) error) error {
	start := time.Now()
	// The first attempt needs no context of its own and no timer. Only a call that fails there
	// takes the long way.
	r, err := k.pick(t.slot, t.replica)
	if err == nil {
		if err = try(ctx, r); err == nil {
			return nil
		}
	}
	return k.detour(ctx, start, t, r, err, try)
}

// pick returns the route on which a call about a slot begins, or any route if
// slot is negative.
func (k *cluster) pick(slot int, replica bool) (route, error) {
	v := k.fleet.View()
	if v == nil {
		err := k.fleet.Err()
		if err == ErrClosed {
			return route{}, err
		}
		if err == nil {
			err = errUnknown
		}
		return route{}, &ConnError{Op: "route", Err: err}
	}
	if slot < 0 {
		return route{n: v.Any()}, nil
	}
	// A slot without a usable replica is read at its primary.
	if replica {
		if n, ok := v.Replica(slot); ok {
			return route{n: n}, nil
		}
	}
	n, ok := v.Primary(slot)
	switch {
	case !ok && k.closed():
		return route{}, ErrClosed
	case !ok:
		return route{}, &ConnError{Op: "route", Err: ErrNoNode}
	}
	return route{n: n}, nil
}

// detour continues a call that began at start and failed with err on route r.
func (k *cluster) detour(ctx context.Context, start time.Time, t target, r route, err error, try func(context.Context, route) error) error {
	ctx, cancel := within(ctx, start, k.o.Timeout)
	defer cancel()
	for hops, pauses := 0, 0; ; {
		next, v := k.judge(r, t.repeatable, err)
		switch v {
		case final:
			return k.dismissed(err)
		case elsewhere:
			if hops++; hops > maxHops {
				return err
			}
			r = next
		case later:
			if !k.pause(ctx, pauses) {
				return late(ctx, k.dismissed(err))
			}
			pauses++
			hops = 0
			// From the second attempt on only primaries are asked. Without one, the error of pick
			// decides about another pause.
			if r, err = k.pick(t.slot, false); err != nil {
				continue
			}
		}
		err = try(ctx, r)
	}
}

// within bounds the rest of a call that began at start, if its context does not.
func within(ctx context.Context, start time.Time, timeout time.Duration) (context.Context, context.CancelFunc) {
	if _, bounded := ctx.Deadline(); bounded {
		return ctx, func() {}
	}
	return remote.WithTimeout(ctx, timeout-time.Since(start))
}

// verdict is the decision about a call after an attempt.
type verdict uint8

const (
	final     verdict = iota // the call is over
	elsewhere                // it goes to another node at once
	later                    // it is repeated after a pause
)

// judge decides about a call after an attempt on route r ended with err.
func (k *cluster) judge(r route, repeatable bool, err error) (next route, v verdict) {
	var refused *Error
	var broken *ConnError
	switch {
	case errors.As(err, &broken):
		// The caller has left, which says nothing about the node.
		if errors.Is(err, context.Canceled) {
			return r, final
		}
		// A failed connection is often the first sign of a failover.
		k.fleet.Refresh("")
		switch {
		case lasting(err):
		case SafeToRetry(err), repeatable && faults.Lost(err), errors.Is(err, ErrClosed) && (repeatable || !broken.Sent) && !k.closed():
			return r, later
		}
	case errors.Is(err, ErrClosed): // nothing was sent
		if !k.closed() {
			return r, later
		}
	case errors.As(err, &refused):
		return k.judgeRefusal(r, refused)
	}
	return r, final
}

// judgeRefusal is judge for an error reply of the server.
func (k *cluster) judgeRefusal(r route, refused *Error) (next route, v verdict) {
	switch refused.Code {
	case "MOVED", "ASK":
		return k.redirect(r, refused)
	}
	if !temporary(refused) {
		return r, final
	}
	// TRYAGAIN is about a slot on the move, and the topology is known. The other refusals mean that
	// this node may have lost its place.
	if refused.Code != "TRYAGAIN" {
		k.fleet.Refresh("")
	}
	return r, later
}

// redirect returns the route to the node that a server has named. MOVED also
// says that the topology has changed.
func (k *cluster) redirect(r route, refused *Error) (next route, v verdict) {
	// A redirection without a host means the host of the server that sends it.
	host, _, err := net.SplitHostPort(r.n.o.Addr)
	to, ok := slots.Asked{Host: host}.ParseRedirect(refused.Code, refused.Message)
	if err != nil || !ok {
		return r, final
	}
	if !to.Ask {
		k.fleet.Refresh(to.Addr)
	}
	n, err := k.fleet.At(to.Addr)
	if err != nil {
		return r, final
	}
	n.changed() // it has got the slot lately
	return route{n: n, asking: to.Ask}, elsewhere
}

// pause waits before a call is repeated for the n-th time, or until the topology
// is known. It reports false if the context has ended.
func (k *cluster) pause(ctx context.Context, n int) bool {
	if ctx.Err() != nil {
		return false
	}
	var news <-chan struct{}
	if k.fleet.View() == nil {
		news = k.fleet.Refresh("")
	}
	// The pause is between half of d and d, so that the callers of a failed node do not come back
	// all at once.
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

// dismissed returns err, or the reason for which a connection was closed under a
// call that cannot be repeated.
func (k *cluster) dismissed(err error) error {
	if k.closed() {
		return err
	}
	return dismissed(err)
}

// dismissed returns err. If err says that the client was closed, it returns the same error about
// a node: the client is open.
func dismissed(err error) error {
	var broken *ConnError
	switch {
	case errors.As(err, &broken) && broken.Err == ErrClosed:
		return &ConnError{Op: broken.Op, Sent: broken.Sent, Err: errDismissed}
	case err == ErrClosed: // there was no connection yet
		return &ConnError{Op: "wait", Err: errDismissed}
	}
	return err
}

// late returns the error of a call that has run out of time after err.
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
