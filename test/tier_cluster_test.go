package test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/strata-cache/strata"
	"github.com/strata-cache/strata/internal/redis/slots"
	"github.com/strata-cache/strata/internal/testing/kit"
	"github.com/strata-cache/strata/internal/testing/servers"
	"github.com/strata-cache/strata/redis"
	"github.com/strata-cache/strata/remote"
	"github.com/strata-cache/strata/stratatest"
)

func TestRedisTierConformsOnACluster(t *testing.T) {
	t.Parallel() // it waits most of the time
	k := servers.StartCluster(t, 3, 0)
	stratatest.TestTier(t, func(t *testing.T) (remote.Tier, func(time.Duration)) {
		return redis.NewTier(k.Client(t, patiently)), pause
	})
}

func TestRedisTierConformsOnAClusterWithoutScripts(t *testing.T) {
	t.Parallel() // it waits most of the time
	k := servers.StartCluster(t, 3, 0)
	for i := range k.Nodes {
		mustDo(t, k.Raw(i), "ACL", "SETUSER", "plain", "on", ">secret", "~*", "&*", "+@all", "-@scripting")
	}
	stratatest.TestTier(t, func(t *testing.T) (remote.Tier, func(time.Duration)) {
		return redis.NewTier(k.Client(t, func(o *redis.Options) { o.Username, o.Password, o.Timeout = "plain", "secret", patience })), pause
	})
}

func TestRedisBusConformsOnACluster(t *testing.T) {
	t.Parallel() // it waits most of the time
	k := servers.StartCluster(t, 3, 0)
	stratatest.TestBus(t, func(t *testing.T) stratatest.BusFixture {
		line := &servers.Line{}
		return stratatest.BusFixture{
			Bus:  redis.NewBus(k.Client(t, patiently, func(o *redis.Options) { o.DialContext = line.DialContext })),
			Peer: redis.NewBus(k.Client(t, patiently)),
			Cut:  func() func() { line.Cut(); return line.Join },
		}
	})
}

func TestRedisTierAnnouncesOnACluster(t *testing.T) {
	k := servers.StartCluster(t, 3, 0)
	stratatest.TestAnnouncer(t, func(t *testing.T) (remote.Tier, remote.Bus) {
		return redis.NewTier(k.Client(t, patiently)), redis.NewBus(k.Client(t, patiently))
	})
}

// namesOn returns n names of caches for which the lane of the key "k" is on the given node. The
// namespace state is on another node or, for every third name, on the same one.
func namesOn(k *servers.Cluster, node, n int) (names []string) {
	for i := 0; len(names) < n; i++ {
		name := fmt.Sprint("n", i)
		together := k.Owner(0, "strata:{"+name+"}word") == node
		if k.Owner(0, "strata:{"+name+":234}") == node && together == (len(names)%3 == 2) {
			names = append(names, name)
		}
	}
	return names
}

// TestPromotedReplicaOfAClusterIsNotBelieved has a replica take over that does
// not know the last drops in its lanes. The namespace state is on another node
// most times, so it tells nothing about these drops.
func TestPromotedReplicaOfAClusterIsNotBelieved(t *testing.T) {
	k := servers.StartCluster(t, 3, 1)
	for i := range k.Nodes {
		mustDo(t, k.Raw(i), "ACL", "SETUSER", "plain", "on", ">secret", "~*", "&*", "+@all", "-@scripting")
	}
	type trial struct {
		what, name  string
		there, gone *redis.Tier // the one that stays all the time, and the one that drops
		before      remote.Position
		ask         func(*testing.T, *redis.Tier) string
	}
	var trials []trial
	names := namesOn(k, 0, 2*len(asked()))
	plainly := func(o *redis.Options) { o.Username, o.Password = "plain", "secret" }
	for what, ask := range asked() {
		for _, c := range []*redis.Client{k.Client(t, patiently), k.Client(t, plainly)} {
			s := remote.Space{Name: names[len(trials)], Schema: 1}
			trials = append(trials, trial{
				what: what, name: s.Name, ask: ask,
				there: redis.NewTier(c).Bind(s).(*redis.Tier), gone: redis.NewTier(k.Client(t, patiently)).Bind(s).(*redis.Tier),
			})
		}
	}
	for i := range trials {
		r := &trials[i]
		fill(t, r.there, "k", "dropped", time.Hour)
		if v := held(t, r.gone, "k"); v != "dropped" {
			t.Fatalf("held %q", v)
		}
		r.before = position(t, r.there)
	}
	replicated(t, k, 0)
	k.Deafen(0)
	for _, r := range trials {
		drop(t, r.gone, remote.Drop{Key: "k"})
	}
	k.Nodes[0].Kill()
	eventually(t, "the replica has taken over", func() bool { return k.Owner(1, "strata:{"+names[0]+":234}") == 3 })
	for _, r := range trials {
		if n := mustInt(t, mustDo(t, k.Raw(3), "EXISTS", "strata:{"+r.name+":234}=k")); n != 1 {
			t.Fatal("the replica has heard of a drop: nothing is tried")
		}
		if v := r.ask(t, r.there); v != "" {
			t.Errorf("%s: %q is back", r.what, v)
		}
		if after := position(t, r.there); after.Epoch == r.before.Epoch {
			t.Errorf("%s: the epoch is still %s", r.what, after.Epoch)
		}
		newcomer := redis.NewTier(k.Client(t, patiently)).Bind(remote.Space{Name: r.name, Schema: 1}).(*redis.Tier)
		if v := held(t, newcomer, "k"); v != "" {
			t.Errorf("%s: %q is back for who comes afterwards", r.what, v)
		}
		fill(t, newcomer, "j", "v", time.Hour)
		if v := held(t, r.there, "j"); v != "v" {
			t.Errorf("%s: what is stored afterwards is %q", r.what, v)
		}
	}
}

// replicated waits until the replica of a node has all its writes. WAIT would only be
// about the writes of its own connection.
func replicated(t *testing.T, k *servers.Cluster, node int) {
	t.Helper()
	eventually(t, "the replica has it", func() bool {
		info, err := mustDo(t, k.Raw(node), "INFO", "replication").String()
		if err != nil {
			t.Fatal(err)
		}
		_, all, _ := strings.Cut(info, "master_repl_offset:")
		all, _, _ = strings.Cut(all, "\r")
		return all != "" && strings.Contains(info, ",offset="+all+",")
	})
}

func mustInt(t *testing.T, r redis.Reply) int64 {
	t.Helper()
	n, err := r.Int()
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// TestCachesAgreeOnACluster puts caches on a cluster through the trials for one server.
func TestCachesAgreeOnACluster(t *testing.T) {
	k := servers.StartCluster(t, 3, 0)
	for name, try := range map[string]func(*testing.T, server){
		"a stampede": stampede, "other types": otherTypes, "older values": olderValues, "struct keys": structKeys, "a load begun before": loadBegunBefore,
		"no payload": noPayload,
	} {
		for i := range k.Nodes {
			mustDo(t, k.Raw(i), "FLUSHALL")
		}
		t.Run(name, func(t *testing.T) { try(t, k) })
	}
}

func TestInvalidateAllReachesOtherInstancesOnACluster(t *testing.T) {
	t.Parallel() // it waits most of the time
	invalidateAll(t, servers.StartCluster(t, 3, 0))
}

// keyIn returns a key that belongs to a given node for a cache of that name.
func keyIn(k *servers.Cluster, c *redis.Client, name string, node int) string {
	tier := redis.NewTier(c)
	for i := 0; ; i++ {
		key := fmt.Sprint("key", i)
		if k.Owner((node+1)%3, fmt.Sprintf("strata:{%s:%d}", name, tier.Lane(key))) == node {
			return key
		}
	}
}

// TestCachesOutliveAFailoverThatLosesADrop: an instance that was cut off from
// the bus at the time of the drop, and a newcomer, learn from the cluster that
// it may have lost something.
func TestCachesOutliveAFailoverThatLosesADrop(t *testing.T) {
	k := servers.StartCluster(t, 3, 1)
	line := &servers.Line{}
	a, _ := instance[string, int64](t, k)
	b, _ := instance(t, k, func(o *strata.Options[string, int64]) {
		o.Remote.Bus = redis.NewBus(k.Client(t, func(o *redis.Options) { o.DialContext = line.DialContext }))
	})
	joined(t, "warm", a, b)
	o := &counter{}
	node := (k.Owner(0, "strata:{shared}word") + 1) % 3 // not the node of the namespace state, which tells nothing of this failover
	key := keyIn(k, k.Client(t, patiently), "shared", node)
	if v := mustGet(t, b, key, o.load) + mustGet(t, a, key, o.load); v != 0 || o.loads.Load() != 1 {
		t.Fatalf("read %d with %d loads", v, o.loads.Load())
	}
	replicated(t, k, node)
	line.Cut()
	eventually(t, "the bus is silent", func() bool { return !b.Stats().Connected })
	k.Deafen(node)
	o.value.Store(1)
	if err := a.Invalidate(t.Context(), key); err != nil {
		t.Fatal(err)
	}
	k.Nodes[node].Kill()
	lane := fmt.Sprintf("strata:{shared:%d}", redis.NewTier(k.Client(t, patiently)).Lane(key))
	eventually(t, "the replica has taken over", func() bool { return k.Owner((node+1)%3, lane) == node+3 })
	line.Join()
	eventually(t, "the bus is back", func() bool { return b.Stats().Connected })
	if v := mustGet(t, b, key, o.load); v != 1 {
		t.Errorf("who was cut off serves %d", v)
	}
	if v := mustGet(t, a, key, o.load); v != 1 {
		t.Errorf("who dropped it serves %d", v)
	}
	c, _ := instance[string, int64](t, k)
	if v := mustGet(t, c, key, o.load); v != 1 {
		t.Errorf("a newcomer is served %d", v)
	}
}

// TestCachesAgreeWhileASlotMoves has the slot of a lane moved back and forth
// while keys in it are written at the origin, dropped, and read everywhere.
func TestCachesAgreeWhileASlotMoves(t *testing.T) {
	k := servers.StartCluster(t, 3, 0)
	a, _ := instance[string, int64](t, k)
	b, _ := instance[string, int64](t, k)
	joined(t, "warm", a, b)
	tier := redis.NewTier(k.Client(t, patiently))
	const keys = 8
	names := keysOfALane(tier, keys)
	var values [keys]atomic.Int64
	slot := slots.Of(fmt.Sprintf("strata:{shared:%d}", tier.Lane("key0")))
	home := k.Owner(0, fmt.Sprintf("strata:{shared:%d}", tier.Lane("key0")))
	stop := load(keys, func(w, n int) {
		read := func(context.Context, string) (int64, error) { return values[w].Load(), nil }
		v := values[w].Add(1)
		if err := a.Invalidate(t.Context(), names[w]); err != nil {
			t.Errorf("Invalidate: %v", err)
		}
		if got := mustGet(t, a, names[w], read); got < v {
			t.Errorf("read %d after %d was written and dropped", got, v)
		}
		for deadline := time.Now().Add(10 * time.Second); mustGet(t, b, names[w], read) < v; <-time.After(time.Millisecond) {
			if time.Now().After(deadline) {
				t.Errorf("another instance serves less than %d for ten seconds", v)
				break
			}
		}
		if t.Failed() {
			<-time.After(10 * time.Millisecond)
		}
	})
	for range 6 {
		<-time.After(100 * time.Millisecond)
		to := (home + 1) % 3
		k.Migrate(slot, home, to, func() { <-time.After(20 * time.Millisecond) })
		home = to
	}
	n := stop()
	s := b.Stats()
	t.Logf("%d drops while a slot moved six times; %d messages missed, %d gaps", n, s.Missed, s.Gaps)
	if n < 100 {
		t.Errorf("only %d rounds", n)
	}
	if s.Gaps > 0 {
		t.Errorf("%d gaps", s.Gaps)
	}
}

// asking is a tier that counts the questions for its position.
type asking struct {
	*redis.Tier
	n *atomic.Int64
}

func (a asking) Bind(s remote.Space) remote.Tier { return asking{a.Tier.Bind(s).(*redis.Tier), a.n} }

func (a asking) Position(ctx context.Context) (remote.Position, error) {
	a.n.Add(1)
	return a.Tier.Position(ctx)
}

// TestDropsOnAllNodesAreNoAlarm has several instances drop keys everywhere, as
// fast as they can. The lanes that one read returns are never of one moment,
// and messages of different nodes overtake each other. On a busy machine a
// message is half a second late at times and counts as missed, so one of three
// tries must pass.
func TestDropsOnAllNodesAreNoAlarm(t *testing.T) {
	k := servers.StartCluster(t, 3, 0)
	var asked atomic.Int64
	var caches []*strata.Cache[string, int64]
	for range 4 {
		c, _ := instance(t, k, func(o *strata.Options[string, int64]) {
			o.Remote.Tier = asking{redis.NewTier(k.Client(t, patiently)), &asked}
		})
		caches = append(caches, c)
	}
	joined(t, "warm", caches[0], caches[1:]...)
	for try := 1; ; try++ {
		alarms := dropEverywhere(t, caches, &asked)
		if len(alarms) == 0 {
			return
		}
		t.Logf("try %d: %s", try, strings.Join(alarms, "\n"))
		if try == 3 {
			t.Fatal("no try without an alarm")
		}
	}
}

// dropEverywhere drops keys for five seconds, and returns the signs by which
// instances took this for an alarm: too many questions, missed messages, gaps.
func dropEverywhere(t *testing.T, caches []*strata.Cache[string, int64], asked *atomic.Int64) (alarms []string) {
	t.Helper()
	alarm := func(format string, args ...any) { alarms = append(alarms, fmt.Sprintf(format, args...)) }
	var stats []strata.Stats
	for _, c := range caches {
		stats = append(stats, c.Stats())
	}
	before, start := asked.Load(), time.Now()
	stop := load(len(caches), func(w, n int) {
		if err := caches[w].Invalidate(t.Context(), fmt.Sprint("key", w, "-", n)); err != nil {
			t.Error(err)
		}
	})
	<-time.After(5 * time.Second)
	n := stop()
	took := time.Since(start)
	questions := asked.Load() - before
	t.Logf("%d drops in %v, and the tier was asked where it stands %d times", n, took, questions)
	if questions > int64(took/time.Second)*2+2 {
		alarm("asked %d times in %v by all instances; want about once a second", questions, took)
	}
	for i, c := range caches {
		s := c.Stats()
		missed, gaps := s.Missed-stats[i].Missed, s.Gaps-stats[i].Gaps
		if missed > 0 || gaps > 0 || !s.Connected {
			alarm("instance %d: connected %t, %d messages missed, %d gaps", i, s.Connected, missed, gaps)
		}
	}
	return alarms
}

// TestValueThatComesBackWithItsSlotIsNotBelieved: the slot of a value went to
// another server, which dropped the value. A replica took over there without
// knowledge of the drop, and the slot came back.
func TestValueThatComesBackWithItsSlotIsNotBelieved(t *testing.T) {
	k := servers.StartCluster(t, 3, 1)
	name := namesOn(k, 0, 3)[2] // with the namespace state on node 0, which lives on
	s := remote.Space{Name: name, Schema: 1}
	entry := "strata:{" + name + ":234}=k"
	slot := slots.Of(entry)
	there, gone := redis.NewTier(k.Client(t, patiently)).Bind(s).(*redis.Tier), redis.NewTier(k.Client(t, patiently)).Bind(s).(*redis.Tier)
	fill(t, there, "k", "dropped", time.Hour)
	k.Migrate(slot, 0, 1, nil)
	eventually(t, "all know where the slot is", func() bool { return k.Owner(2, entry) == 1 && k.Owner(4, entry) == 1 })
	replicated(t, k, 1)
	k.Deafen(1)
	drop(t, gone, remote.Drop{Key: "k"})
	k.Nodes[1].Kill()
	eventually(t, "the replica has taken over", func() bool { return k.Owner(0, entry) == 4 && k.Owner(2, entry) == 4 })
	if n := mustInt(t, mustDo(t, k.Raw(4), "EXISTS", entry)); n != 1 {
		t.Fatal("the replica has heard of the drop: nothing is tried")
	}
	stop := load(1, func(int, int) { // also while it comes
		if v := held(t, there, "k"); v != "" {
			t.Errorf("%q is back while its slot moves", v)
			<-time.After(time.Second)
		}
	})
	k.Migrate(slot, 4, 0, func() { <-time.After(100 * time.Millisecond) })
	stop()
	if n := mustInt(t, mustDo(t, k.Raw(0), "EXISTS", entry)); n != 1 {
		t.Fatal("the value did not come back: nothing is tried")
	}
	newcomer := redis.NewTier(k.Client(t, patiently)).Bind(s).(*redis.Tier)
	for _, tier := range []*redis.Tier{there, gone, newcomer} {
		if v := held(t, tier, "k"); v != "" {
			t.Errorf("%q is back", v)
		}
	}
}

// TestScriptsAreCarriedOutWholeInASlotThatMoves: in such a slot a server takes a
// key that a script has emptied for a moved one, and ends the script.
func TestScriptsAreCarriedOutWholeInASlotThatMoves(t *testing.T) {
	k := servers.StartCluster(t, 3, 0)
	tier := redis.NewTier(k.Client(t, patiently)).Bind(remote.Space{Name: "shared", Schema: 1}).(*redis.Tier)
	put := func(p remote.Put) func() error {
		return func() error {
			p.Data, p.Fresh = []byte("v"), p.Left
			if refused, err := tier.Put(t.Context(), []remote.Put{p}); len(refused) > 0 || err != nil {
				return fmt.Errorf("%v refused, %w", refused, err)
			}
			return nil
		}
	}
	lose := func(d remote.Drop) func() error {
		return func() error { _, err := tier.Drop(t.Context(), []remote.Drop{d}); return err }
	}
	lease := func(key string) remote.Lease {
		_, l, err := kit.Acquire(t.Context(), tier, key, time.Hour)
		if err != nil || l.Token == 0 {
			t.Fatalf("no lease: %+v, %v", l, err)
		}
		return l
	}
	token := func(key string) remote.Lease {
		l, err := tier.Drop(t.Context(), []remote.Drop{{Key: key, Token: time.Hour}})
		if err != nil {
			t.Fatal(err)
		}
		return l[0]
	}
	keys := keysOfALane(tier, 10)
	for _, key := range keys[6:9] {
		fill(t, tier, key, "v", time.Hour)
	}
	ops := map[string]func() error{
		"a fill":                          put(remote.Put{Key: keys[0], Left: time.Hour, Lease: lease(keys[0])}),
		"a fill of nothing":               put(remote.Put{Key: keys[1], Lease: lease(keys[1])}),
		"a put by token":                  put(remote.Put{Key: keys[2], Left: time.Hour, Lease: token(keys[2])}),
		"a put of nothing by token":       put(remote.Put{Key: keys[3], Lease: token(keys[3])}),
		"a put that drops":                put(remote.Put{Key: keys[4], Left: time.Hour, Lease: lease(keys[4]), Drops: true}),
		"a soft drop of a token":          lose(remote.Drop{Key: keys[5], Soft: token(keys[5]).Token != 0}),
		"a drop with a hold":              lose(remote.Drop{Key: keys[6], Hold: time.Hour}),
		"a drop with a token":             lose(remote.Drop{Key: keys[7], Token: time.Hour}),
		"a soft drop of a lease":          lose(remote.Drop{Key: keys[9], Soft: lease(keys[9]).Token != 0}),
		"a soft drop with hold and token": lose(remote.Drop{Key: keys[8], Soft: true, Hold: time.Hour, Token: time.Hour}),
	}
	lane := fmt.Sprintf("strata:{shared:%d}", tier.Lane(keys[0]))
	home, steps := k.Owner(0, lane), 0
	k.Migrate(slots.Of(lane), home, (home+1)%3, func() {
		if steps++; steps != 3 { // the slot moves, and no key has been moved yet
			return
		}
		for name, do := range ops {
			if err := do(); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
}

// keysOfALane returns n keys of one lane.
func keysOfALane(tier *redis.Tier, n int) (keys []string) {
	for i := 0; len(keys) < n; i++ {
		if key := fmt.Sprint("key", i); tier.Lane(key) == tier.Lane("key0") {
			keys = append(keys, key)
		}
	}
	return keys
}

// TestColdClusterLoadsEachKeyOnceBesideADrop: the first contact with each node of a cluster comes
// after a drop. It is no news of another server, which would make all reads of that moment pass L2 by.
func TestColdClusterLoadsEachKeyOnceBesideADrop(t *testing.T) {
	t.Parallel() // it waits most of the time
	k := servers.StartCluster(t, 3, 0)
	tier := redis.NewTier(k.Client(t, patiently)).Bind(remote.Space{Name: "cold", Schema: 1}).(*redis.Tier)
	before := tier.Moves()
	for node := range 3 {
		key := keyIn(k, k.Client(t, patiently), "cold", node)
		drop(t, tier, remote.Drop{Key: key})
		if v := held(t, tier, keyIn(k, k.Client(t, patiently), "cold", (node+1)%3)); v != "" {
			t.Fatalf("held %q", v)
		}
	}
	if n := tier.Moves() - before; n != 0 {
		t.Errorf("%d changes of server at the first contacts with three nodes", n)
	}

	a, _ := instance[string, int64](t, k)
	b, _ := instance[string, int64](t, k)
	o := &counter{}
	const keys = 200
	var wg sync.WaitGroup
	for i, c := range []*strata.Cache[string, int64]{a, b} {
		if err := c.Invalidate(t.Context(), fmt.Sprint("dropped", i)); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []*strata.Cache[string, int64]{a, b} {
		for i := range keys {
			wg.Go(func() { mustGet(t, c, fmt.Sprint("key", i), o.load) })
		}
	}
	wg.Wait()
	if n := o.loads.Load(); n != keys {
		t.Errorf("%d loads for %d keys of a cold cluster", n, keys)
	}
}

// TestSlotThatGoesToAnUnknownNodeAfterADropIsNews: the node may have taken the place of the one that
// has confirmed the drop.
func TestSlotThatGoesToAnUnknownNodeAfterADropIsNews(t *testing.T) {
	t.Parallel() // it waits most of the time
	k := servers.StartCluster(t, 3, 0)
	c := k.Client(t, patiently)
	const name = "moving"
	home := k.Owner(0, "strata:{"+name+"}word")
	from, to := (home+1)%3, (home+2)%3
	tier := redis.NewTier(c).Bind(remote.Space{Name: name, Schema: 1}).(*redis.Tier)
	key := keyIn(k, c, name, from)
	drop(t, tier, remote.Drop{Key: key})
	before := tier.Moves()
	k.Migrate(slots.Of(fmt.Sprintf("strata:{%s:%d}", name, tier.Lane(key))), from, to, nil)
	if v := held(t, tier, key); v != "" {
		t.Fatalf("held %q", v)
	}
	if n := tier.Moves() - before; n == 0 {
		t.Error("a slot went to a node without a report so far, and nothing was noticed")
	}
}
