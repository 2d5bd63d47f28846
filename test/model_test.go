package test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/strata-cache/strata/internal/testing/kit"
	"github.com/strata-cache/strata/internal/testing/servers"
	"github.com/strata-cache/strata/redis"
	"github.com/strata-cache/strata/remote"
	"github.com/strata-cache/strata/stratatest"
)

var (
	modelLists = flag.Int("model.lists", 200, "how many lists of operations the model and Redis are compared on")
	modelSeed  = flag.Uint64("model.seed", 1, "the seed of the first list")
)

// TestModelMatchesRedis plays random lists of operations on stratatest.Tier and
// on the tier of package redis with a real server, and compares all answers and
// messages. So the properties that the seeded schedules of the cache prove on
// the model hold on Redis, too.
//
// On Redis time passes by a script that makes everything in it older.
func TestModelMatchesRedis(t *testing.T) {
	r := servers.StartRedis(t)
	modelMatches(t, *modelLists, true, r.Client(t), r.Client(t), r.Client(t))
}

// TestModelMatchesRedisWithoutScripts does the same where programs may run no
// scripts. It does not compare how long an expired lease is good: a key may be
// remembered for longer.
func TestModelMatchesRedisWithoutScripts(t *testing.T) {
	r := servers.StartRedis(t)
	root := r.Client(t)
	err := root.Do(t.Context(), "ACL", "SETUSER", "plain", "on", ">secret", "~*", "&*", "+@all", "-@scripting").Err()
	if err != nil {
		t.Fatal(err)
	}
	plain := func(o *redis.Options) { o.Username, o.Password = "plain", "secret" }
	modelMatches(t, *modelLists/4, false, root, r.Client(t, plain), r.Client(t, plain))
}

// modelMatches compares the model with tiers on two clients. root may do
// everything.
func modelMatches(t *testing.T, lists int, late bool, root *redis.Client, clients ...*redis.Client) {
	if testing.Short() {
		lists = min(lists, 20)
	}
	var all strings.Builder
	for seed := *modelSeed; seed < *modelSeed+uint64(lists); seed++ {
		steps := randomSteps(seed)
		differ := func(steps []step) (int, []string, []string) {
			model := onModel(t, late, steps)
			real := play(t, redisWorld(t, root, clients), late, steps)
			for i := range steps {
				if model[i] != real[i] {
					return i, model, real
				}
			}
			return -1, model, real
		}
		at, model, _ := differ(steps)
		if at >= 0 {
			steps = shortest(steps[:at+1], func(steps []step) bool { i, _, _ := differ(steps); return i >= 0 })
			at, model, real := differ(steps)
			if at < 0 {
				t.Fatalf("seed %d: the model and Redis differ, but not each time", seed)
			}
			for i := range at {
				t.Logf("%v\n\t-> %s", steps[i], model[i])
			}
			t.Fatalf("seed %d: %v\n\tmodel -> %s\n\tRedis -> %s", seed, steps[at], model[at], real[at])
		}
		all.WriteString(strings.Join(model, "\n"))
	}
	for _, answer := range modelAnswers {
		if !strings.Contains(all.String(), answer) {
			t.Errorf("no list led to the answer %q", answer)
		}
	}
}

// modelAnswers must all have been given, or the lists try too little.
var modelAnswers = []string{ // read-only
	"granted", "busy", "on hold", "free", "stored", "refused", "extended", "renewed", "lost", "absent", "soft", "stale",
	"ahead of time", "dropped", "expired", "all dropped", "all expired", "tag dropped", "tag expired", "ended", "was none", "held until",
}

// shortest leaves out steps as long as the rest still fails, so that the
// reported list is short.
func shortest(steps []step, fails func([]step) bool) []step {
	for before := len(steps) + 1; before > len(steps); {
		before = len(steps)
		for i := len(steps) - 2; i >= 0; i-- {
			if without := slices.Delete(slices.Clone(steps), i, i+1); fails(without) {
				steps = without
			}
		}
	}
	return steps
}

// step is one operation. Rights and values are named by how many came after
// them, so that a step means the same on all tiers.
type step struct {
	op          string
	view        int
	keys        []string      // or tags
	nth         []int         // which right of each key to use, 0 is the newest
	wrong       bool          // use something like it instead
	id          int           // which value of the key to extend or refresh, 0 is the newest
	soft        bool          // of a drop
	drops       bool          // of a put
	fresh, left time.Duration // of a value; left also of a lease
	hold, token time.Duration // of a drop
}

func (s step) String() string {
	text := fmt.Sprintf("view %d: %s %q", s.view, s.op, s.keys)
	switch s.op {
	case "refresh":
		text += fmt.Sprintf(" value %d (wrong: %t) for %v", s.id, s.wrong, s.left)
	case "acquire", "acquire many", "age":
		text += fmt.Sprintf(" for %v", s.left)
	case "put":
		text += fmt.Sprintf(" under rights %v (wrong: %t), fresh %v, left %v, drops: %t", s.nth, s.wrong, s.fresh, s.left, s.drops)
	case "extend":
		text += fmt.Sprintf(" value %d under right %v (wrong: %t), fresh %v, left %v", s.id, s.nth, s.wrong, s.fresh, s.left)
	case "renew", "release":
		text += fmt.Sprintf(" right %v (wrong: %t) for %v", s.nth, s.wrong, s.left)
	case "drop":
		text += fmt.Sprintf(" soft %t, hold %v, token %v", s.soft, s.hold, s.token)
	case "drop all", "drop tags":
		text += fmt.Sprintf(" soft %t", s.soft)
	}
	return text
}

// The keys: some share a lane, and some are hard to write.
var (
	modelKeys = append(keysInOneLane(), "a", "{b}", "c d\r\n\x00=", "") // read-only
	modelTags = []string{"t", "u", "floor", " \r\n\x00"}                // read-only
)

// keysInOneLane returns two keys.
func keysInOneLane() []string {
	seen := map[uint16]string{}
	for i := 0; ; i++ {
		key := fmt.Sprint("k", i)
		lane := stratatest.NewTier().Lane(key)
		if other, ok := seen[lane]; ok {
			return []string{other, key}
		}
		seen[lane] = key
	}
}

// randomSteps draws a list. Lives end half an hour past the hour, and time
// passes by whole hours, so the ends of lives do not depend on the speed of a step.
func randomSteps(seed uint64) []step {
	r := rand.New(rand.NewPCG(seed, 0))
	ops := []string{
		"get", "get", "get", "acquire", "acquire", "acquire", "acquire", "acquire many", "acquire many", "refresh", "refresh", "refresh", "put", "put", "put", "put", "extend", "extend",
		"drop", "drop", "drop", "renew", "release", "release", "age", "age", "position", "tags", "drop tags", "drop all",
		"forget lane", "forget tags", "restart",
	}
	rare := map[string]int{"drop all": 3, "forget lane": 4, "forget tags": 4, "restart": 12}
	keys := modelKeys[:1+r.IntN(len(modelKeys))]
	life := func() time.Duration { return time.Duration(r.IntN(6))*time.Hour + 30*time.Minute }
	sometimes := func() time.Duration {
		if r.IntN(3) > 0 {
			return 0
		}
		return life()
	}
	steps := make([]step, 120)
	for i := range steps {
		op := ops[r.IntN(len(ops))]
		if n := rare[op]; n > 0 && r.IntN(n) > 0 {
			op = "acquire"
		}
		s := step{op: op, view: r.IntN(3), soft: r.IntN(2) == 0, wrong: r.IntN(12) == 0, id: r.IntN(5) / 3, left: life()}
		s.fresh = min(s.left, sometimes())
		if r.IntN(2) == 0 {
			s.fresh = s.left
		}
		if op == "put" && r.IntN(20) == 0 {
			s.fresh, s.left = 0, 0
		}
		s.drops = op == "put" && (i*7+int(seed))%5 == 0 // not drawn, so that older seeds keep their lists
		if op == "drop" {
			s.hold, s.token = sometimes(), sometimes()
		}
		if op == "age" {
			s.left = time.Duration(1+r.IntN(3)) * time.Hour
		}
		from := keys
		if strings.Contains(op, "tags") {
			from = modelTags
		}
		n := 1
		if op == "acquire many" || slices.Contains([]string{"get", "put", "drop", "tags", "drop tags"}, op) && r.IntN(4) == 0 {
			n = r.IntN(4)
		}
		for range n {
			s.keys = append(s.keys, from[r.IntN(len(from))])
			s.nth = append(s.nth, max(0, r.IntN(5)-2))
		}
		if i > 1 && (op == "extend" || op == "put" && n == 1) && r.IntN(3) > 0 {
			s.nth[0], s.id = 0, 0 // steps that belong together are rarely drawn together
			steps[i-1] = step{op: "acquire", view: s.view, keys: s.keys, left: life()}
			if op == "extend" {
				steps[i-2] = step{op: "drop", view: r.IntN(3), keys: s.keys, soft: true}
			}
		}
		steps[i] = s
	}
	return steps
}

// world is a tier with all events that can befall it. The programs on it see it
// by its views: two value types in one process, and another process.
type world struct {
	views      []remote.Tier
	bus        remote.Bus
	name       string
	age        func(d time.Duration) error
	forgetLane func(key string) error
	forgetTags func() error
	restart    func() error
}

// spaces returns the spaces of the views of a world.
func spaces(name string) []remote.Space {
	return []remote.Space{
		{Name: name, Schema: 1, Instance: 1}, {Name: name, Schema: 2, Instance: 2}, {Name: name, Schema: 1, Instance: 3},
	}
}

// onModel plays steps in a bubble, where time is free.
func onModel(t *testing.T, late bool, steps []step) (lines []string) {
	synctest.Test(t, func(t *testing.T) {
		tier, bus := stratatest.NewTier(), stratatest.NewBus()
		tier.Announce(bus)
		w := world{bus: bus, name: "model"}
		for _, s := range spaces(w.name) {
			w.views = append(w.views, tier.Bind(s))
		}
		own := w.views[0].(*stratatest.Tier)
		w.age = func(d time.Duration) error { time.Sleep(d); return nil } // in a bubble
		w.forgetLane = func(key string) error { own.ForgetLane(key); return nil }
		w.forgetTags = func() error { own.ForgetTags(); return nil }
		w.restart = func() error { own.Restart(); return nil }
		lines = play(t, w, late, steps)
	})
	return lines
}

// ageScript makes the entries of a name older, by the forms in which the tier
// keeps times: fresh and left of a state, until of a lease, a token and a hold.
const ageScript = `
local d = tonumber(ARGV[1])
local function older(n) return string.format('%d', tonumber(n) - d) end
for _, key in ipairs(redis.call('KEYS', ARGV[2])) do
  local ttl = redis.call('PTTL', key)
  if ttl < 0 then
    return redis.error_reply('entry without an end: ' .. key)
  end
  local f = redis.call('HGETALL', key)
  for i = 1, #f, 2 do
    local kind, text = string.sub(f[i], 1, 1), f[i + 1]
    local fresh, left, rest = string.match(text, '^(%d+) (%d+)( .*)$')
    local token, till, length = string.match(text, '^(%x+) (%d+)(.*)$')
    local hold, asked = string.match(text, '^(%d+)( %d+)$')
    if kind == 's' and fresh then
      if fresh ~= '0' then
        fresh = older(fresh)
      end
      redis.call('HSET', key, f[i], fresh .. ' ' .. older(left) .. rest)
    elseif (kind == 'l' or kind == 't') and token then
      redis.call('HSET', key, f[i], token .. ' ' .. older(till) .. length)
    elseif kind == 'h' and hold then
      redis.call('HSET', key, f[i], older(hold) .. asked)
    elseif kind ~= 'v' and kind ~= 'w' then
      return redis.error_reply('unknown field ' .. f[i] .. ': ' .. text)
    end
  end
  if ttl <= d then
    redis.call('DEL', key)
  else
    redis.call('PEXPIRE', key, ttl - d)
  end
end
return 1`

func redisWorld(t *testing.T, root *redis.Client, clients []*redis.Client) world {
	name := fmt.Sprintf("model-%x", rand.Uint64())
	w := world{bus: redis.NewBus(clients[0]), name: name}
	here, there := redis.NewTier(clients[0]), redis.NewTier(clients[1])
	for i, s := range spaces(name) {
		w.views = append(w.views, []*redis.Tier{here, here, there}[i].Bind(s))
	}
	do := func(args ...any) error { return root.Do(t.Context(), args...).Err() }
	w.age = func(d time.Duration) error {
		return do("EVAL", ageScript, 0, d.Milliseconds(), "strata:{"+name+":*}=*")
	}
	w.forgetLane = func(key string) error {
		return do("DEL", fmt.Sprintf("strata:{%s:%d}lane", name, w.views[0].(remote.Announcer).Lane(key)))
	}
	w.forgetTags = func() error { return do("DEL", "strata:{"+name+"}tags") }
	w.restart = func() error { return do("FLUSHALL") }
	return w
}

// place is where a value is kept.
type place struct {
	key    string
	schema uint64
}

func (s step) schema() uint64 { return spaces("")[s.view].Schema }

// player writes the results of steps so that they can be compared: random
// numbers are named in the order in which they appear, times are rounded up to
// half hours, and clocks count from the first since the last restart.
type player struct {
	testing.TB
	world
	rights map[string][]remote.Lease // by key, in order
	ids    map[place][]remote.ID     // of values put, in order
	names  map[any]string
	clock  *uint64              // from which others count
	lanes  []remote.LaneVersion // of the last position
	heard  chan remote.Message
	beats  int
	late   bool // use expired leases
	now    time.Duration
	ends   map[uint64]time.Duration // of leases
}

// play returns a line per step: its answers and its messages. Unless late is
// set, expired leases are not used.
func play(t *testing.T, w world, late bool, steps []step) (lines []string) {
	p := &player{
		TB: t, world: w, rights: map[string][]remote.Lease{}, ids: map[place][]remote.ID{},
		names: map[any]string{}, ends: map[uint64]time.Duration{}, late: late, heard: make(chan remote.Message, 100),
	}
	connected := make(chan struct{}, 100)
	stop := w.bus.Follow(w.name, func(e remote.Event) {
		switch e.State {
		case remote.Connected:
			connected <- struct{}{}
		case remote.Gap:
			t.Error("a gap on the bus")
		}
		for _, m := range e.Messages {
			p.heard <- m
		}
	})
	defer stop()
	select {
	case <-connected:
	case <-time.After(10 * time.Second):
		t.Fatal("the bus is not connected within 10s")
	}
	for _, s := range steps {
		for _, v := range w.views {
			v.Recheck()
		}
		answer, err := p.do(s, w.views[s.view])
		if err != nil {
			answer += " failed: " + err.Error()
		}
		lines = append(lines, answer+p.messages())
	}
	return lines
}

// do carries a step out.
func (p *player) do(s step, v remote.Tier) (answer string, err error) {
	ctx := p.Context()
	switch s.op {
	case "get":
		held, err := v.Get(ctx, s.keys)
		for _, h := range held {
			answer += p.held(h) + "; "
		}
		return answer, err
	case "acquire":
		held, lease, err := kit.Acquire(ctx, v, s.keys[0], s.left)
		return p.acquired(s, held, lease, 0), err
	case "refresh":
		held, lease, err := kit.Refresh(ctx, v, s.keys[0], p.id(s), s.left)
		early := lease.Grant == remote.Granted && held.Fresh > 0
		return p.acquired(s, held, lease, 0) + either(early, " ahead of time", ""), err
	case "acquire many":
		held, leases, err := kit.AcquireMany(ctx, v, s.keys, s.left)
		for i := range leases {
			answer += p.acquired(s, held[i], leases[i], i) + "; "
		}
		return answer, err
	case "put":
		return p.put(ctx, s, v)
	case "extend":
		refused, err := v.Extend(ctx, s.keys[0], s.fresh, s.left, p.right(s, 0), p.id(s))
		return either(refused, "refused", "extended"), err
	case "drop":
		return p.drop(ctx, s, v)
	case "renew":
		l := p.right(s, 0)
		kept, err := v.Renew(ctx, s.keys[0], l, s.left)
		if kept {
			p.ends[l.Token] = p.now + s.left
		}
		return either(kept, "renewed", "lost"), err
	case "release":
		return "", v.Release(ctx, s.keys[0], p.right(s, 0))
	case "drop all":
		return "", v.DropAll(ctx, s.soft)
	case "drop tags":
		return "", v.(remote.Tagger).DropTags(ctx, s.keys, s.soft)
	case "tags":
		tags, err := v.(remote.Tagger).Tags(ctx, s.keys)
		for _, tag := range tags {
			answer += fmt.Sprintf("dropped at %s, expired at %s; ", p.dropAt(tag.Dropped), p.dropAt(tag.Expired))
		}
		return answer, err
	case "position":
		position, err := v.(remote.Announcer).Position(ctx)
		return p.position(position), err
	default:
		return "", p.befall(s)
	}
}

// acquired writes the answer for the i-th key of a step.
func (p *player) acquired(s step, h remote.Held, l remote.Lease, i int) string {
	p.ends[l.Token] = p.now + s.left
	return p.held(h) + ", " + p.lease(s.keys[i], l)
}

// befall lets something happen to the store itself.
func (p *player) befall(s step) error {
	switch s.op {
	case "age":
		p.now += s.left
		return p.age(s.left)
	case "forget lane":
		return p.forgetLane(s.keys[0])
	case "forget tags":
		return p.forgetTags()
	case "restart":
		p.clock, p.lanes = nil, nil
		return p.restart()
	default:
		return errors.New("unknown step")
	}
}

func (p *player) put(ctx context.Context, s step, v remote.Tier) (answer string, err error) {
	puts := make([]remote.Put, len(s.keys))
	for i, key := range s.keys {
		data := fmt.Sprintf("%v under right %d", s.fresh, len(p.rights[key]))
		puts[i] = remote.Put{Key: key, Data: []byte(data), Fresh: s.fresh, Left: s.left, Lease: p.right(s, i), Drops: s.drops}
	}
	refused, err := v.Put(ctx, puts)
	for i, put := range puts {
		no := slices.Contains(refused, i)
		answer += either(no, "refused; ", "stored; ")
		if !no {
			at := place{put.Key, s.schema()}
			p.ids[at] = append(p.ids[at], remote.ID(put.Lease.Token))
		}
	}
	return answer, err
}

func (p *player) drop(ctx context.Context, s step, v remote.Tier) (answer string, err error) {
	drops := make([]remote.Drop, len(s.keys))
	for i, key := range s.keys {
		drops[i] = remote.Drop{Key: key, Soft: s.soft, Hold: s.hold, Token: s.token}
	}
	leases, err := v.Drop(ctx, drops)
	for i, lease := range leases {
		if s.token > 0 {
			answer += p.lease(s.keys[i], lease) + "; "
		} else if lease != (remote.Lease{}) {
			answer += "a lease that nobody asked for; "
		}
	}
	return answer, err
}

// right returns the right that a step uses for its i-th key.
func (p *player) right(s step, i int) remote.Lease {
	l := nth(p.rights[s.keys[i]], s.nth[i])
	end, lease := p.ends[l.Token]
	if s.wrong || lease && end <= p.now && !p.late {
		l.Token ^= 1 << 20
	}
	return l
}

// id returns the name of the value that a step is about.
func (p *player) id(s step) remote.ID {
	id := nth(p.ids[place{s.keys[0], s.schema()}], s.id)
	if s.wrong && s.nth[0] == 0 {
		id ^= 1
	}
	return id
}

// nth returns the element before the last n ones, or the first if there are
// fewer, or nothing.
func nth[T any](all []T, n int) (none T) {
	if len(all) == 0 {
		return none
	}
	return all[max(0, len(all)-1-n)]
}

func either(is bool, yes, no string) string {
	if is {
		return yes
	}
	return no
}

// name returns the name of a random number.
func (p *player) name(kind string, n any) string {
	if _, ok := p.names[n]; !ok {
		p.names[n] = fmt.Sprint(kind, len(p.names))
	}
	return p.names[n]
}

func (p *player) word(w remote.LaneVersion) string {
	if w.Count == 0 { // the model makes all lanes at once, Redis those with drops
		return "none"
	}
	return p.name("word ", w)
}

// at writes a tag clock.
func (p *player) at(clock uint64) string {
	if p.clock == nil {
		p.clock = &clock
	}
	return fmt.Sprint(int64(clock - *p.clock))
}

// dropAt writes the clock of the last drop of a tag, or never if it is zero or
// the clock from which the others count: a tier that knows of no drop answers with that one.
func (p *player) dropAt(clock uint64) string {
	if at := p.at(clock); clock != 0 && at != "0" {
		return at
	}
	return "never"
}

// coarse rounds up to half hours.
func coarse(d time.Duration) time.Duration {
	const half = 30 * time.Minute
	return (d + half - 1).Truncate(half)
}

func (p *player) held(h remote.Held) string {
	if h.Absent() {
		return either(h.Data == nil && h.Fresh <= 0 && !h.Soft, "absent", fmt.Sprintf("absent, but %+v", h))
	}
	data := "no data"
	if h.Data != nil {
		data = fmt.Sprintf("%q", h.Data)
	}
	state := fmt.Sprintf("fresh %v", coarse(h.Fresh))
	if h.Fresh <= 0 {
		state = either(h.Soft, "soft", "stale")
	}
	return fmt.Sprintf("%s by %s, %s, left %v", data, p.name("token ", uint64(h.ID)), state, coarse(h.Left))
}

func (p *player) lease(key string, l remote.Lease) string {
	grant := []string{"free", "granted", "busy", "on hold"}[l.Grant]
	if l.Token != 0 {
		p.rights[key] = append(p.rights[key], l)
		grant += " " + p.name("token ", l.Token)
	}
	return fmt.Sprintf("%s, wait %v, clock %s", grant, coarse(l.Wait), p.at(l.Clock))
}

func (p *player) position(w remote.Position) string {
	answer := fmt.Sprintf("%s, %d drops, %d expiries, clock %s, %d lanes", p.name("epoch ", w.Epoch), w.Drops, w.Expiries, p.at(w.Clock), len(w.Lanes))
	if slices.Contains(w.Lanes, remote.LaneVersion{}) {
		answer += ", one unknown"
	}
	used := map[uint16]bool{}
	for _, key := range modelKeys {
		lane := p.views[0].(remote.Announcer).Lane(key)
		used[lane] = true
		answer += fmt.Sprintf(", lane %d: %s", lane, p.word(w.Lanes[lane]))
	}
	for i := range p.lanes {
		if !used[uint16(i)] && p.lanes[i] != w.Lanes[i] {
			answer += fmt.Sprintf(", lane %d moved", i)
		}
	}
	p.lanes = w.Lanes
	return answer
}

// messages returns all messages announced so far. A heartbeat with a mark of
// its own comes behind them.
func (p *player) messages() (all string) {
	p.beats++
	mark := fmt.Sprint(p.beats)
	if err := p.bus.Publish(p.Context(), []remote.Message{{Name: p.world.name, Kind: remote.Beat, Key: mark}}); err != nil {
		p.Fatalf("Publish: %v", err)
	}
	for {
		select {
		case m := <-p.heard:
			if m.Kind == remote.Beat && m.Key == mark {
				return all
			}
			all += p.message(m)
		case <-time.After(10 * time.Second):
			p.Fatal("a message did not arrive within 10s")
		}
	}
}

func (p *player) message(m remote.Message) string {
	kinds := []string{"", "dropped", "expired", "all dropped", "all expired", "tag dropped", "tag expired", "ended", "beat"}
	text := fmt.Sprintf(" | %s %q by %d", kinds[m.Kind], m.Key, m.From)
	switch m.Kind {
	case remote.Dropped, remote.Expired:
		text += fmt.Sprintf(" in lane %d, was %s, is %s, %d on", m.Lane, p.word(m.Was), p.word(m.Is), m.Is.Count-m.Was.Count)
	case remote.TagDropped, remote.TagExpired:
		text += fmt.Sprintf(", was at %s, is at %s", p.at(m.Was.Count), p.at(m.Is.Count))
	case remote.AllDropped, remote.AllExpired:
		text += fmt.Sprintf(", the %d.", m.Is.Count)
	default:
		if m.Was != (remote.LaneVersion{}) || m.Is != (remote.LaneVersion{}) {
			text += " with words"
		}
	}
	if m.Hold > 0 {
		text += fmt.Sprintf(", held until %v", coarse(m.Hold))
	}
	return text
}
