package test

import (
	_ "embed"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/strata-cache/strata"
	"github.com/strata-cache/strata/internal/redis/layout"
	"github.com/strata-cache/strata/internal/testing/kit"
	"github.com/strata-cache/strata/internal/testing/servers"
	"github.com/strata-cache/strata/redis"
	"github.com/strata-cache/strata/remote"
)

// calls returns how often each command was executed since the last CONFIG RESETSTAT.
func calls(t *testing.T, c *redis.Client) map[string]int {
	t.Helper()
	text, err := mustDo(t, c, "INFO", "commandstats").String()
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]int{}
	for line := range strings.Lines(text) {
		name, rest, ok := strings.Cut(strings.TrimPrefix(line, "cmdstat_"), ":calls=")
		n, _, _ := strings.Cut(rest, ",")
		if count, err := strconv.Atoi(n); ok && err == nil && name != "info" && name != "config|resetstat" {
			all[name] = count
		}
	}
	return all
}

// TestSetCostsThirteenCommandsAndOneMessage counts the commands of the server, inside scripts too.
// Of several Sets the cheapest counts: now and then one reads the namespace state.
func TestSetCostsThirteenCommandsAndOneMessage(t *testing.T) {
	r := servers.StartRedis(t)
	admin := r.Client(t)
	c, err := strata.New(strata.Options[string, string]{Name: "n", TTL: time.Hour, Remote: strata.Remote[string, string]{Tier: redis.NewTier(r.Client(t)), Timeout: 10 * time.Second}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(t.Context())
	costs := func(key func(i int) string) (least int, of map[string]int) {
		for i := range 5 {
			mustDo(t, admin, "CONFIG", "RESETSTAT")
			if err := c.Set(t.Context(), key(i), "value"); err != nil {
				t.Fatal(err)
			}
			n, all := 0, calls(t, admin)
			for count := range maps.Values(all) {
				n += count
			}
			if least == 0 || n < least {
				least, of = n, all
			}
		}
		return least, of
	}
	for what, want := range map[string]struct {
		key  func(i int) string
		most int
	}{
		"a key that has a value": {func(int) string { return "k" }, 13},
		"a key that has none":    {func(i int) string { return fmt.Sprint("k", i) }, 14},
	} {
		n, of := costs(want.key)
		if n > want.most || of["publish"] != 1 || of["evalsha"] != 2 {
			t.Errorf("a Set of %s takes %d commands, %v; want at most %d, two calls and one message", what, n, of, want.most)
		}
	}
}

// setter is a tier on a real Redis in which Sets are made step by step.
type setter struct {
	*testing.T
	c     *redis.Client
	tier  *redis.Tier
	names layout.Names
	lane  string
	state string // of the namespace
}

func newSetter(t *testing.T) *setter {
	t.Helper()
	c, tier, _ := part(t, 1)
	fill(t, tier, "k", "old", time.Minute)
	s := &setter{T: t, c: c, tier: tier, names: layout.NewNames(remote.Space{Name: "n", Schema: 1}, 0)}
	_, l, err := kit.Acquire(t.Context(), tier, "another", time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	s.state = l.State
	mustDo(t, c, "SET", s.names.Lane("k"), "1.1")
	s.moved()
	return s
}

// moved reports whether the lane of the key has another version than when it was asked last.
func (s *setter) moved() bool {
	s.Helper()
	lane, err := mustDo(s.T, s.c, "GET", s.names.Lane("k")).String()
	if err != nil {
		s.Fatal(err)
	}
	was := s.lane
	s.lane = lane
	return lane != was
}

// begin is the first step of a Set, which must leave everything as it is.
func (s *setter) begin() remote.Lease {
	s.Helper()
	was := held(s.T, s.tier, "k")
	l := drop(s.T, s.tier, remote.Drop{Key: "k", Token: time.Minute, Quiet: true})
	if !l.Quiet || s.moved() || held(s.T, s.tier, "k") != was {
		s.Fatalf("a quiet drop gave %+v, and %q became %q; want a token and nothing else", l, was, held(s.T, s.tier, "k"))
	}
	return l
}

// end is the second step. It must announce the key, whether it stores or not.
func (s *setter) end(value string, l remote.Lease) (stored bool) {
	s.Helper()
	mustDo(s.T, s.c, "CONFIG", "RESETSTAT")
	p := remote.Put{Key: "k", Data: []byte(value), Fresh: time.Minute, Left: time.Minute, Lease: l, Drops: true}
	if value == "" {
		p.Fresh, p.Left = 0, 0
	}
	refused, err := s.tier.Put(s.Context(), []remote.Put{p})
	if err != nil {
		s.Fatal(err)
	}
	if n := calls(s.T, s.c)["publish"]; n != 1 || !s.moved() {
		s.Errorf("the Put of a Set, refused %v, published %d messages; want 1 and another version of the lane", refused, n)
	}
	return len(refused) == 0
}

// texts returns the elements of a reply.
func (s *setter) texts(args ...any) (all []string) {
	s.Helper()
	for _, v := range mustDo(s.T, s.c, args...).All() {
		text, err := v.String()
		if err != nil {
			s.Fatal(err)
		}
		all = append(all, text)
	}
	return all
}

// holds fails unless the tier holds this value, fresh or stale.
func (s *setter) holds(value string) {
	s.Helper()
	if got := held(s.T, s.tier, "k"); got != value {
		s.Errorf("the tier holds %q, want %q", got, value)
	}
}

// TestSetLeavesNothingOlder is about Sets whose token is void when their value comes. Such a Set
// returns without an error, so nothing older may stay, on any instance.
func TestSetLeavesNothingOlder(t *testing.T) {
	t.Run("another Set has begun, and dies", func(t *testing.T) {
		s := newSetter(t)
		first := s.begin()
		s.begin()
		if s.end("first", first) {
			t.Error("a Set was stored that another had overtaken")
		}
		s.holds("")
	})
	t.Run("the key was expired", func(t *testing.T) {
		s := newSetter(t)
		first := s.begin()
		drop(t, s.tier, remote.Drop{Key: "k", Soft: true})
		s.holds("")
		if s.end("first", first) {
			t.Error("a Set was stored from before an Expire")
		}
		s.holds("")
	})
	t.Run("it was too slow", func(t *testing.T) {
		s := newSetter(t)
		first := s.begin()
		mustDo(t, s.c, "HSET", s.names.Entry("k"), "t", fmt.Sprintf("0%x 1", first.Token))
		if s.end("first", first) {
			t.Error("a Set was stored under a token that was over")
		}
		s.holds("")
	})
	t.Run("another has finished", func(t *testing.T) {
		s := newSetter(t)
		first := s.begin()
		if second := s.begin(); !s.end("second", second) {
			t.Error("the last Set was refused")
		}
		if s.end("first", first) {
			t.Error("a Set was stored over a later one")
		}
		s.holds("second")
		if s.end("", first) { // as after a failure
			t.Error("a Set was undone after a later one")
		}
		s.holds("second")
	})
	t.Run("it has failed", func(t *testing.T) {
		s := newSetter(t)
		first := s.begin()
		if !s.end("", first) {
			t.Error("nothing could not be put under a good token")
		}
		s.holds("")
		if s.end("first", first) {
			t.Error("a Set was stored after it was given up")
		}
		s.holds("")
	})
	t.Run("a load has begun before and ends between", func(t *testing.T) {
		s := newSetter(t)
		other := s.tier.Bind(remote.Space{Name: "n", Schema: 2}).(*redis.Tier)
		_, load, err := kit.Acquire(t.Context(), other, "k", time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		l := s.begin()
		fill(t, s.tier.Bind(remote.Space{Name: "n", Schema: 3}).(*redis.Tier), "k", "loaded", time.Minute)
		if !s.end("value", l) {
			t.Error("a Set was refused because of a load")
		}
		refused, err := other.Put(t.Context(), []remote.Put{{Key: "k", Data: []byte("x"), Left: time.Minute, Lease: load}})
		if err != nil || len(refused) != 1 {
			t.Errorf("a load from before a Set was stored: %v", err)
		}
		fields := s.texts("HKEYS", s.names.Entry("k"))
		if slices.Sort(fields); !slices.Equal(fields, []string{"s1", "v1"}) {
			t.Errorf("the entry has the fields %q; want the value alone", fields)
		}
	})
}

// The scripts of the version before quiet drops, which instances run during a rolling upgrade.
var (
	//go:embed testdata/earlier/drop.lua
	earlierDrop string
	//go:embed testdata/earlier/put.lua
	earlierPut string
)

// drops is a drop by an instance of the earlier version.
func (s *setter) drops(kind, token string) {
	s.Helper()
	mustDo(s.T, s.c, "EVAL", earlierDrop, 2, s.names.Entry("k"), s.names.Lane("k"),
		s.names.Channel, s.names.Dropped("k", kind == "soft"), "1", "k", kind, token, 60_000, 0, 0)
	s.moved()
}

// puts is a Put by an instance of the earlier version, under a token, or under a lease.
func (s *setter) puts(token, field string) (stored bool) {
	s.Helper()
	now, err := strconv.ParseInt(s.texts("TIME")[0], 10, 64)
	if err != nil {
		s.Fatal(err)
	}
	until := (now + 60) * 1000
	state := fmt.Sprintf("%d %d %s %s", until, until, token, s.state)
	done, err := mustDo(s.T, s.c, "EVAL", earlierPut, 2, s.names.Entry("k"), s.names.Lane("k"),
		"1", token, state, 60_000, "earlier", s.names.Channel, s.names.Dropped("k", false), "1", "k", field).Int()
	if err != nil {
		s.Fatal(err)
	}
	s.moved()
	return done == 1
}

// TestSetBesideAnEarlierVersion has instances of the version without quiet drops work on the key of
// a Set that runs. Values that they leave, and values that the Set leaves to them, must not be older than it.
func TestSetBesideAnEarlierVersion(t *testing.T) {
	t.Run("Invalidate", func(t *testing.T) {
		s := newSetter(t)
		l := s.begin()
		s.drops("hard", "")
		if s.end("value", l) {
			t.Error("a Set was stored from before an Invalidate")
		}
		s.holds("")
	})
	t.Run("Expire", func(t *testing.T) {
		s := newSetter(t)
		l := s.begin()
		s.drops("soft", "")
		s.holds("old") // and stale
		if s.end("value", l) {
			t.Error("a Set was stored from before an Expire")
		}
		s.holds("")
	})
	t.Run("Set, begun before", func(t *testing.T) {
		s := newSetter(t)
		s.drops("hard", "8")
		fill(t, s.tier, "k", "loaded meanwhile", time.Minute)
		l := drop(t, s.tier, remote.Drop{Key: "k", Token: time.Minute, Quiet: true})
		if l.Quiet || !s.moved() {
			t.Errorf("the token %+v took the place of another, whose Put says nothing, in silence", l)
		}
		s.holds("")
		if s.puts("8", "t") {
			t.Error("a Set was stored that another had overtaken")
		}
		if !s.end("value", l) {
			t.Error("the last Set was refused")
		}
		s.holds("value")
	})
	t.Run("Set, begun after", func(t *testing.T) {
		s := newSetter(t)
		l := s.begin()
		s.drops("hard", "8")
		if s.end("value", l) {
			t.Error("a Set was stored that another had overtaken")
		}
		if !s.puts("8", "t") {
			t.Error("the last Set was refused")
		}
		s.holds("earlier")
	})
	t.Run("Add, or a load that drops", func(t *testing.T) {
		s := newSetter(t)
		l := s.begin()
		mustDo(t, s.c, "HSET", s.names.Entry("k"), s.names.Lease, "7 1 1")
		if !s.puts("7", s.names.Lease) {
			t.Error("a Put under a good lease was refused")
		}
		s.holds("earlier")
		if !s.end("value", l) {
			t.Error("a load has taken the token of a Set")
		}
		s.holds("value")
	})
}
