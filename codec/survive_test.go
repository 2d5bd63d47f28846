package codec_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"net"
	"net/netip"
	"net/url"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/strata-cache/strata/codec"
	"github.com/strata-cache/strata/internal/testing/kit"
)

// Types with something that JSON changes.
type (
	texts struct {
		Named name
		List  []string
		Pair  [2]name
		By    map[name]string
		To    *string
		In    any
		Quote string `json:",string"`
	}
	name    string
	textKey struct{ s string } // its text is in lower case
	intKey  int                // has a text that it cannot read
	formed  struct{ N int }    // has a form that it cannot read
	shown   struct {           // shows less than it has
		Public, Secret string
	}
	raws struct {
		R json.RawMessage
		O json.RawMessage `json:"o,omitempty"`
	}
	number struct {
		N json.Number
		O json.Number `json:"o,omitempty"`
	}
	stamped struct {
		time.Time
		Name string
	}
	inner    struct{ A int }
	embeds   struct{ *inner }
	outer    struct{ *Inner }
	Inner    struct{ A int }
	gone     struct{ n int }
	goneZero struct {
		G gone `json:",omitzero"`
	}
	list  struct{ Next *list }
	tree  struct{ L, R *tree }
	lists []lists
	maps  map[string]maps
	knot  *knot
)

func (k textKey) MarshalText() ([]byte, error)  { return []byte(strings.ToLower(k.s)), nil }
func (k *textKey) UnmarshalText(b []byte) error { k.s = string(b); return nil }
func (k intKey) MarshalText() ([]byte, error)   { return fmt.Appendf(nil, "#%d", int(k)), nil }
func (f formed) MarshalJSON() ([]byte, error)   { return fmt.Appendf(nil, `"%d pieces"`, f.N), nil }
func (s shown) MarshalJSON() ([]byte, error) {
	return json.Marshal(map[string]string{"Public": s.Public})
}
func (g gone) IsZero() bool                     { return true }
func (g gone) Equal(other gone) bool            { return g == other }
func (g gone) MarshalJSON() ([]byte, error)     { return json.Marshal(g.n) }
func (g *gone) UnmarshalJSON(data []byte) error { return json.Unmarshal(data, &g.n) }

func pointerTo[T any](v T) *T { return &v }

// survives checks whether a value is stored, and comes back unchanged if it is.
func survives[V any](t *testing.T, c codec.Codec[V], what string, v V, want bool, equal func(a, b V) bool) {
	t.Helper()
	data, err := c.Append([]byte("before"), v)
	if stored := err == nil; stored != want {
		t.Errorf("%s: stored: %v; error %v", what, stored, err)
	}
	var e *codec.Error
	if err != nil && (!errors.As(err, &e) || e.Op != "encode" || string(data) != "before" || strings.Contains(err.Error(), "hunter2")) {
		t.Errorf("%s: error %v, and %.20q", what, err, data)
	}
	if err != nil {
		return
	}
	back, err := c.Decode(data[len("before"):])
	if err != nil || !equal(v, back) {
		t.Errorf("%s: %.200v comes back as %.200v, %v", what, any(v), any(back), err)
	}
}

// js is survives for JSON.
func js[V any](t *testing.T, what string, v V, want bool) {
	t.Helper()
	survives(t, codec.JSON[V](), what, v, want, func(a, b V) bool { return reflect.DeepEqual(a, b) })
}

const bad = "hunter2\xff"

func TestJSONRefusesTextThatIsNoUTF8(t *testing.T) {
	js(t, "string", bad, false)
	js(t, "named", name(bad), false)
	js(t, "valid", "ü � \\ufffd \\\\ufffd", true)
	js(t, "field", texts{Named: bad}, false)
	js(t, "list", texts{List: []string{"", bad}}, false)
	js(t, "array", texts{Pair: [2]name{"", bad}}, false)
	js(t, "key", texts{By: map[name]string{bad: ""}}, false)
	js(t, "keys that become one", map[string]int{"a\xff": 1, "a\xfe": 2}, false)
	js(t, "element", texts{By: map[name]string{"": bad}}, false)
	js(t, "pointer", texts{To: pointerTo(bad)}, false)
	js(t, "interface", texts{In: bad}, false)
	js(t, "quoted", texts{Quote: bad}, false)
	js(t, "bytes", []byte(bad), true)
	js(t, "all valid", texts{"a", []string{"b"}, [2]name{"c", "�"}, map[name]string{"d": "\\ufffd"}, pointerTo("e"), "f", "\\\\ufffd"}, true)
	js(t, "text of a method", map[string]textKey{"a": {bad}}, false)
}

func TestJSONRefusesTimesThatItWouldRound(t *testing.T) {
	seconds := time.FixedZone("", 9*60+21)
	equal := func(a, b time.Time) bool { return a.Equal(b) }
	at := time.Date(1900, 1, 1, 0, 0, 0, 5, time.UTC)
	survives(t, codec.JSON[time.Time](), "UTC", at, true, equal)
	survives(t, codec.JSON[time.Time](), "an hour", at.In(time.FixedZone("", 3600)), true, equal)
	survives(t, codec.JSON[time.Time](), "now", time.Now(), true, equal)
	survives(t, codec.JSON[time.Time](), "seconds", at.In(seconds), false, equal)
	js(t, "pointer", &at, true)
	js(t, "pointer to seconds", pointerTo(at.In(seconds)), false)
	js(t, "in lists of maps", []map[string]struct{ At *time.Time }{{"a": {pointerTo(at.In(seconds))}}}, false)
	js(t, "element", map[string]time.Time{"a": at.In(seconds)}, false)
	js(t, "keys", map[time.Time]int{at: 1, at.Add(1): 2}, true)
	js(t, "key of another zone", map[time.Time]int{at.In(time.FixedZone("X", 3600)): 1}, false)
	js(t, "year 10000", at.AddDate(9000, 0, 0), false)
	js(t, "embedded alone", stamped{Time: at}, true)
	js(t, "embedded with others", stamped{at, "lost"}, false)
}

func TestJSONRefusesWhatItWouldReadAsAnotherType(t *testing.T) {
	type holder struct{ V any }
	for _, v := range []any{nil, true, 1.5, "a", []any{1.0, "a", nil}, map[string]any{"a": []any{map[string]any{}}}} {
		js(t, fmt.Sprintf("%T", v), holder{v}, true)
		js(t, fmt.Sprintf("%T in a map", v), map[string]any{"a": v}, true)
		js(t, fmt.Sprintf("%T in a list", v), []any{v}, true)
		js(t, fmt.Sprintf("%T alone", v), v, true)
	}
	for _, v := range []any{
		1, int64(1) << 60, float32(1), json.Number("1"), name("a"),
		[]string{"a"},
		map[string]int{"a": 1},
		inner{1},
		&inner{1},
		time.Unix(0, 0), []byte("a"), (*int)(nil), []any(nil), map[string]any(nil),
		[]any{1},
		map[string]any{"a": map[string]any{"b": 2}},
	} {
		js(t, fmt.Sprintf("%T", v), holder{v}, false)
		js(t, fmt.Sprintf("%T in a map", v), map[string]any{"a": v}, false)
		js(t, fmt.Sprintf("%T in a list", v), []any{v}, false)
		js(t, fmt.Sprintf("%T alone", v), v, false)
	}
	type failing struct{ Err error }
	js(t, "no error", failing{}, true)
	js(t, "an error", failing{errors.New(bad)}, false)
}

func TestJSONRefusesNullsOfOtherMeaning(t *testing.T) {
	js(t, "nil", (*int)(nil), true)
	js(t, "pointer", pointerTo(0), true)
	js(t, "pointer to nil", new(*int), false)
	js(t, "pointer to a pointer", pointerTo(pointerTo(0)), true)
	js(t, "pointer to a nil list", new([]int), false)
	js(t, "pointer to an empty list", &[]int{}, true)
	js(t, "pointer to a nil map", struct{ M *map[string]int }{new(map[string]int)}, false)
	js(t, "pointer to nil in an interface", new(any), false)
	js(t, "nil and empty lists", [][]int{nil, {}}, true)
	js(t, "raw", raws{R: json.RawMessage(`{"a":[1]}`)}, true)
	js(t, "raw nil", raws{}, false)
	js(t, "raw with blanks", raws{R: json.RawMessage(`{"a": 1}`)}, false)
	js(t, "raw with an escape of its own", raws{R: json.RawMessage(`"\ufffd"`)}, true)
	js(t, "raw with an escape, and a text", struct {
		R json.RawMessage
		S string
	}{json.RawMessage(`"\ufffd"`), bad}, false)
	js(t, "number", number{N: "1e5"}, true)
	js(t, "no number", number{}, false)
}

func TestJSONRefusesWhatMethodsDoNotUndo(t *testing.T) {
	js(t, "no UnmarshalJSON", formed{3}, false)
	js(t, "less than it has", shown{"a", "b"}, false)
	js(t, "as much as it has", shown{Public: "a"}, true)
	js(t, "text", textKey{"a"}, true)
	js(t, "changed text", []textKey{{"A"}}, false)
	js(t, "keys", map[textKey]int{{"a"}: 1, {"b"}: 2}, true)
	js(t, "keys that become one", map[textKey]int{{"a"}: 1, {"A"}: 2}, false)
	js(t, "keys that become others", map[textKey]int{{"A"}: 2}, false)
	js(t, "keys that cannot be read", map[intKey]int{1: 1}, false)
	js(t, "no such keys", map[intKey]int{}, true)
	js(t, "keys of addresses", map[netip.Addr]int{netip.MustParseAddr("::1%a"): 1}, true)
	js(t, "big number", big.NewInt(12), true)
	js(t, "big numbers without addresses", map[string]big.Int{"a": *big.NewInt(1)}, false)
	js(t, "big numbers behind pointers", map[string]*big.Int{"a": big.NewInt(1)}, true)
	js(t, "rational", big.NewRat(1, 3), true)
	survives(t, codec.JSON[net.IP](), "IP", net.IP{1, 2, 3, 4}, true, net.IP.Equal)
	third, _ := new(big.Float).SetPrec(200).SetString("0.3333333333333333333333333333333333333333333")
	survives(t, codec.JSON[*big.Float](), "float of 200 bits", third, false, func(a, b *big.Float) bool { return a.Cmp(b) == 0 })
	survives(t, codec.JSON[*big.Float](), "float of a bit", big.NewFloat(0.5), true, func(a, b *big.Float) bool { return a.Cmp(b) == 0 })
	js(t, "zero by its own word", goneZero{gone{}}, true)
	js(t, "not zero, left out by its own word", goneZero{gone{7}}, false)
	js(t, "embedded pointer that cannot be made", embeds{&inner{1}}, false)
	js(t, "no such pointer", embeds{}, true)
	js(t, "embedded pointer", outer{&Inner{1}}, true)
}

// TestNoShapeOfAValueEndsTheProcess encodes values with deep nesting, values nested in
// themselves, and values with one part in very many places.
func TestNoShapeOfAValueEndsTheProcess(t *testing.T) {
	kit.Alone(t)
	kit.Watch(t, 2*time.Minute)
	const most = 10_000
	for _, n := range []int{most, most + 1, kit.Rounds(300_000)} {
		fits := n <= most
		var l *list
		var s lists
		var m maps
		var x any
		for range n {
			l, s, m, x = &list{l}, lists{s}, maps{"": m}, []any{x}
		}
		deep(t, fmt.Sprint("list of ", n), l, fits)
		deep(t, fmt.Sprint("slices ", n), s, fits)
		deep(t, fmt.Sprint("maps ", n), m, fits)
		deep(t, fmt.Sprint("any ", n), x, fits)
		deep(t, fmt.Sprint("raw ", n), json.RawMessage(strings.Repeat("[", n)+strings.Repeat("]", n)), fits)
		deep(t, fmt.Sprint("raw in others ", n), []json.RawMessage{json.RawMessage(strings.Repeat("[", n-1) + strings.Repeat("]", n-1))}, fits)
	}
	l, s, m, x := &list{}, lists{nil}, maps{}, map[string]any{}
	l.Next, s[0], m["m"], x["x"] = l, s, m, x
	deep(t, "list in itself", l, false)
	deep(t, "slice in itself", s, false)
	deep(t, "map in itself", m, false)
	deep(t, "any in itself", x, false)
	var k knot
	k = &k
	deep(t, "pointer to itself", k, false)
	for range 1_000_000 {
		next := k
		k = &next
	}
	deep(t, "pointers to pointers", k, false)
	var shared *tree
	for range 60 {
		shared = &tree{shared, shared}
	}
	deep(t, "2^60 places", shared, false)
	deep(t, "millions", make([]*int, kit.Rounds(2_000_000)), true)
}

func deep[V any](t *testing.T, what string, v V, want bool) {
	t.Helper()
	c := codec.JSON[V]()
	data, err := c.Append(nil, v)
	if stored := err == nil; stored != want {
		t.Errorf("%s: stored: %v; %v", what, stored, err)
	}
	if err != nil {
		return
	}
	back, err := c.Decode(data)
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	if again, err := c.Append(nil, back); err != nil || !bytes.Equal(data, again) {
		t.Errorf("%s comes back as another value: %v", what, err)
	}
}

func TestJSONNamesWhatItChanges(t *testing.T) {
	type base struct {
		ID   int
		Name string `json:"name"`
	}
	type left struct{ Both int }
	type right struct{ Both int }
	type all struct {
		base
		left
		right
		ID    string
		When  stamped
		Where *url.URL
		Error error
	}
	want := "When.Name Where.User.username Where.User.password Where.User.passwordSet Error (only nil) base.ID left.Both right.Both"
	if lost := strings.Join(codec.JSON[all]().(codec.Lossy).Lost(), " "); lost != want {
		t.Errorf("lost %s,\nwant %s", lost, want)
	}
	// The named fields are the ones that change.
	c := codec.JSON[all]()
	v := all{base: base{1, "a"}, left: left{2}, right: right{3}, ID: "b"}
	data, err := c.Append(nil, v)
	back, _ := c.Decode(data)
	v.base.ID = 0
	if v.left.Both, v.right.Both = 0, 0; err != nil || fmt.Sprint(v) != fmt.Sprint(back) {
		t.Errorf("%s, %v", data, err)
	}
}
