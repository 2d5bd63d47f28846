package test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/strata-cache/strata/internal/cache/entryrules"
	"github.com/strata-cache/strata/internal/redis/layout"
	"github.com/strata-cache/strata/internal/testing/kit"
	"github.com/strata-cache/strata/internal/testing/servers"
	"github.com/strata-cache/strata/redis"
	"github.com/strata-cache/strata/remote"
)

// TestRedisDecidesAsEntryrules writes random states of an entry into a real
// Redis, also states that can only come from a clock set back. It carries out
// an operation there, and compares the stored state and the answer with
// entryrules: with scripts and without.
func TestRedisDecidesAsEntryrules(t *testing.T) {
	r := servers.StartRedis(t)
	root := r.Client(t)
	err := root.Do(t.Context(), "ACL", "SETUSER", "plain", "on", ">secret", "~*", "&*", "+@all", "-@scripting").Err()
	if err != nil {
		t.Fatal(err)
	}
	plain := func(o *redis.Options) { o.Username, o.Password = "plain", "secret" }
	steps := 3000
	if testing.Short() {
		steps = 400
	}
	for name, c := range map[string]*redis.Client{"with scripts": r.Client(t), "without": r.Client(t, plain)} {
		t.Run(name, func(t *testing.T) {
			b := newWorkbench(t, root, c)
			b.quiet = name == "with scripts"
			for seed := range uint64(steps) {
				b.step(seed)
			}
			for _, answer := range []string{"granted", "free", "busy", "on hold", "done", "refused"} {
				if b.answers[answer] == 0 {
					t.Errorf("no step led to the answer %q", answer)
				}
			}
		})
	}
}

// workbench is one key, and a tier through which it is changed.
type workbench struct {
	*testing.T
	root      *redis.Client
	tier      remote.Tier
	names     layout.Names
	namespace string
	answers   map[string]int
	quiet     bool // drops may be quiet: without scripts they are full drops
}

const workbenchKey = "k"

func newWorkbench(t *testing.T, root, c *redis.Client) *workbench {
	s := remote.Space{Name: fmt.Sprintf("decide-%x", rand.Uint64()), Schema: 1, Instance: 1}
	b := &workbench{T: t, root: root, tier: redis.NewTier(c).Bind(s), names: layout.NewNames(s, 0), answers: map[string]int{}}
	_, l, err := kit.Acquire(t.Context(), b.tier, "another", time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	b.namespace = l.State
	return b
}

func (b *workbench) do(args ...any) redis.Reply {
	b.Helper()
	v := b.root.Do(b.Context(), args...)
	if err := v.Err(); err != nil {
		b.Fatalf("%v: %v", args, err)
	}
	return v
}

// now is the server's clock in ms.
func (b *workbench) now() int64 {
	b.Helper()
	var ms int64
	for i, v := range b.do("TIME").All() { // seconds and microseconds
		n, err := v.Int()
		if err != nil {
			b.Fatal(err)
		}
		ms += []int64{n * 1000, n / 1000}[i]
	}
	return ms
}

const hour = int64(time.Hour / time.Millisecond)

// randomState draws a state. Times are whole hours away from now.
func (b *workbench) randomState(r *rand.Rand, now int64) (s entryrules.State) {
	end := func() int64 { return now + int64(r.IntN(6)-2)*hour + hour/2 }
	if r.IntN(3) == 0 {
		s.Hold = entryrules.Hold{Until: end(), Length: int64(1+r.IntN(3)) * hour}
	}
	if r.IntN(3) == 0 {
		s.Token = entryrules.Token{Token: 8, Until: end()}
		if r.IntN(2) == 0 {
			s.Token.Token, s.Token.Quiet = 10, true
		}
	}
	for _, schema := range []string{"1", "2", "3"}[:1+r.IntN(3)] {
		slot := entryrules.Slot{Schema: schema}
		switch kind := r.IntN(6); kind {
		case 0:
			slot.Value.Unreadable = true
		case 1, 2, 3, 4:
			slot.Value = entryrules.Value{ID: 6, Left: end(), Soft: kind == 4, Namespace: b.namespace}
			slot.Value.Fresh = slot.Value.Left - int64(r.IntN(2)*r.IntN(5))*hour
			if kind == 3 {
				slot.Value.Namespace = []string{b.namespace + "1", "0" + b.namespace}[r.IntN(2)]
			}
		}
		// A drop that begins a hold voids all leases, and none is given during it.
		if r.IntN(2) == 0 && s.Hold.Left(now) == 0 {
			slot.Lease = entryrules.Lease{Token: 5, Until: end(), Length: int64(1+r.IntN(4)) * hour}
			slot.Awaited = r.IntN(2) == 0
		}
		s.Slots = append(s.Slots, slot)
	}
	if s.Empty() {
		return entryrules.State{}
	}
	s.Until = now + int64(1+r.IntN(8))*hour
	return s
}

// write stores a state, as the scripts do.
func (b *workbench) write(s entryrules.State, now int64) {
	b.Helper()
	entry := b.names.Entry(workbenchKey)
	b.do("DEL", entry)
	set := []any{"HSET", entry}
	for _, slot := range s.Slots {
		if slot.Value.Unreadable {
			set = append(set, "s"+slot.Schema, "not one of ours", "v"+slot.Schema, "x")
		} else if slot.Value.ID != 0 {
			set = append(set, "s"+slot.Schema, layout.AppendState(nil, &slot.Value), "v"+slot.Schema, "data of "+slot.Schema)
		}
		if l := slot.Lease; l.Token != 0 {
			set = append(set, "l"+slot.Schema, fmt.Sprintf("%x %d %d", l.Token, l.Until, l.Length))
		}
		if slot.Awaited {
			set = append(set, "w"+slot.Schema, 1)
		}
	}
	if s.Token.Token != 0 {
		set = append(set, "t", tokenField(s.Token))
	}
	if s.Hold.Length != 0 {
		set = append(set, "h", fmt.Sprintf("%d %d", s.Hold.Until, s.Hold.Length))
	}
	if len(set) > 2 {
		b.do(set...)
		b.do("PEXPIRE", entry, s.Until-now)
	}
}

// tokenField is the field of a token. A quiet one has a 0 in front.
func tokenField(t entryrules.Token) string {
	text := fmt.Sprintf("%x %d", t.Token, t.Until)
	if t.Quiet {
		return "0" + text
	}
	return text
}

// read returns the stored state of the entry.
func (b *workbench) read(now int64) (s entryrules.State) {
	b.Helper()
	entry := b.names.Entry(workbenchKey)
	fields := b.do("HGETALL", entry)
	for n, v := range fields.Pairs() {
		name, err1 := n.String()
		text, err2 := v.String()
		if err := errors.Join(err1, err2); err != nil {
			b.Fatal(err)
		}
		slot := func() *entryrules.Slot {
			i := slices.IndexFunc(s.Slots, func(slot entryrules.Slot) bool { return slot.Schema == name[1:] })
			if i < 0 {
				s.Slots = append(s.Slots, entryrules.Slot{Schema: name[1:]})
				i = len(s.Slots) - 1
			}
			return &s.Slots[i]
		}
		var err error
		switch name[:1] {
		case "v":
			slot().Value.Data = []byte(text)
		case "s":
			v, ok := layout.ParseState([]byte(text), "")
			v.Unreadable, v.Data = !ok, slot().Value.Data
			slot().Value = v
		case "l":
			l := &slot().Lease
			_, err = fmt.Sscanf(text, "%x %d %d", &l.Token, &l.Until, &l.Length)
		case "w":
			slot().Awaited = true
		case "t":
			_, err = fmt.Sscanf(text, "%x %d", &s.Token.Token, &s.Token.Until)
			s.Token.Quiet = text[0] == '0'
		case "h":
			_, err = fmt.Sscanf(text, "%d %d", &s.Hold.Until, &s.Hold.Length)
		default:
			b.Fatalf("unknown field %q", name)
		}
		if err != nil {
			b.Fatalf("field %s: %q: %v", name, text, err)
		}
	}
	if fields.Len() > 0 {
		ttl, err := b.do("PTTL", entry).Int()
		if err != nil || ttl < 0 {
			b.Fatalf("the entry has no end: %d, %v", ttl, err)
		}
		s.Until = now + ttl
	}
	return s
}

// describe writes a state down so that states look alike if they differ only by
// seconds, by the length of a hold, or by a hold that is over.
func describe(s entryrules.State, now int64) string {
	coarse := func(t int64) int64 { return (t - now + 5*60_000) / (10 * 60_000) }
	var lines []string
	for _, slot := range s.Slots {
		v := slot.Value
		if v.Unreadable {
			v = entryrules.Value{Unreadable: true}
		}
		line := fmt.Sprintf("%s: id %x soft %t of %q unreadable %t %q", slot.Schema, v.ID, v.Soft, v.Namespace, v.Unreadable, v.Data)
		if v.ID != 0 {
			line += fmt.Sprintf(" left %d", coarse(v.Left))
		}
		if v.ID != 0 && !v.Soft {
			line += fmt.Sprintf(" fresh %d", coarse(v.Fresh))
		}
		if slot.Lease.Token != 0 {
			line += fmt.Sprintf(" lease %x %d of %d", slot.Lease.Token, coarse(slot.Lease.Until), slot.Lease.Length)
		}
		lines = append(lines, line+fmt.Sprintf(" awaited %t", slot.Awaited))
	}
	if s.Token.Token != 0 {
		lines = append(lines, fmt.Sprintf("token %x %d quiet %t", s.Token.Token, coarse(s.Token.Until), s.Token.Quiet))
	}
	if left := s.Hold.Left(now); left > 5000 {
		lines = append(lines, fmt.Sprintf("hold %d", coarse(now+left)))
	}
	if len(lines) > 0 {
		lines = append(lines, fmt.Sprintf("until %d", coarse(s.Until)))
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n\t")
}

// step compares one operation on one state.
func (b *workbench) step(seed uint64) {
	b.Helper()
	r := rand.New(rand.NewPCG(seed, 1))
	now := b.now()
	before := b.randomState(r, now)
	b.write(before, now)
	op, answer := b.carryOut(r)
	before = withData(before)
	want, a := entryrules.Decide(before, op, entryrules.Clock{Now: now, Slack: 1000})
	wanted := b.describeAnswer(op, a, now)
	if answer != wanted {
		b.Fatalf("seed %d: %+v on\n\t%s\nis answered %s\nwant        %s", seed, op, describe(before, now), answer, wanted)
	}
	if got, want := describe(b.read(now), now), describe(want, now); got != want {
		b.Fatalf("seed %d: %+v on\n\t%s\nleaves\n\t%s\nwant\n\t%s", seed, op, describe(before, now), got, want)
	}
}

// withData gives the values of a state the data that write stores.
func withData(s entryrules.State) entryrules.State {
	for i := range s.Slots {
		if v := &s.Slots[i].Value; v.ID != 0 {
			v.Data = []byte("data of " + s.Slots[i].Schema)
		}
	}
	return s
}

func (b *workbench) count(answer string) string {
	b.answers[answer]++
	return answer
}

func (b *workbench) done(done bool) string {
	if done {
		return b.count("done")
	}
	return b.count("refused")
}

func (b *workbench) grant(g remote.Grant, wait, left, fresh time.Duration, soft, all bool, data []byte) string {
	grant := b.count([]string{"free", "granted", "busy", "on hold"}[g])
	const coarse = 10 * time.Minute
	return fmt.Sprint(grant, " wait ", wait.Round(coarse), " left ", left.Round(coarse), " fresh ", fresh.Round(coarse), " soft ", soft, all, fmt.Sprintf(" %q", data))
}

// describeAnswer writes down an answer of entryrules.
func (b *workbench) describeAnswer(op entryrules.Operation, a entryrules.Answer, now int64) string {
	if _, ok := op.(entryrules.Release); ok {
		return "" // the caller is not told
	}
	acquire, ok := op.(entryrules.Acquire)
	if !ok {
		return b.done(a.Done)
	}
	v := a.Held.Read(acquire.Namespace, now)
	if v.ID == 0 {
		a.Held.Data = nil
	}
	ms := func(n int64) time.Duration { return time.Duration(n) * time.Millisecond }
	return b.grant(a.Grant, ms(a.Wait), ms(v.Left), ms(v.Fresh), v.Soft, v.All, a.Held.Data)
}

// carryOut draws an operation, carries it out on the tier, and returns it with
// the answer.
func (b *workbench) carryOut(r *rand.Rand) (op entryrules.Operation, answer string) {
	b.Helper()
	ctx := context.Background()
	life := time.Duration(r.IntN(7))*time.Hour + 20*time.Minute
	l := remote.Lease{Token: []uint64{5, 8, 10, 77}[r.IntN(10)/3], State: b.namespace}
	id := []uint64{0, 6, 7}[r.IntN(3)]
	ms := life.Milliseconds()
	var err error
	switch r.IntN(9) {
	case 0, 1, 2:
		h, l, err := kit.Refresh(ctx, b.tier, workbenchKey, remote.ID(id), life)
		if err != nil {
			b.Fatal(err)
		}
		answer = b.grant(l.Grant, l.Wait, h.Left, h.Fresh, h.Soft, h.All, h.Data)
		return entryrules.Acquire{Schema: "1", Token: l.Token, Length: ms, Namespace: b.namespace, ID: id}, answer
	case 3, 4, 5:
		left, drops := life, r.IntN(4) == 0
		// A drop that was to be quiet may have been a full one.
		l.Quiet = l.Token == 10 || l.Token == 8 && r.IntN(2) == 0
		if r.IntN(6) == 0 {
			left = 0
		}
		refused, failed := b.tier.Put(ctx, []remote.Put{{Key: workbenchKey, Data: []byte("new"), Fresh: left / 2, Left: left, Lease: l, Drops: drops}})
		err, answer = failed, b.done(len(refused) == 0)
		op = entryrules.Put{
			Schema: "1", Token: l.Token, Fresh: left.Milliseconds() / 2, Left: left.Milliseconds(), Namespace: l.State, Data: []byte("new"), Drops: drops,
			Quiet: l.Quiet,
		}
	case 6:
		d := remote.Drop{Key: workbenchKey, Soft: r.IntN(3) > 0}
		for _, p := range []*time.Duration{&d.Left, &d.Hold, &d.Token} {
			if r.IntN(3) == 0 {
				*p = time.Duration(r.IntN(5))*time.Hour + 10*time.Minute
			}
		}
		if r.IntN(2) == 0 {
			d = remote.Drop{Key: workbenchKey, Token: d.Token, Quiet: true}
		}
		var leases []remote.Lease
		leases, err = b.tier.Drop(ctx, []remote.Drop{d})
		answer = b.done(err == nil)
		op = entryrules.Drop{
			Soft: d.Soft, Left: d.Left.Milliseconds(), Hold: d.Hold.Milliseconds(), Token: leases[0].Token, Life: d.Token.Milliseconds(),
			Quiet: d.Quiet && b.quiet,
		}
	case 7:
		refused, failed := b.tier.Extend(ctx, workbenchKey, life/2, life, l, remote.ID(id))
		err, answer = failed, b.done(!refused)
		op = entryrules.Extend{Schema: "1", Token: l.Token, ID: id, Fresh: ms / 2, Left: ms, Namespace: l.State}
	default:
		if r.IntN(2) == 0 {
			kept, failed := b.tier.Renew(ctx, workbenchKey, l, life)
			err, answer = failed, b.done(kept)
			op = entryrules.Renew{Schema: "1", Token: l.Token, Length: ms}
			break
		}
		err = b.tier.Release(ctx, workbenchKey, l)
		op = entryrules.Release{Schema: "1", Token: l.Token}
	}
	if err != nil {
		b.Fatal(err)
	}
	return op, answer
}
