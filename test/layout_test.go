package test

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/strata-cache/strata/internal/testing/kit"
	"github.com/strata-cache/strata/internal/testing/servers"
	"github.com/strata-cache/strata/redis"
	"github.com/strata-cache/strata/remote"
	"github.com/strata-cache/strata/stratatest"
)

// part is one cache's part of a tier on a real Redis, and the client beneath.
func part(t *testing.T, schema uint64) (*redis.Client, *redis.Tier, *servers.Redis) {
	t.Helper()
	r := servers.StartRedis(t)
	c := r.Client(t, patiently)
	return c, redis.NewTier(c).Bind(remote.Space{Name: "n", Schema: schema}).(*redis.Tier), r
}

func fill(t *testing.T, tier *redis.Tier, key, value string, left time.Duration) {
	t.Helper()
	_, l, err := kit.Acquire(t.Context(), tier, key, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	no, err := tier.Put(t.Context(), []remote.Put{{Key: key, Data: []byte(value), Fresh: left, Left: left, Lease: l}})
	if err != nil || len(no) > 0 {
		t.Fatalf("Put: refused %v, %v", no, err)
	}
}

func held(t *testing.T, tier *redis.Tier, key string) string {
	t.Helper()
	h, err := tier.Get(t.Context(), []string{key})
	if err != nil {
		t.Fatal(err)
	}
	return string(h[0].Data)
}

// mustDo sends a command that must succeed.
func mustDo(t *testing.T, c *redis.Client, args ...any) redis.Reply {
	t.Helper()
	r := c.Do(t.Context(), args...)
	if err := r.Err(); err != nil {
		t.Fatalf("%v: %v", args[0], err)
	}
	return r
}

func drop(t *testing.T, tier *redis.Tier, d remote.Drop) remote.Lease {
	t.Helper()
	l, err := tier.Drop(t.Context(), []remote.Drop{d})
	if err != nil {
		t.Fatalf("Drop: %v", err)
	}
	return l[0]
}

func position(t *testing.T, tier *redis.Tier) remote.Position {
	t.Helper()
	p, err := tier.Position(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestTierKnowsItsServerWithTheLeastMaxValue is the sentence about MaxValue in its doc.
func TestTierKnowsItsServerWithTheLeastMaxValue(t *testing.T) {
	c := servers.StartRedis(t).Client(t, patiently, func(o *redis.Options) { o.MaxValue = 16 << 10 })
	tier := redis.NewTier(c).Bind(remote.Space{Name: "n", Schema: 1}).(*redis.Tier)
	position(t, tier)
	if w, err := tier.Probe(t.Context()); err != nil || len(w) != 0 {
		t.Errorf("%q, %v", w, err)
	}
}

func TestRedisThatWasSetBackIsNotBelieved(t *testing.T) {
	for _, field := range []string{"drops", "expiries", "clock"} {
		for _, value := range []string{"0", "", "-1", "none", "99999999999999999999"} {
			c, tier, _ := part(t, 1)
			fill(t, tier, "k", "old", time.Hour)
			if err := tier.DropAll(t.Context(), true); err != nil {
				t.Fatal(err)
			}
			if err := tier.DropTags(t.Context(), []string{"tag"}, true); err != nil {
				t.Fatal(err)
			}
			if err := tier.DropAll(t.Context(), false); err != nil {
				t.Fatal(err)
			}
			fill(t, tier, "k", "new", time.Hour)
			before := position(t, tier)
			mustDo(t, c, "HSET", "strata:{n}word", field, value)
			tier.Recheck()
			if v := held(t, tier, "k"); v != "" {
				t.Errorf("%s set to %q: %q is believed", field, value, v)
			}
			after := position(t, tier)
			if after.Epoch == before.Epoch || after.Clock < before.Clock {
				t.Errorf("%s set to %q: from epoch %s, clock %d to %s, %d", field, value, before.Epoch, before.Clock, after.Epoch, after.Clock)
			}
			fill(t, tier, "k", "newer", time.Hour)
			if v := held(t, tier, "k"); v != "newer" {
				t.Errorf("%s set to %q: got %q afterwards", field, value, v)
			}
		}
	}
}

// TestRedisRestartedFromASnapshotIsNotBelieved restarts a server that then has
// a value which was dropped after the snapshot.
func TestRedisRestartedFromASnapshotIsNotBelieved(t *testing.T) {
	for name, ask := range asked() {
		t.Run(name, func(t *testing.T) {
			r := servers.StartRedis(t, "--dir", t.TempDir())
			c := r.Client(t, patiently)
			tier := redis.NewTier(c).Bind(remote.Space{Name: "n", Schema: 1}).(*redis.Tier)
			fill(t, tier, "k", "dropped", time.Hour)
			mustDo(t, c, "SAVE")
			drop(t, tier, remote.Drop{Key: "k"})
			r.Kill()
			r.Restart()
			eventually(t, "Redis answers", func() bool { return c.Ping(t.Context()) == nil })
			if n, err := mustDo(t, c, "EXISTS", "strata:{n:234}=k").Int(); err != nil || n != 1 {
				t.Fatalf("the snapshot does not hold the value: %d, %v", n, err)
			}
			if v := ask(t, tier); v != "" {
				t.Errorf("%q is back", v)
			}
		})
	}
}

// asked are ways to ask for the value of k.
func asked() map[string]func(*testing.T, *redis.Tier) string {
	return map[string]func(*testing.T, *redis.Tier) string{
		"Get": func(t *testing.T, tier *redis.Tier) string { return held(t, tier, "k") },
		"Acquire": func(t *testing.T, tier *redis.Tier) string {
			h, l, err := kit.Acquire(t.Context(), tier, "k", time.Minute)
			if err != nil || l.Grant != remote.Granted {
				t.Fatalf("grant %d, %v; want a lease", l.Grant, err)
			}
			return string(h.Data)
		},
	}
}

// TestPromotedReplicaIsNotBelieved promotes a replica that does not know the
// last drops.
func TestPromotedReplicaIsNotBelieved(t *testing.T) {
	for name, ask := range asked() {
		t.Run(name, func(t *testing.T) { promote(t, false, ask) })
		t.Run(name+" without scripts", func(t *testing.T) { promote(t, true, ask) })
	}
}

func promote(t *testing.T, noScripts bool, ask func(*testing.T, *redis.Tier) string) {
	primary, replica := servers.StartRedis(t, "--repl-diskless-sync-delay", "0"), servers.StartRedis(t)
	var addr atomic.Value
	addr.Store(primary.Addr)
	o := redis.Options{}
	if noScripts {
		o = withoutScripts(t, primary)
		withoutScripts(t, replica)
	}
	o.DialContext = func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, addr.Load().(string))
	}
	c := client(t, o)
	tier := redis.NewTier(c).Bind(remote.Space{Name: "n", Schema: 1}).(*redis.Tier)
	other := redis.NewTier(primary.Client(t)).Bind(remote.Space{Name: "n", Schema: 1}).(*redis.Tier)
	if err := other.DropTags(t.Context(), []string{"early"}, false); err != nil {
		t.Fatal(err)
	}
	fill(t, tier, "k", "dropped", time.Hour)
	before := position(t, tier)
	host, port, _ := strings.Cut(primary.Addr, ":")
	to := replica.Client(t)
	mustDo(t, to, "REPLICAOF", host, port)
	eventually(t, "the replica has the value", func() bool {
		n, _ := to.Do(t.Context(), "EXISTS", "strata:{n:234}=k").Int()
		return n == 1
	})
	mustDo(t, to, "REPLICAOF", "NO", "ONE") // it hears no more
	drop(t, other, remote.Drop{Key: "k"})
	if err := other.DropTags(t.Context(), []string{"tag"}, false); err != nil {
		t.Fatal(err)
	}
	addr.Store(replica.Addr)
	primary.Kill()
	eventually(t, "the promoted one answers", func() bool { return c.Ping(t.Context()) == nil })
	if v := ask(t, tier); v != "" {
		t.Errorf("%q is back", v)
	}
	tags, err := tier.Tags(t.Context(), []string{"tag", "other"})
	if err != nil || tags[0].Dropped <= before.Clock || tags[1].Dropped <= before.Clock {
		t.Errorf("Tags = %+v, %v; want both dropped after %d", tags, err, before.Clock)
	}
	if after := position(t, tier); after.Epoch == before.Epoch {
		t.Errorf("the epoch is still %s", after.Epoch)
	}
}

func TestServerThatDoesNotSayWhichItIsKeepsItsEpoch(t *testing.T) {
	r := servers.StartRedis(t)
	mustDo(t, r.Client(t, patiently), "ACL", "SETUSER", "blind", "on", ">secret", "~*", "&*", "+@all", "-info")
	blind := redis.NewTier(client(t, redis.Options{Addr: r.Addr, Username: "blind", Password: "secret"})).Bind(remote.Space{Name: "n", Schema: 1}).(*redis.Tier)
	fill(t, blind, "k", "v", time.Hour)
	before := position(t, blind)
	seeing := redis.NewTier(r.Client(t, patiently)).Bind(remote.Space{Name: "n", Schema: 1}).(*redis.Tier)
	if after := position(t, seeing); after.Epoch == before.Epoch {
		t.Errorf("who can tell the server takes over epoch %s, made by who cannot", after.Epoch)
	}
	before = position(t, seeing)
	fill(t, seeing, "k", "v", time.Hour)
	if after := position(t, blind); after.Epoch != before.Epoch {
		t.Errorf("epoch %s became %s", before.Epoch, after.Epoch)
	}
	if v := held(t, blind, "k"); v != "v" {
		t.Errorf("got %q", v)
	}
}

func TestEachLaneMovesOnItsOwnAndIsNeverTheSameAgain(t *testing.T) {
	c, tier, r := part(t, 1)
	other := redis.NewTier(r.Client(t, patiently)).Bind(remote.Space{Name: "n", Schema: 2}).(*redis.Tier)
	var wg sync.WaitGroup
	all := make([]remote.Position, 8)
	for i := range all {
		wg.Go(func() { all[i], _ = []*redis.Tier{tier, other}[i%2].Position(t.Context()) })
	}
	wg.Wait()
	for _, p := range all {
		if !slices.Equal(p.Lanes, all[0].Lanes) || p.Epoch != all[0].Epoch || len(p.Lanes) != 1024 {
			t.Fatal("those who ask at once for the first time get different words")
		}
	}
	lane := tier.Lane("k")
	moved := func(what string, before remote.Position) remote.Position {
		t.Helper()
		after := position(t, tier)
		for i := range after.Lanes {
			if same := after.Lanes[i] == before.Lanes[i]; same == (i == int(lane)) {
				t.Errorf("%s: lane %d: %+v, then %+v", what, i, before.Lanes[i], after.Lanes[i])
			}
		}
		return after
	}
	drop(t, tier, remote.Drop{Key: "k"})
	p := moved("after a drop", all[0])
	if p.Lanes[lane].Count != 1 {
		t.Errorf("counted %d drops", p.Lanes[lane].Count)
	}
	drop(t, tier, remote.Drop{Key: "k", Soft: true})
	p = moved("after a soft drop", p)
	for _, args := range [][]any{
		{"DEL"}, {"SET", "theirs"}, {"SET", "5"}, {"SET", "x.1"}, {"RPUSH", "theirs"},
	} {
		key := fmt.Sprintf("strata:{n:%d}lane", lane)
		mustDo(t, c, "DEL", key)
		mustDo(t, c, slices.Concat([]any{args[0], key}, args[1:])...)
		p = moved(fmt.Sprintf("after %v", args), p)
	}
	mustDo(t, c, "SET", fmt.Sprintf("strata:{n:%d}lane", lane), "9999999999999999.a")
	drop(t, tier, remote.Drop{Key: "k"})
	p = moved("after a number that Lua cannot count", p)
	if p.Lanes[lane].Count != 1 {
		t.Errorf("it is counted on as %d", p.Lanes[lane].Count)
	}
}

func TestLostDropsOfTagsCountAsJustHappened(t *testing.T) {
	for name, lose := range map[string]func(*testing.T, *redis.Client){
		"deleted":  func(t *testing.T, c *redis.Client) { mustDo(t, c, "DEL", "strata:{n}tags") },
		"replaced": func(t *testing.T, c *redis.Client) { mustDo(t, c, "SET", "strata:{n}tags", "theirs") },
		"damaged":  func(t *testing.T, c *redis.Client) { mustDo(t, c, "HSET", "strata:{n}tags", "floor", "x") },
		"beyond what Lua counts": func(t *testing.T, c *redis.Client) {
			mustDo(t, c, "HSET", "strata:{n}tags", "floor", "9007199254740993")
		},
		"too many": func(t *testing.T, c *redis.Client) {
			for i := range 21 { // in calls that a busy machine answers in time
				const script = "for i = 1, 5000 do redis.call('HSET', KEYS[1], 'd:' .. ARGV[1] .. '.' .. i, 1) end"
				mustDo(t, c, "EVAL", script, 1, "strata:{n}tags", i)
			}
			tier := redis.NewTier(c).Bind(remote.Space{Name: "n"}).(*redis.Tier)
			if err := tier.DropTags(t.Context(), []string{"another"}, false); err != nil {
				t.Fatal(err)
			}
		},
		"all": func(t *testing.T, c *redis.Client) { mustDo(t, c, "FLUSHALL") },
	} {
		t.Run(name, func(t *testing.T) {
			c, tier, _ := part(t, 1)
			if err := tier.DropTags(t.Context(), []string{"a"}, false); err != nil {
				t.Fatal(err)
			}
			before := position(t, tier)
			lose(t, c)
			if _, err := tier.Tags(t.Context(), []string{"a"}); err != nil {
				t.Logf("first asked: %v", err) // a foreign or lost table of tags may cost one error
			}
			tags, err := tier.Tags(t.Context(), []string{"a", "b"})
			if err != nil || len(tags) != 2 {
				t.Fatalf("Tags = %v, %v", tags, err)
			}
			after := position(t, tier)
			for i, tag := range tags {
				if tag.Dropped <= before.Clock || tag.Dropped > after.Clock {
					t.Errorf("tag %d: %+v; want dropped after %d, at %d at most", i, tag, before.Clock, after.Clock)
				}
			}
			if n, err := mustDo(t, c, "HLEN", "strata:{n}tags").Int(); err != nil || n > 10 {
				t.Errorf("%d fields are kept, %v", n, err)
			}
		})
	}
}

func TestDropsSucceedOnARedisWithoutMemoryLeft(t *testing.T) {
	c, tier, _ := part(t, 1)
	fill(t, tier, "hard", "v", time.Hour)
	fill(t, tier, "soft", "v", time.Hour)
	mustDo(t, c, "CONFIG", "SET", "maxmemory", 1)
	if err := c.Do(t.Context(), "SET", "k", "v").Err(); err == nil {
		t.Fatal("there is memory left: the test proves nothing")
	}
	drop(t, tier, remote.Drop{Key: "hard"})
	drop(t, tier, remote.Drop{Key: "soft", Soft: true})
	drop(t, tier, remote.Drop{Key: "hard", Hold: time.Hour, Token: time.Hour})
	if err := tier.DropTags(t.Context(), []string{"a"}, false); err != nil {
		t.Errorf("DropTags: %v", err)
	}
	if v := held(t, tier, "hard"); v != "" {
		t.Errorf("%q is still held", v)
	}
	if h, err := tier.Get(t.Context(), []string{"soft"}); err != nil || !h[0].Soft || h[0].Fresh > 0 {
		t.Errorf("Get = %+v, %v; want stale", h, err)
	}
	if err := tier.DropAll(t.Context(), false); err != nil {
		t.Errorf("DropAll: %v", err)
	}
	if v := held(t, tier, "soft"); v != "" {
		t.Errorf("%q is held after DropAll", v)
	}
}

func TestTierNoticesThatScriptsAreNotPermitted(t *testing.T) {
	r := servers.StartRedis(t)
	admin := r.Client(t, patiently)
	tier := redis.NewTier(client(t, withoutScripts(t, r))).Bind(remote.Space{Name: "n", Schema: 1}).(*redis.Tier)
	fill(t, tier, "k", "v", time.Hour)
	if v := held(t, tier, "k"); v != "v" {
		t.Fatalf("got %q", v)
	}
	tried := commandStats(t, admin, "eval")
	if s := commandStats(t, admin, "exec"); s == "" {
		t.Error("nothing was done by MULTI and EXEC")
	}
	drop(t, tier, remote.Drop{Key: "k"})
	if now := commandStats(t, admin, "eval"); now != tried {
		t.Errorf("scripts are tried again each time: %s became %s", tried, now)
	}
	if w, err := tier.Probe(t.Context()); err != nil || len(w) != 1 || !strings.Contains(w[0], "scripts") {
		t.Errorf("Probe = %q, %v; want one warning about scripts", w, err)
	}
	mustDo(t, admin, "ACL", "SETUSER", "plain", "+@all")
	if w, err := tier.Probe(t.Context()); err != nil || len(w) != 0 {
		t.Errorf("Probe = %q, %v after scripts were permitted", w, err)
	}
	tried = commandStats(t, admin, "eval")
	drop(t, tier, remote.Drop{Key: "k"})
	if now := commandStats(t, admin, "eval"); now == tried {
		t.Errorf("scripts are not used although they are permitted: %s", now)
	}
}

// commandStats returns the counters of the server for commands whose names
// begin with name.
func commandStats(t *testing.T, c *redis.Client, name string) (found string) {
	t.Helper()
	text, err := mustDo(t, c, "INFO", "commandstats").String()
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "cmdstat_"+name) {
			found += line
		}
	}
	return found
}

// TestWithoutScriptsAllConcurrentDropsSucceed has many write to one lane.
func TestWithoutScriptsAllConcurrentDropsSucceed(t *testing.T) {
	r := servers.StartRedis(t)
	tier := redis.NewTier(client(t, withoutScripts(t, r))).Bind(remote.Space{Name: "n", Schema: 1}).(*redis.Tier)
	const callers, each = 16, 20
	var wg sync.WaitGroup
	for range callers {
		wg.Go(func() {
			for range each {
				if _, err := tier.Drop(t.Context(), []remote.Drop{{Key: "k"}}); err != nil {
					t.Errorf("Drop: %v", err)
				}
			}
		})
	}
	wg.Wait()
	if w := position(t, tier).Lanes[tier.Lane("k")]; w.Count != callers*each {
		t.Errorf("counted %d of %d drops", w.Count, callers*each)
	}
}

// TestEntryOfWhichAllIsOverStillEnds stores beside values of two retired types,
// which have ended. They must be taken out, and the entry must keep an end.
func TestEntryOfWhichAllIsOverStillEnds(t *testing.T) {
	for _, noScripts := range []bool{false, true} {
		r := servers.StartRedis(t)
		o := redis.Options{Addr: r.Addr}
		if noScripts {
			o = withoutScripts(t, r)
		}
		all := redis.NewTier(client(t, o))
		bind := func(schema uint64) *redis.Tier {
			return all.Bind(remote.Space{Name: "n", Schema: schema}).(*redis.Tier)
		}
		_, l, err := kit.Acquire(t.Context(), bind(3), "k", time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		fill(t, bind(1), "k", "a", 30*time.Millisecond)
		fill(t, bind(2), "k", "b", 30*time.Millisecond)
		c := r.Client(t, patiently)
		// A reader takes a life for over a little before the server does.
		over := serverTime(t, c).Add(30 * time.Millisecond)
		eventually(t, "the other types' lives are over", func() bool { return serverTime(t, c).After(over) })
		if v := held(t, bind(1), "k") + held(t, bind(2), "k"); v != "" {
			t.Errorf("held %q after that", v)
		}
		no, err := bind(3).Put(t.Context(), []remote.Put{{Key: "k", Data: []byte("c"), Fresh: time.Minute, Left: time.Minute, Lease: l}})
		if err != nil || len(no) > 0 {
			t.Fatalf("Put: refused %v, %v", no, err)
		}
		fields, err1 := mustDo(t, c, "HLEN", "strata:{n:234}=k").Int()
		ttl, err2 := mustDo(t, c, "PTTL", "strata:{n:234}=k").Int()
		if err1 != nil || err2 != nil || fields != 2 || ttl <= 0 {
			t.Errorf("without scripts %t: %d fields are left, which end in %d ms; want 2, and an end", noScripts, fields, ttl)
		}
	}
}

// serverTime is the clock of a server, to the millisecond below.
func serverTime(t *testing.T, c *redis.Client) time.Time {
	t.Helper()
	var part [2]int64
	for i, r := range mustDo(t, c, "TIME").All() {
		n, err := r.Int()
		if err != nil {
			t.Fatal(err)
		}
		part[i] = n
	}
	return time.UnixMilli(part[0]*1000 + part[1]/1000)
}

func TestManyLeasesAreAnsweredLikeOneByOne(t *testing.T) {
	for _, noScripts := range []bool{false, true} {
		r := servers.StartRedis(t)
		o := redis.Options{Addr: r.Addr}
		if noScripts {
			o = withoutScripts(t, r)
		}
		tier := redis.NewTier(client(t, o)).Bind(remote.Space{Name: "n", Schema: 1}).(*redis.Tier)
		fill(t, tier, "fresh", "f", time.Hour)
		fill(t, tier, "stale", "s", time.Hour)
		drop(t, tier, remote.Drop{Key: "stale", Soft: true})
		if _, _, err := kit.Acquire(t.Context(), tier, "busy", time.Hour); err != nil {
			t.Fatal(err)
		}
		drop(t, tier, remote.Drop{Key: "hold", Hold: time.Hour})
		mustDo(t, r.Client(t, patiently), "SET", fmt.Sprintf("strata:{n:%d}=theirs", tier.Lane("theirs")), "x")

		keys := []string{"absent", "fresh", "stale", "busy", "hold", "theirs", "absent"}
		want := []remote.Grant{remote.Granted, remote.Free, remote.Granted, remote.Busy, remote.OnHold, remote.Granted, remote.Busy}
		held, leases, err := kit.AcquireMany(t.Context(), tier, keys, time.Minute)
		if err != nil || len(held) != len(keys) || len(leases) != len(keys) {
			t.Fatalf("AcquireMany = %v, %v, %v", held, leases, err)
		}
		for i, l := range leases {
			if l.Grant != want[i] || (l.Token != 0) != (l.Grant == remote.Granted) || (l.Wait > 0) != (l.Grant == remote.Busy || l.Grant == remote.OnHold) {
				t.Errorf("without scripts %t: %s: %+v; want grant %d", noScripts, keys[i], l, want[i])
			}
		}
		if string(held[1].Data) != "f" || string(held[2].Data) != "s" || !held[2].Soft || !held[0].Absent() {
			t.Errorf("without scripts %t: held %+v", noScripts, held)
		}
		no, err := tier.Put(t.Context(), []remote.Put{
			{Key: "absent", Data: []byte("a"), Left: time.Hour, Lease: leases[0]},
			{Key: "fresh", Data: []byte("b"), Left: time.Hour, Lease: leases[1]},
			{Key: "theirs", Data: []byte("c"), Left: time.Hour, Lease: leases[5]},
			{Key: "stale", Data: []byte("d"), Left: time.Hour, Lease: drop(t, tier, remote.Drop{Key: "stale", Token: time.Hour})},
		})
		if err != nil || !slices.Equal(no, []int{1}) {
			t.Errorf("without scripts %t: Put = %v, %v; want only the second refused", noScripts, no, err)
		}
		if v := allHeld(t, tier, "absent", "fresh", "theirs", "stale"); v != "a f c d" {
			t.Errorf("without scripts %t: held %q", noScripts, v)
		}
		if _, _, err := kit.AcquireMany(t.Context(), tier, []string{strings.Repeat("k", 1<<17)}, time.Minute); err != remote.ErrKeyTooLong {
			t.Errorf("too long a key: %v", err)
		}
		if h, l, err := kit.AcquireMany(t.Context(), tier, nil, time.Minute); err != nil || len(h)+len(l) > 0 {
			t.Errorf("no keys: %v, %v, %v", h, l, err)
		}
	}
}

// allHeld returns the values of several keys, separated by spaces.
func allHeld(t *testing.T, tier *redis.Tier, keys ...string) string {
	t.Helper()
	held, err := tier.Get(t.Context(), keys)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, h := range held {
		all = append(all, string(h.Data))
	}
	return strings.Join(all, " ")
}

func TestProbeNamesSettingsThatWeakenPromises(t *testing.T) {
	r := servers.StartRedis(t)
	c := r.Client(t, patiently)
	mustDo(t, c, "ACL", "SETUSER", "blind", "on", ">secret", "~*", "&*", "+@all", "-info")
	blind := redis.NewTier(client(t, redis.Options{Addr: r.Addr, Username: "blind", Password: "secret"}))
	mustDo(t, c, "ACL", "SETUSER", "idle", "on", ">secret", "~*", "&*", "+@all", "-@scripting", "-watch")
	idle := redis.NewTier(client(t, redis.Options{Addr: r.Addr, Username: "idle", Password: "secret"}))
	mustDo(t, c, "ACL", "SETUSER", "mute", "on", ">secret", "~*", "resetchannels", "+@all")
	mute := redis.NewTier(client(t, redis.Options{Addr: r.Addr, Username: "mute", Password: "secret"}))
	for _, x := range []struct {
		limit, policy string
		tier          *redis.Tier
		want          []string
	}{
		{"0", "noeviction", mute, []string{"PUBLISH"}},
		{"1gb", "allkeys-lru", idle, []string{"neither scripts nor WATCH"}},
		{"0", "allkeys-lru", redis.NewTier(c), nil},
		{"1gb", "noeviction", redis.NewTier(c), nil},
		{"1gb", "allkeys-lru", redis.NewTier(c), []string{"allkeys-lru"}},
		{"1gb", "volatile-ttl", redis.NewTier(c), []string{"volatile-ttl"}},
		{"1gb", "allkeys-random", blind, []string{"INFO", "allkeys-random"}},
		{"0", "noeviction", blind, []string{"INFO"}},
	} {
		mustDo(t, c, "CONFIG", "SET", "maxmemory", x.limit, "maxmemory-policy", x.policy)
		got, err := x.tier.Probe(t.Context())
		if err != nil || len(got) != len(x.want) {
			t.Errorf("%s, %s: %q, %v; want %d warnings", x.limit, x.policy, got, err, len(x.want))
			continue
		}
		for i, w := range x.want {
			if !strings.Contains(got[i], w) {
				t.Errorf("%s, %s: %q does not speak of %s", x.limit, x.policy, got[i], w)
			}
		}
	}
}

func TestRightsThatAreDocumentedAreEnough(t *testing.T) {
	r := servers.StartRedis(t)
	mustDo(t, r.Client(t, patiently), "ACL", "SETUSER", "u", "on", ">secret", "resetchannels", "~strata:*", "&strata:*", "-@all",
		"+@read", "+@write", "+@fast", "+@scripting", "+@transaction", "+@pubsub", "+@connection", "+info", "+cluster")
	stratatest.TestAnnouncer(t, func(t *testing.T) (remote.Tier, remote.Bus) {
		c := client(t, redis.Options{Addr: r.Addr, Username: "u", Password: "secret"})
		return redis.NewTier(c), redis.NewBus(c)
	})
	c := client(t, redis.Options{Addr: r.Addr, Username: "u", Password: "secret"})
	if got, err := redis.NewTier(c).Bind(remote.Space{Name: "n"}).(*redis.Tier).Probe(t.Context()); err != nil || len(got) > 0 {
		t.Errorf("Probe: %q, %v", got, err)
	}
}

func TestForeignDataUnderKeysOfTheTierIsReplaced(t *testing.T) {
	c, tier, _ := part(t, 1)
	for _, key := range []string{"strata:{n}word", "strata:{n:234}lane", "strata:{n:234}=k"} {
		if err := c.Do(t.Context(), "SET", key, "theirs").Ok(); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := tier.Get(t.Context(), []string{"k"}); err == nil {
		t.Log("the word was usable at once")
	}
	if v := held(t, tier, "k"); v != "" {
		t.Errorf("%q is read as a value", v)
	}
	if _, err := tier.Drop(t.Context(), []remote.Drop{{Key: "k"}}); err != nil {
		t.Errorf("Drop over foreign data: %v", err)
	}
	fill(t, tier, "k", "ours", time.Hour)
	if v := held(t, tier, "k"); v != "ours" {
		t.Errorf("got %q, want what was put", v)
	}
	if tier.Foreign() == 0 {
		t.Error("nothing was counted")
	}
}

func TestForeignDataKeepsNoDropOfEverythingFromBeingCarriedOut(t *testing.T) {
	c, tier, _ := part(t, 1)
	plant := func() {
		mustDo(t, c, "SET", "strata:{n}word", "theirs")
		mustDo(t, c, "SET", "strata:{n}tags", "theirs")
	}
	plant()
	if err := tier.DropAll(t.Context(), false); err != nil {
		t.Errorf("DropAll: %v", err)
	}
	plant()
	if err := tier.DropTags(t.Context(), []string{"tag"}, false); err != nil {
		t.Errorf("DropTags: %v", err)
	}
}

func TestValuesOfRetiredTypesLeaveRedis(t *testing.T) {
	c, retired, r := part(t, 0xa)
	current := redis.NewTier(r.Client(t, patiently)).Bind(remote.Space{Name: "n", Schema: 0xb}).(*redis.Tier)
	fill(t, retired, "k", "old", 50*time.Millisecond)
	fill(t, current, "k", "new", time.Hour)
	over := serverTime(t, c).Add(50 * time.Millisecond)
	eventually(t, "the old type's life is over", func() bool { return serverTime(t, c).After(over) })
	if _, err := current.Drop(t.Context(), []remote.Drop{{Key: "k", Soft: true}}); err != nil {
		t.Fatal(err)
	}
	fill(t, current, "k", "newer", time.Hour)
	if n, err := c.Do(t.Context(), "HEXISTS", "strata:{n:234}=k", "va").Int(); err != nil || n != 0 {
		t.Errorf("its value is still kept: %d, %v", n, err)
	}
	if v := held(t, current, "k"); v != "newer" {
		t.Errorf("got %q", v)
	}
}
