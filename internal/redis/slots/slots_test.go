package slots_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/strata-cache/strata/internal/redis/resp"
	"github.com/strata-cache/strata/internal/redis/slots"
)

var asked = slots.Asked{Host: "seed"} // read-only

func TestSlotsAreThoseThatServersCount(t *testing.T) {
	for key, want := range map[string]int{ // by CLUSTER KEYSLOT
		"": 0, "123456789": 12739, "foo": 12182, "user1000": 3443, "{user1000}.following": 3443,
		"foo{}{bar}": 8363, "foo{{bar}}zap": 4015, "foo{bar}{zap}": 5061, "a{": 14311, "\xff\x00": 1023,
	} {
		if got := slots.Of(key); got != want {
			t.Errorf("slot of %q is %d, want %d", key, got, want)
		}
	}
	if slots.Of("{bar}") != slots.Of("foo{bar}{zap}") || slots.Of("{bar") != slots.Of("foo{{bar}}zap") {
		t.Error("the part in braces does not decide")
	}
}

// reply parses bytes as the reply of a server.
func reply(t testing.TB, raw string) resp.Value {
	t.Helper()
	v, err := resp.NewReader(strings.NewReader(raw), resp.Limits{}).Read()
	if err != nil {
		t.Fatalf("%q: %v", raw, err)
	}
	return v
}

// wire writes a reply.
func wire(b []byte, v any) []byte {
	switch v := v.(type) {
	case nil:
		return resp.AppendNull(b)
	case int:
		return resp.AppendInt(b, int64(v))
	case string:
		return resp.AppendString(b, v)
	case object:
		b = resp.AppendMap(b, len(v)/2)
		for _, e := range v {
			b = wire(b, e)
		}
		return b
	case []any:
		b = resp.AppendArray(b, len(v))
		for _, e := range v {
			b = wire(b, e)
		}
		return b
	}
	panic(fmt.Sprintf("%T", v))
}

// object is a map in RESP3.
type object []any

// list is an object in RESP2: an array.
func (o object) list() []any { return o }

func server(host any, port int, role, health string) object {
	return object{"id", "0", "port", port, "ip", "10.0.0.9", "endpoint", host, "role", role, "replication-offset", 0, "health", health}
}

func shard(ranges []any, nodes ...any) object {
	return object{"slots", ranges, "nodes", nodes}
}

// whole describes a Map: its shards with their slots.
func whole(m *slots.Map) string {
	var out []string
	for i, s := range m.Shards {
		n := 0
		for slot := range slots.Count {
			if m.Shard(slot) == i {
				n++
			}
		}
		out = append(out, fmt.Sprintf("%s%v:%d", s.Primary, s.Replicas, n))
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}

func TestTopologyIsReadInBothForms(t *testing.T) {
	tlsNode := append(server("h1", 1, "master", "online"), "tls-port", 7)
	for _, c := range []struct {
		name string
		a    slots.Asked
		v    any
		want string
		old  bool // CLUSTER SLOTS
	}{
		{name: "shards", v: []any{
			shard([]any{0, 99, 200, 299}, server("h1", 1, "master", "online"), server("h2", 2, "replica", "online"), server("h3", 3, "replica", "fail")),
			shard([]any{100, 199}, server("h4", 4, "master", "online")),
		}, want: "h1:1[h2:2]:200 h4:4[]:100"},
		{name: "shards in RESP2", v: []any{shard([]any{0, 99}, server("h1", 1, "master", "online").list()).list()}, want: "h1:1[]:100"},
		{
			name: "a host that is not known", v: []any{shard([]any{0, 0}, server("", 1, "master", "online"), server("?", 2, "replica", "online"), server(nil, 3, "replica", "loading"))},
			want: "seed:1[10.0.0.9:2 seed:3]:1",
		},
		{name: "IPv6", v: []any{shard([]any{0, 0}, server("::1", 1, "master", "online"))}, want: "[::1]:1[]:1"},
		{name: "a failed primary beside its successor", v: []any{
			shard([]any{0, 9}, server("h2", 2, "master", "online")), shard([]any{}, server("h1", 1, "master", "fail")),
		}, want: "h2:2[]:10"},
		{name: "two primaries in a shard", v: []any{
			shard([]any{0, 9}, server("h1", 1, "master", "fail"), server("h2", 2, "master", "online"), server("h3", 3, "master", "online")),
		}, want: "h2:2[]:10"},
		{name: "a failed primary", v: []any{shard([]any{0, 9}, server("h1", 1, "master", "fail"))}, want: "h1:1[]:10"},
		{name: "no primary", v: []any{shard([]any{0, 9}, server("h1", 0, "master", "online")), shard([]any{10, 10}, server("h2", 2, "master", "online"))}, want: "h2:2[]:1"},
		{name: "ports for TLS", a: slots.Asked{TLS: true}, v: []any{shard([]any{0, 9}, tlsNode)}, want: "h1:7[]:10"},
		{name: "ports without TLS", v: []any{shard([]any{0, 9}, tlsNode)}, want: "h1:1[]:10"},

		{name: "slots", old: true, v: []any{
			[]any{0, 99, []any{"h1", 1, "id", []any{}}, []any{"h2", 2, "id"}}, []any{100, 199, []any{"h4", 4}}, []any{200, 299, []any{"h1", 1}},
		}, want: "h1:1[h2:2]:200 h4:4[]:100"},
		{name: "slots with hosts that are not known", old: true, v: []any{[]any{0, 0, []any{"", 1}, []any{nil, 2}, []any{"?", 3}, []any{"h", 0}}}, want: "seed:1[seed:2 seed:3]:1"},
		{name: "slots of nodes without a name", old: true, v: []any{
			[]any{0, 0, []any{"?", 1, "id", []any{"ip", "h1"}}, []any{"?", 2, "id", object{"ip", "h2"}}, []any{"?", 3, "id", []any{"ip", ""}}, []any{"", 4, "id", []any{"ip", "h4"}}},
		}, want: "h1:1[h2:2 seed:3 seed:4]:1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.a.Host = "seed"
			v := reply(t, string(wire(nil, c.v)))
			m, err := c.a.ParseShards(v)
			if c.old {
				m, err = c.a.ParseSlots(v)
			}
			if err != nil {
				t.Fatal(err)
			}
			if got := whole(m); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}

func TestTopologyOfAnotherShapeIsRefused(t *testing.T) {
	one := server("h1", 1, "master", "online")
	var crowd []any
	for range 5000 {
		crowd = append(crowd, one)
	}
	for name, v := range map[string]any{
		"no array": "x", "null": nil, "nothing": []any{}, "strings": []any{"a", "b"}, "no nodes": []any{object{"slots", []any{0, 1}}},
		"no slots": []any{object{"nodes", []any{one}}}, "half a range": []any{shard([]any{0}, one)},
		"too high": []any{shard([]any{0, slots.Count}, one)}, "negative": []any{shard([]any{-1, 5}, one)},
		"backwards": []any{shard([]any{9, 5}, one)}, "text": []any{shard([]any{"0", "5"}, one)},
		"twice": []any{shard([]any{0, 5, 5, 6}, one)}, "owned by two": []any{shard([]any{0, 5}, one), shard([]any{3, 4}, one)},
		"a crowd": []any{shard([]any{0, 5}, crowd...)}, "no node": []any{shard([]any{0, 5})},
		"bad port":  []any{shard([]any{0, 5}, server("h", 70000, "master", "online"))},
		"bad host":  []any{shard([]any{0, 5}, server("a b", 1, "master", "online"))},
		"long host": []any{shard([]any{0, 5}, server(strings.Repeat("h", 300), 1, "master", "online"))},
	} {
		if m, err := asked.ParseShards(reply(t, string(wire(nil, v)))); err == nil {
			t.Errorf("%s: accepted as %s", name, whole(m))
		}
	}
	for name, v := range map[string]any{
		"no array": 1, "nothing": []any{}, "no node": []any{[]any{0, 1}}, "text": []any{[]any{"0", 1, []any{"h", 1}}},
		"too high": []any{[]any{0, slots.Count, []any{"h", 1}}}, "owned by two": []any{[]any{0, 1, []any{"h", 1}}, []any{1, 1, []any{"g", 1}}},
		"a crowd":    []any{slices.Concat([]any{0, 1}, []any{[]any{"h", 1}}, slices.Repeat([]any{[]any{"g", 1}}, 5000))},
		"empty node": []any{[]any{0, 1, []any{}}}, "a string for a node": []any{[]any{0, 1, "h"}},
	} {
		if m, err := asked.ParseSlots(reply(t, string(wire(nil, v)))); err == nil {
			t.Errorf("%s: accepted as %s", name, whole(m))
		}
	}
}

func TestRedirectionsAreReadAsServersWriteThem(t *testing.T) {
	for text, want := range map[string]slots.Redirect{
		"MOVED 3999 127.0.0.1:6381":   {Slot: 3999, Addr: "127.0.0.1:6381"},
		"ASK 3999 127.0.0.1:6381":     {Ask: true, Slot: 3999, Addr: "127.0.0.1:6381"},
		"MOVED 0 :6381":               {Addr: "seed:6381"},
		"MOVED 16383 ?:1":             {Slot: 16383, Addr: "seed:1"},
		"MOVED 1 2001:db8::1:6381":    {Slot: 1, Addr: "[2001:db8::1]:6381"},
		"MOVED 1 [2001:db8::1]:6381":  {Slot: 1, Addr: "[2001:db8::1]:6381"},
		"MOVED 1 redis.example.org:1": {Slot: 1, Addr: "redis.example.org:1"},
		"MOVED 16384 h:1":             {}, "MOVED -1 h:1": {}, "MOVED x h:1": {}, "MOVED 1 h": {}, "MOVED 1 h:0": {}, "MOVED 1 h:99999": {},
		"MOVED 1": {}, "MOVED": {}, "MOVED 1 a b:1": {}, "ERR 1 h:1": {}, "": {}, "moved 1 h:1": {},
	} {
		code, rest, _ := strings.Cut(text, " ")
		got, ok := asked.ParseRedirect(code, rest)
		if ok != (want.Addr != "") || ok && got != want {
			t.Errorf("%q: %+v, %t; want %+v", text, got, ok, want)
		}
	}
}

func TestFirstKeyIsFoundWhereCommandsHaveIt(t *testing.T) {
	for command, want := range map[string]string{
		"GET k": "k", "SET k v": "k", "XNEWCMD k": "k", "PING": "", "PING k": "", "GET": "", "SPUBLISH ch m": "ch", "PUBLISH ch m": "ch",
		"EVAL script 2 k l a": "k", "EVALSHA d 0 a": "", "EVAL s x k": "", "EVAL s 1": "", "FCALL f 1 k": "k",
		"ZUNION 2 k l": "k", "LMPOP 1 k LEFT": "k", "BLMPOP 0 1 k LEFT": "k", "SINTERCARD 1": "",
		"XREAD COUNT 2 STREAMS k 0": "k", "XREADGROUP GROUP g c streams k >": "k", "XREAD COUNT 2": "", "XREAD STREAMS": "",
		"OBJECT ENCODING k": "k", "MEMORY USAGE k": "k", "MEMORY DOCTOR": "", "BITOP AND k l m": "k", "XGROUP CREATE k g $": "k",
		"MIGRATE h 1 k 0 5": "k", "CONFIG SET a b": "", "SCAN 0": "", "KEYS *": "", "INFO server": "",
	} {
		args := strings.Fields(command)
		got := ""
		if i := slots.FirstKey(args[0], len(args), func(i int) string { return args[i] }); i > 0 {
			got = args[i]
		}
		if got != want {
			t.Errorf("%s: key %q, want %q", command, got, want)
		}
	}
	args := []string{"MIGRATE", "h", "1", "", "0", "5", "KEYS", "k", "l"}
	if i := slots.FirstKey("MIGRATE", len(args), func(i int) string { return args[i] }); i != 7 {
		t.Errorf("MIGRATE of many: key at %d", i)
	}
}

func FuzzTopology(f *testing.F) {
	f.Add(wire(nil, []any{shard([]any{0, 99}, server("h1", 1, "master", "online"))}), "MOVED 1 h:1")
	f.Add(wire(nil, []any{[]any{0, 99, []any{"h1", 1}}}), "ASK 1 ::1:1")
	f.Fuzz(func(t *testing.T, raw []byte, text string) {
		code, rest, _ := strings.Cut(text, " ")
		if r, ok := asked.ParseRedirect(code, rest); ok && (r.Slot < 0 || r.Slot >= slots.Count || r.Addr == "") {
			t.Fatalf("%q: %+v", text, r)
		}
		v, err := resp.NewReader(strings.NewReader(string(raw)), resp.Limits{}).Read()
		if err != nil {
			return
		}
		for _, parse := range []func(resp.Value) (*slots.Map, error){asked.ParseShards, asked.ParseSlots} {
			m, err := parse(v)
			if err != nil {
				continue
			}
			for slot := range slots.Count {
				if i := m.Shard(slot); i >= len(m.Shards) || i >= 0 && m.Shards[i].Primary == "" {
					t.Fatalf("slot %d has shard %d of %d", slot, i, len(m.Shards))
				}
			}
		}
	})
}

func FuzzFirstKey(f *testing.F) {
	f.Add("EVAL s 1 k")
	f.Add("XREAD STREAMS k")
	f.Fuzz(func(t *testing.T, command string) {
		args := strings.Split(command, " ")
		i := slots.FirstKey(args[0], len(args), func(i int) string { return args[i] })
		if i < 0 || i > 0 && i >= len(args) {
			t.Fatalf("key %d of %d", i, len(args))
		}
		if slot := slots.Of(command); slot < 0 || slot >= slots.Count {
			t.Fatalf("slot %d", slot)
		}
	})
}

func BenchmarkOf(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		slots.Of("strata:{products:512}=user:123456789")
	}
}

func TestAllocSlotOfAKey(t *testing.T) {
	if n := testing.AllocsPerRun(100, func() { slots.Of("strata:{a:1}=k") }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
