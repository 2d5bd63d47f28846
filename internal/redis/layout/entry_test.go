package layout_test

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/strata-cache/strata/internal/cache/entryrules"
	"github.com/strata-cache/strata/internal/redis/layout"
	"github.com/strata-cache/strata/internal/redis/resp"
	"github.com/strata-cache/strata/internal/testing/kit"
	"github.com/strata-cache/strata/remote"
)

// server is a Redis with one entry and one lane, as far as operations on an entry
// need it. Its clock stands still.
type server struct {
	now       int64
	fields    map[string]string
	until     int64 // of the entry, zero for no end
	lane      string
	published []string
	queue     [][]string
	multi     bool
	changed   bool   // since WATCH
	meanwhile func() // happens before EXEC
	trips     int
}

// ask implements layout.Ask.
func (s *server) ask(b *layout.Batch) ([]resp.Value, error) {
	s.trips++
	commands := resp.NewReader(bytes.NewReader(b.Text), resp.Limits{})
	var out []byte
	for range b.N {
		args, err := commands.ReadCommand()
		if err != nil {
			return nil, err
		}
		texts := make([]string, len(args))
		for i, a := range args {
			texts[i] = string(a)
		}
		out = s.reply(out, texts)
	}
	r := resp.NewReader(bytes.NewReader(out), resp.Limits{})
	replies := make([]resp.Value, b.N)
	for i := range replies {
		v, err := r.Read()
		if err != nil {
			return nil, err
		}
		replies[i] = v
	}
	return replies, nil
}

// reply appends the reply to a command.
func (s *server) reply(dst []byte, args []string) []byte {
	switch args[0] {
	case "WATCH", "UNWATCH":
		s.changed = false
	case "MULTI":
		s.multi, s.queue = true, nil
	case "EXEC":
		if s.meanwhile != nil {
			s.meanwhile()
		}
		s.multi = false
		if s.changed {
			return append(dst, "*-1\r\n"...)
		}
		dst = resp.AppendArray(dst, len(s.queue))
		for _, command := range s.queue {
			dst = s.run(dst, command)
		}
		return dst
	default:
		if s.multi {
			s.queue = append(s.queue, args)
			return resp.AppendStatus(dst, "QUEUED")
		}
		return s.run(dst, args)
	}
	return resp.AppendStatus(dst, "OK")
}

func (s *server) run(dst []byte, args []string) []byte {
	switch args[0] {
	case "HMGET":
		dst = resp.AppendArray(dst, len(args)-2)
		for _, name := range args[2:] {
			dst = appendText(dst, s.fields, name)
		}
		return dst
	case "HKEYS":
		dst = resp.AppendArray(dst, len(s.fields))
		for name := range s.fields {
			dst = resp.AppendString(dst, name)
		}
		return dst
	case "GET":
		return appendText(dst, map[string]string{args[1]: s.lane}, args[1])
	case "PTTL":
		switch {
		case len(s.fields) == 0:
			return resp.AppendInt(dst, -2)
		case s.until == 0:
			return resp.AppendInt(dst, -1)
		}
		return resp.AppendInt(dst, s.until-s.now)
	case "TIME":
		dst = resp.AppendString(resp.AppendArray(dst, 2), strconv.FormatInt(s.now/1000, 10))
		return resp.AppendString(dst, strconv.FormatInt(s.now%1000*1000, 10))
	}
	s.write(args)
	return resp.AppendInt(dst, 1)
}

func appendText(dst []byte, of map[string]string, name string) []byte {
	if text, ok := of[name]; ok {
		return resp.AppendString(dst, text)
	}
	return resp.AppendNull(dst)
}

func (s *server) write(args []string) {
	switch args[0] {
	case "HSET":
		for i := 2; i < len(args); i += 2 {
			s.fields[args[i]] = args[i+1]
		}
	case "HDEL":
		for _, name := range args[2:] {
			delete(s.fields, name)
		}
	case "DEL":
		clear(s.fields)
	case "PEXPIRE":
		life, _ := strconv.ParseInt(args[2], 10, 64)
		s.until = s.now + life
	case "SET":
		s.lane = args[2]
	case "PUBLISH":
		s.published = append(s.published, args[2])
	default:
		panic("unknown command " + args[0])
	}
	if len(s.fields) == 0 {
		s.until = 0
	}
}

// fieldsOf are the fields of a state, as package layout describes them.
func fieldsOf(s entryrules.State) map[string]string {
	fields := map[string]string{}
	for _, slot := range s.Slots {
		if v := slot.Value; v.ID != 0 {
			fresh := v.Fresh
			if v.Soft {
				fresh = 0
			}
			fields["s"+slot.Schema] = fmt.Sprintf("%d %d %x %s", fresh, v.Left, v.ID, v.Namespace)
			fields["v"+slot.Schema] = string(v.Data)
		}
		if slot.Value.Unreadable {
			fields["s"+slot.Schema], fields["v"+slot.Schema] = "foreign", "foreign"
		}
		if l := slot.Lease; l.Token != 0 {
			fields["l"+slot.Schema] = fmt.Sprintf("%x %d %d", l.Token, l.Until, l.Length)
		}
		if slot.Awaited {
			fields["w"+slot.Schema] = "1"
		}
	}
	if s.Token.Token != 0 {
		fields["t"] = fmt.Sprintf("%x %d", s.Token.Token, s.Token.Until)
	}
	if s.Hold.Length != 0 {
		fields["h"] = fmt.Sprintf("%d %d", s.Hold.Until, s.Hold.Length)
	}
	return fields
}

// draw returns a random operation of the value type 1.
func draw(r *rand.Rand, next uint64) entryrules.Operation {
	life, id := int64(r.IntN(50)), uint64(1+r.IntN(int(next)))
	recent := max(1, next-uint64(r.IntN(4)))
	data := fmt.Appendf(nil, "data %d", next)
	switch r.IntN(8) {
	case 0, 1:
		return entryrules.Acquire{Schema: "1", Token: next, Length: life, Namespace: "e.0.0", ID: id, Latest: []int64{0, 1, 1 << 50}[r.IntN(3)]}
	case 2, 3:
		return entryrules.Put{Schema: "1", Token: recent, Fresh: life / 2, Left: life, Namespace: "e.0.0", Data: data, Drops: r.IntN(4) == 0}
	case 4:
		return entryrules.Drop{Soft: r.IntN(3) > 0, Left: int64(r.IntN(30)), Hold: int64(r.IntN(2) * r.IntN(30)), Token: next * uint64(r.IntN(2)), Life: life}
	case 5:
		return entryrules.Extend{Schema: "1", Token: recent, ID: id, Fresh: life / 2, Left: life, Namespace: "e.0.1"}
	case 6:
		return entryrules.Release{Schema: "1", Token: recent}
	}
	return entryrules.Renew{Schema: "1", Token: recent, Length: life}
}

// others returns a slot of another value type, sometimes with something
// unreadable.
func others(r *rand.Rand, now int64) entryrules.Slot {
	slot := entryrules.Slot{Schema: strconv.Itoa(2 + r.IntN(2)), Awaited: r.IntN(2) == 0}
	if r.IntN(2) == 0 {
		slot.Lease = entryrules.Lease{Token: 1 << 40, Until: now + int64(r.IntN(20)), Length: 20}
	}
	switch r.IntN(3) {
	case 0:
		slot.Value.Unreadable = true
	case 1:
		slot.Value = entryrules.Value{ID: 1 << 41, Fresh: now + 1, Left: now + int64(r.IntN(20)), Namespace: "e.0.0", Data: []byte("another's")}
	}
	return slot
}

// TestDecisionIsWrittenAsItWasMade plays random operations, and compares the
// fields of the entry, its end and the published message with the decision.
func TestDecisionIsWrittenAsItWasMade(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	names := layout.NewNames(remote.Space{Name: "n", Schema: 1}, 0)
	s := &server{now: 1_000_000, fields: map[string]string{}}
	e := layout.Entry{Ask: s.ask, Names: &names, Key: "k"}
	var want entryrules.State
	for next := uint64(1); next < uint64(kit.Rounds(20_000)); next++ {
		if r.IntN(10) == 0 { // another type has been at work
			slot := others(r, s.now)
			want.Slots = append(slices.DeleteFunc(slices.Clone(want.Slots), func(old entryrules.Slot) bool { return old.Schema == slot.Schema }), slot)
			if want.Until = max(want.Until, s.now+30); want.Empty() {
				want = entryrules.State{}
			}
			s.fields, s.until = fieldsOf(want), want.Until
		}
		op, before := draw(r, next), want
		e.Nonce = strconv.FormatUint(next, 16)
		lane := s.lane
		s.published, s.trips = nil, 0
		got, err := e.Do(op)
		if err != nil {
			t.Fatalf("%+v: %v", op, err)
		}
		var a entryrules.Answer
		want, a = entryrules.Decide(before, op, entryrules.Clock{Now: s.now, Slack: 1000})
		if got.Done != a.Done || got.Grant != a.Grant || got.Wait != a.Wait || got.Late != a.Late || string(got.Held.Data) != string(a.Held.Data) {
			t.Fatalf("%+v of %+v: answer %+v, want %+v", op, before, got, a)
		}
		if wanted := fieldsOf(want); !maps.Equal(s.fields, wanted) || s.until != want.Until {
			t.Fatalf("%+v of %+v leaves\n\t%v until %d, want\n\t%v until %d", op, before, s.fields, s.until, wanted, want.Until)
		}
		if told, wanted := strings.Join(s.published, "\n"), announcement(&names, a, lane, s.lane); told != wanted {
			t.Fatalf("%+v publishes %q, want %q", op, told, wanted)
		}
		if s.trips > 3 {
			t.Fatalf("%+v took %d round trips", op, s.trips)
		}
		s.pass(int64(r.IntN(15)))
	}
}

// pass lets time pass.
func (s *server) pass(ms int64) {
	s.now += ms
	if s.until != 0 && s.until <= s.now {
		clear(s.fields)
		s.until = 0
	}
}

// announcement returns the message to publish when a lane moves between
// versions.
func announcement(names *layout.Names, a entryrules.Answer, was, is string) string {
	switch a.Announce {
	case remote.Ended:
		return names.Ended + "k"
	case remote.Dropped, remote.Expired:
		if was == "" {
			was = "0.0"
		}
		return fmt.Sprintf("%s%s %s %d k", names.Dropped("k", a.Announce == remote.Expired), was, is, a.Hold)
	}
	return ""
}

// TestRightIsVoidedBetweenReadAndWrite has another instance drop the key after a
// Put has read it: the Put is tried again, and refused.
func TestRightIsVoidedBetweenReadAndWrite(t *testing.T) {
	names := layout.NewNames(remote.Space{Name: "n", Schema: 1}, 0)
	s := &server{now: 1_000_000, fields: map[string]string{"l1": "9 1001000 1000"}, until: 1_001_000}
	s.meanwhile = func() {
		clear(s.fields)
		s.changed, s.meanwhile = true, nil
	}
	a, err := layout.Entry{Ask: s.ask, Names: &names, Key: "k", Nonce: "1"}.Do(entryrules.Put{Schema: "1", Token: 9, Left: 1000})
	if err != nil || a.Done || len(s.fields) > 0 {
		t.Errorf("%+v, %v; %v is stored, want nothing", a, err, s.fields)
	}
}
