// Operations on the whole namespace: drops of everything and of tags, the table of
// tags, and the look for weaknesses of the servers.
// Invariant: a drop of everything and a drop of tags change the stored state in the
// same step in which they are announced, and no drop is lost because another program
// has written to the keys of the namespace.

package tier

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/strata-cache/strata/internal/redis/layout"
	"github.com/strata-cache/strata/internal/redis/resp"
	"github.com/strata-cache/strata/remote"
)

var errLost = errors.New("redis: tier: the keys of the namespace disappear as soon as they are written")

// Recheck makes all operations that begin from now on read the namespace state
// again.
func (t *Tier) Recheck() { t.state.Recheck(time.Now()) }

// newState returns a state for the reply to a request sent now.
func (s *site) newState() *layout.State {
	return &layout.State{Opened: s.srv.Opened(), Asked: time.Now()}
}

// appendSpace appends a call of a script on the namespace: first the arguments
// that all such scripts have, then further ones.
func (t *Tier) appendSpace(dst []byte, head string, further ...string) []byte {
	known := t.state.Known()
	if known == nil {
		known = &layout.State{}
	}
	dst = appendStrings(appendCall(dst, head, 7+len(further)), t.names.Namespace, t.names.Tags)
	dst = resp.AppendString(appendHex(dst, nonce()), known.Epoch)
	dst = appendUint(appendUint(dst, known.Drops), known.Expiries)
	return appendStrings(appendUint(dst, known.Clock), further...)
}

// onSpace runs a script on the namespace. On a server that forbids scripts it calls the
// function without, which does the same by transactions. It returns the state of the
// namespace from then.
func (s *site) onSpace(ask layout.Ask, sc *script, further []string, without func(layout.Space, *layout.State) error) (*layout.State, error) {
	ns := s.newState()
	if s.scripted() {
		v, err := runOver(ask, sc, func(dst []byte, head string) []byte {
			return s.appendSpace(dst, head, further...)
		})
		if err != nil {
			return nil, err
		}
		if !s.forbids(v) {
			return s.answered(ns, v)
		}
	}
	// The transaction looks at the known state, too: a stored state that counts less was set back,
	// and gets another epoch.
	err := without(layout.Space{Ask: ask, Names: &s.names, Nonce: layout.Hex(nonce()), Known: s.state.Known()}, ns)
	if err != nil {
		return nil, err
	}
	return s.keep(ns), nil
}

// keep completes a state just read, and keeps it.
func (t *Tier) keep(ns *layout.State) *layout.State {
	ns.Heard = time.Now()
	ns.Spell()
	t.state.Answered(ns)
	return ns
}

// answered fills in ns with the reply of a script on the namespace, and keeps
// it.
func (t *Tier) answered(ns *layout.State, v resp.Value) (*layout.State, error) {
	if err := refusal(v); err != nil {
		return nil, err
	}
	var n [4]int64
	i := 0
	for e := range v.Elems() {
		switch {
		case i == 0:
			ns.Epoch = string(e.Bytes())
		case i <= len(n) && e.Kind() == resp.Int && e.Int() >= 0:
			n[i-1] = e.Int()
		default:
			return nil, errAnswer
		}
		i++
	}
	if i != 1+len(n) || ns.Epoch == "" {
		return nil, errAnswer
	}
	// Nothing of an answer is kept before all of it was checked.
	ns.Drops, ns.Expiries, ns.Clock, ns.Server = uint64(n[0]), uint64(n[1]), uint64(n[2]), n[3]
	return t.keep(ns), nil
}

// cleanNamespace removes the keys of the namespace if err says that another
// program has written them; the next request makes a new state. It returns err.
func (t *Tier) cleanNamespace(ctx context.Context, err error) error {
	if wrongType(err) {
		t.foreign.Add(1)
		for _, k := range []string{t.names.Namespace, t.names.Tags} {
			_ = t.clean(ctx, "hash", k) // if this fails, the next request fails too
		}
	}
	return err
}

// DropAll makes all keys of the namespace absent, or stale if soft.
func (t *Tier) DropAll(ctx context.Context, soft bool) error {
	field := "drops"
	if soft {
		field = "expiries"
	}
	return t.insist(ctx, func(s *site, ask layout.Ask) error {
		_, err := s.onSpace(ask, s.scripts.dropAll, []string{field, s.names.Channel, s.names.AllDropped(soft)},
			func(p layout.Space, ns *layout.State) error { return p.DropAll(ns, soft) })
		return err
	})
}

// insist is onOne for a drop. The drop does not fail if another program has
// written to the keys of the namespace.
func (t *Tier) insist(ctx context.Context, f func(*site, layout.Ask) error) error {
	term := t.term()
	err := t.onOne(ctx, f)
	if wrongType(t.cleanNamespace(ctx, err)) {
		err = t.onOne(ctx, f)
	}
	// As for drops of keys: the server that has confirmed must still be the right one.
	if err == nil {
		err = t.holds(ctx, term)
	}
	return t.explained(err)
}

// onOne calls f for the server of the namespace with one connection.
func (t *Tier) onOne(ctx context.Context, f func(*site, layout.Ask) error) error {
	return t.atSpace(ctx, func(ctx context.Context, s *site) error {
		return s.srv.Together(ctx, true, func(ask layout.Ask) error { return f(s, ask) })
	})
}

// DropTags drops tags.
func (t *Tier) DropTags(ctx context.Context, tags []string, soft bool) error {
	if err := tooLong(tags...); err != nil {
		return err
	}
	if len(tags) == 0 {
		return ctx.Err()
	}
	return t.insist(ctx, func(s *site, ask layout.Ask) error { return s.dropTags(ask, tags, soft) })
}

// dropTags drops tags. Without tags it only makes the table of tags, if the table
// is missing.
func (s *site) dropTags(ask layout.Ask, tags []string, soft bool) error {
	further := []string{"d:", s.names.Channel, s.names.TagDropped(soft), strconv.Itoa(layout.MaxTags)}
	if soft {
		further[0] = "e:"
	}
	_, err := s.onSpace(ask, s.scripts.dropTags, append(further, tags...),
		func(p layout.Space, ns *layout.State) error { return p.DropTags(ns, tags, soft) })
	return err
}

// Tags returns the drops of each tag. An unknown tag counts as dropped when the
// table of tags was made.
func (t *Tier) Tags(ctx context.Context, tags []string) (known []remote.Tag, err error) {
	if err := tooLong(tags...); err != nil {
		return nil, err
	}
	if len(tags) == 0 {
		return nil, ctx.Err()
	}
	err = t.atSpace(ctx, func(ctx context.Context, s *site) error {
		known, err = s.tags(ctx, tags)
		return err
	})
	return known, t.explained(t.cleanNamespace(ctx, err))
}

func (s *site) tags(ctx context.Context, tags []string) ([]remote.Tag, error) {
	hmget := []any{"HMGET", s.names.Tags, "floor"}
	for _, tag := range tags {
		hmget = append(hmget, "d:"+tag, "e:"+tag)
	}
	// The table may be missing, because no tag was ever dropped or the server has evicted it. It is
	// made then, and read back. A table that keeps disappearing is an error, since its drops would
	// be lost.
	for range 3 {
		due, ns := s.due(time.Now())
		replies, _, err := s.read(ctx, due, ns, func(b *layout.Batch) { b.Add(hmget...) })
		if err == nil {
			err = refusal(replies[0])
		}
		if err != nil {
			return nil, err
		}
		if known, ok := parseTags(replies[0], len(tags)); ok {
			return known, nil
		}
		err = s.srv.Together(ctx, true, func(ask layout.Ask) error { return s.dropTags(ask, nil, false) })
		if err != nil {
			return nil, err
		}
	}
	return nil, errLost
}

// parseTags parses the floor and the drops of n tags. It reports false if the
// floor is missing. A field counts as missing unless it is a number.
func parseTags(v resp.Value, n int) (known []remote.Tag, ok bool) {
	if v.Len() != 1+2*n {
		return nil, false
	}
	known = make([]remote.Tag, n)
	var floor uint64
	i := -1
	for e := range v.Elems() {
		clock, good := layout.Clock(e)
		switch {
		case i < 0 && !good:
			return nil, false
		case i < 0:
			floor = clock
		case i%2 == 0:
			// A tag without a field was never dropped, or its drop was forgotten with an earlier
			// table. The floor stands for the second case: values from before the table are absent.
			known[i/2].Dropped = max(floor, clock)
		default:
			known[i/2].Expired = clock
		}
		i++
	}
	return known, true
}

// Probe looks for properties of the server that weaken the promises of a cache,
// and uses scripts again if they are permitted by now. In a cluster it asks all
// servers with lanes.
func (t *Tier) Probe(ctx context.Context) (warnings []string, err error) {
	if t.all == nil {
		warnings, err = t.one.probe(ctx)
		return warnings, t.explained(err)
	}
	var mu sync.Mutex // guards warnings
	lane := func(i int) string { return t.names.LaneAt(uint16(i)) }
	// Each node with a lane is asked once, by its first lane. A warning that several nodes give is
	// told once.
	err = t.each(layout.Lanes, lane, func(part []int) error {
		return t.all.Follow(ctx, lane(part[0]), true, func(ctx context.Context, n Node) error {
			some, err := (&site{Tier: t, srv: n, home: n.Home()}).probe(ctx)
			mu.Lock()
			defer mu.Unlock()
			warnings = append(warnings, some...)
			return err
		})
	})
	if err != nil {
		return nil, t.explained(err)
	}
	slices.Sort(warnings)
	return slices.Compact(warnings), nil
}

// denied reports whether v says that a command or its channel is not permitted, or
// that the command was renamed away.
func denied(v resp.Value) bool {
	text := string(v.Bytes())
	return v.Kind() == resp.Error && (strings.HasPrefix(text, "NOPERM ") || strings.HasPrefix(text, "ERR unknown command"))
}

// noWrites is the only warning about a server that permits no writes.
const noWrites = "neither scripts nor WATCH, MULTI and EXEC are permitted: nothing can be stored or dropped in Redis, " +
	"so the cache works as without L2, and Set and Invalidate return errors"

// noScripts decides by the reply to the smallest script whether scripts are
// used from now on. Any error of the script counts as a refusal.
func (s *site) noScripts(v resp.Value) bool {
	code, _, _ := strings.Cut(string(v.Bytes()), " ")
	no := s.forbids(v) || v.Kind() == resp.Error && code == "ERR"
	if no || v.Kind() != resp.Error {
		s.scripts.forbidden.Store(no)
	}
	return no
}

func (s *site) probe(ctx context.Context) (warnings []string, err error) {
	var r []resp.Value
	scripts := true
	err = s.srv.Together(ctx, true, func(ask layout.Ask) (err error) {
		var b layout.Batch
		// One round trip asks for everything. A command that the server does not permit is a
		// warning, and no error of the probe.
		b.Add("EVAL", "return 1", 0)
		b.Add("INFO", "server")
		b.Add("INFO", "replication")
		b.Add("INFO", "memory")
		b.Add("CONFIG", "GET", "maxmemory*")
		b.Add("CLUSTER", "INFO")
		b.Add("PUBLISH", s.names.Channel, layout.Nothing)
		if r, err = ask(&b); err != nil {
			return err
		}
		if scripts = !s.noScripts(r[0]); !scripts {
			err = layout.Transactions(ask, s.names.Namespace)
		}
		return err
	})
	if errors.Is(err, layout.ErrNoTransactions) {
		return []string{noWrites}, nil
	}
	if err != nil {
		return nil, err
	}
	switch err := refusal(r[0]); {
	case !scripts:
		warnings = append(warnings, "scripts are not permitted: each write takes several round trips, and fails under much competition for one key")
	case err != nil:
		return nil, err
	}
	if denied(r[6]) {
		warnings = append(warnings, "PUBLISH is not permitted on the channel "+s.names.Channel+
			": no drop can be announced, so Set and Invalidate fail and keys are read past Redis")
	}
	if layout.Authority(r[1], r[2]) == "" {
		warnings = append(warnings, "INFO is not permitted or tells too little: a failover or restart that brings older data back is not always noticed")
	}
	if s.home != nil && layout.ClusterEpoch(r[5]) == "" {
		warnings = append(warnings, "CLUSTER INFO is not permitted or tells too little: older values that come back with a slot are not always noticed")
	}
	limit, policy := layout.Memory(r[3], r[4])
	switch kind, _, _ := strings.Cut(policy, "-"); {
	case limit <= 0:
	case kind == "allkeys":
		warnings = append(warnings, "maxmemory-policy "+policy+" may evict fences: a hold may be cut short, and all entries may become suspect")
	case kind == "volatile":
		warnings = append(warnings, "maxmemory-policy "+policy+" may evict fences: a hold may be cut short")
	}
	return warnings, nil
}
