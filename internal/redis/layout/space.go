// The namespace state of a server that runs no scripts, and the parsers of the
// reports of servers. A stored state is taken over, or replaced by one with another
// epoch: if it is missing, damaged, behind, or of another authority.
// Invariant: a state behind the state that the caller knows is never taken over in
// the same epoch.

package layout

import (
	"strconv"
	"strings"

	"github.com/strata-cache/strata/internal/redis/resp"
)

// Space is the namespace of a cache, with the way to its server.
type Space struct {
	Ask   Ask
	Names *Names
	// Nonce becomes the epoch if a new state has to be made. Known is the state
	// that the caller knows, or nil.
	Nonce string
	Known *State
}

// spaceTx is one attempt at an operation on a namespace.
type spaceTx struct {
	*tx
	names *Names
	state *State
	fresh bool // the state was made anew, with the table of tags
}

// do reads the state of the namespace into ns, and executes the commands that the function
// then has queued, if any, as one transaction.
func (s Space) do(ns *State, then func(*spaceTx) error) error {
	n := s.Names
	return run(s.Ask, []string{n.Namespace, n.Tags}, func(t *tx) error {
		r, err := t.look(func(b *Batch) {
			b.Add("HMGET", n.Namespace, "epoch", "drops", "expiries", "clock", "authority")
			b.Add("TIME")
			b.Add("INFO", "server")
			b.Add("INFO", "replication")
			b.Add("PERSIST", n.Namespace) // changes nothing
		})
		// INFO may be forbidden, so its errors are not looked at: then the state has no authority.
		// The other replies are needed.
		if err == nil {
			err = check(r[0], r[1])
		}
		// A server that takes no writes was demoted, or is cut off. Its state may be old, and must
		// not be believed.
		if err == nil && TakesNoWrites(text(r[4])) {
			err = check(r[4])
		}
		if err != nil {
			return err
		}
		f := fields(r[0], 5)
		ns.Server = Time(r[1])
		st := &spaceTx{tx: t, names: n, state: ns}
		s.judge(st, f, Authority(r[2], r[3]))
		return then(st)
	})
}

// mostClock bounds the clock of tags, as the scripts do: from there on Lua may count no further. Only another program
// writes such a number.
const mostClock = 1 << 52

// judge takes over the stored state. It makes a new state if the stored one is
// missing or damaged, if it counts less than the caller knows, or if another
// authority wrote it.
func (s Space) judge(t *spaceTx, f []resp.Value, authority string) {
	ns := t.state
	good := true
	ns.Epoch = text(f[0])
	_, err := strconv.ParseUint(ns.Epoch, 16, 64)
	for i, n := range []*uint64{&ns.Drops, &ns.Expiries, &ns.Clock} {
		var bad error
		*n, bad = strconv.ParseUint(text(f[i+1]), 10, 53)
		good = good && bad == nil
	}
	good = good && err == nil
	clock := ns.Clock
	// Within one epoch counters only grow. A lower one means that the server was set back, and has
	// forgotten drops.
	if k := s.Known; k != nil {
		behind := ns.Drops < k.Drops || ns.Expiries < k.Expiries || ns.Clock < k.Clock
		good = good && (ns.Epoch != k.Epoch || !behind)
		clock = max(clock, k.Clock)
	}
	if clock >= mostClock {
		good, clock = false, 0
	}
	if good && (authority == "" || text(f[4]) == authority) {
		return
	}
	t.fresh = true
	// The table of tags begins at a clock that no earlier load has.
	clock = max(clock+1, uint64(max(0, ns.Server))/1000*1000)
	// A new epoch makes all values absent that were stored before. The nonce is random, so no other
	// instance makes the same one.
	ns.Epoch, ns.Drops, ns.Expiries, ns.Clock = s.Nonce, 0, 0, clock
	t.writes.Add("DEL", t.names.Namespace, t.names.Tags)
	t.writes.Add("HSET", t.names.Namespace, "epoch", ns.Epoch, "drops", 0, "expiries", 0, "clock", clock, "authority", authority)
	t.writes.Add("HSET", t.names.Tags, "floor", clock)
}

// DataChanges returns the state of a server's data by the reply of INFO: the number
// of changes since the data was last saved, and the time and number of saves.
// It is empty if INFO has none of that.
func DataChanges(info resp.Value) string {
	n, saved := infoField(info, "rdb_changes_since_last_save"), infoField(info, "rdb_last_save_time")
	if n == "" || saved == "" {
		return ""
	}
	return n + " " + saved + " " + infoField(info, "rdb_saves")
}

// ClusterState returns the state of a server in its cluster by the reply of
// CLUSTER INFO: whether it serves, the newest epoch that it has heard of, and
// its own epoch. One of the epochs changes soon after a failover, or when a
// server takes over a slot.
func ClusterState(info resp.Value) string {
	return infoField(info, "cluster_state") + " " + infoField(info, "cluster_current_epoch") + " " + ClusterEpoch(info)
}

// TakesNoWrites reports whether the text of an error means that the server was
// demoted, or may have been. Its data is not the newest then.
func TakesNoWrites(refused string) bool {
	code, _, _ := strings.Cut(refused, " ")
	return code == "READONLY" || code == "NOREPLICAS"
}

// Run returns the run id of a server by the reply of INFO, or an empty text.
func Run(server resp.Value) string { return infoField(server, "run_id") }

// Authority returns the run of a server and the history that it replicates by
// the replies of INFO. It is empty if they lack one of the two.
func Authority(server, replication resp.Value) string {
	run, replid := Run(server), infoField(replication, "master_replid")
	if run == "" || replid == "" {
		return ""
	}
	return run + replid
}

// ClusterEpoch returns the epoch of a server in its cluster by the reply of
// CLUSTER INFO, or an empty text. A server that takes over a slot, by a
// failover or because the slot has moved, gets the highest epoch of all, and a
// new one if that belongs to another server.
func ClusterEpoch(info resp.Value) string { return infoField(info, "cluster_my_epoch") }

// Memory returns the limit of a server's memory, in bytes, and its eviction policy
// by the replies of INFO or CONFIG GET. Zero means no limit, or none reported.
func Memory(info, config resp.Value) (limit int64, policy string) {
	limit, policy = number(infoField(info, "maxmemory")), infoField(info, "maxmemory_policy")
	if policy != "" {
		return limit, policy
	}
	name := ""
	for e := range config.Elems() {
		switch name {
		case "maxmemory":
			limit = number(text(e))
		case "maxmemory-policy":
			policy = text(e)
		}
		name = text(e)
	}
	return limit, policy
}

// Keeps reports whether a server has evicted no key without a life in its run, by the replies
// of INFO: it is reported, and either its policy spares such keys or it has evicted no key.
func Keeps(memory, stats resp.Value) bool {
	policy := infoField(memory, "maxmemory_policy")
	return policy != "" && !strings.HasPrefix(policy, "allkeys") || infoField(stats, "evicted_keys") == "0"
}

// infoField returns a field of the reply of INFO.
func infoField(info resp.Value, name string) string {
	if info.Kind() == resp.Error {
		return ""
	}
	for line := range strings.Lines(text(info)) {
		if v, ok := strings.CutPrefix(line, name+":"); ok {
			return strings.TrimSpace(v)
		}
	}
	return ""
}

// Look reads the namespace state into ns.
func (s Space) Look(ns *State) error {
	return s.do(ns, func(*spaceTx) error { return nil })
}

// DropAll makes all values absent or stale.
func (s Space) DropAll(ns *State, soft bool) error {
	return s.do(ns, func(t *spaceTx) error {
		field, n := "drops", &ns.Drops
		if soft {
			field, n = "expiries", &ns.Expiries
		}
		// The count in the message is the one that the transaction writes: it is executed only if
		// no other drop came in between.
		*n++
		t.writes.Add("HINCRBY", s.Names.Namespace, field, 1)
		t.writes.Add("PUBLISH", s.Names.Channel, s.Names.AllDropped(soft)+strconv.FormatUint(*n, 10)+AfterCount)
		return nil
	})
}

// DropTags notes the drops of tags at new clocks. It makes the table of tags if
// the table is missing.
func (s Space) DropTags(ns *State, tags []string, soft bool) error {
	n := s.Names
	return s.do(ns, func(t *spaceTx) error {
		r, err := t.read(func(b *Batch) {
			b.Add("HLEN", n.Tags)
			b.Add("HGET", n.Tags, "floor")
		})
		if err != nil {
			return err
		}
		_, bad := strconv.ParseUint(text(r[1]), 10, 53)
		// A table that has grown too large is made anew at a later clock. All tags then count as
		// dropped, which costs loads and no old values.
		if !t.fresh && (r[0].Int() > MaxTags || bad != nil) {
			ns.Clock++
			t.writes.Add("DEL", n.Tags)
			t.writes.Add("HSET", n.Tags, "floor", ns.Clock)
		}
		field := "d:"
		if soft {
			field = "e:"
		}
		for _, tag := range tags {
			// Each tag has a clock of its own, so a lost message shows in the next one.
			was := strconv.FormatUint(ns.Clock, 10)
			ns.Clock++
			is := strconv.FormatUint(ns.Clock, 10)
			t.writes.Add("HSET", n.Tags, field+tag, is)
			t.writes.Add("PUBLISH", n.Channel, n.TagDropped(soft)+was+".0 "+is+".0 0 "+tag)
		}
		if t.writes.N > 0 {
			t.writes.Add("HSET", n.Namespace, "clock", ns.Clock)
		}
		return nil
	})
}
