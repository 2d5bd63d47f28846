package codec_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/strata-cache/strata/codec"
	"github.com/strata-cache/strata/internal/testing/kit"
)

type (
	// Profile is embedded by pointers.
	Profile struct {
		Nick  string   `json:"nick,omitempty"`
		Marks []string `json:"marks,omitempty"`
	}
	// Hidden writes nothing.
	Hidden struct {
		A int `json:"-"`
	}
	// Empty has no fields.
	Empty struct{}
	// Between embeds a pointer for others.
	Between struct{ *Profile }

	member   struct{ *Profile }
	secret   struct{ *Hidden }
	nothing  struct{ *Empty }
	deeper   struct{ Between }
	pointers struct{ *Between }
	shadowed struct {
		*Profile
		Nick  string `json:"nick"`
		Marks int    `json:"marks"`
	}
	named struct {
		*Profile `json:"profile"`
	}
	// Link is embedded in each part of a list.
	Link struct {
		Name string `json:"name,omitempty"`
		Next *chain `json:"next,omitempty"`
	}
	chain struct{ *Link }

	// turned is written as its text from the end, and read the same way, but not as a key of a map: encoding/json
	// calls UnmarshalText of a string and not its MarshalText.
	turned string
	minus  int

	// ring, branch and holder encode themselves by an encoder of their own, as types with a default or a version do.
	ring struct {
		ID   int
		Next *ring
	}
	branch struct{ In map[string][]branch }
	holder struct{ Any any }
	// child has its parent in a field that it does not write.
	child struct {
		Name   string
		parent *child
		Up     *child `json:"-"`
	}
)

func (t turned) MarshalText() ([]byte, error) {
	b := make([]byte, len(t))
	for i := range b {
		b[i] = t[len(t)-1-i]
	}
	return b, nil
}

func (t *turned) UnmarshalText(b []byte) error {
	back, err := turned(b).MarshalText()
	*t = turned(back)
	return err
}

func (m minus) MarshalText() ([]byte, error) { return []byte(strconv.Itoa(-int(m))), nil }
func (m *minus) UnmarshalText(b []byte) error {
	n, err := strconv.Atoi(string(b))
	*m = minus(-n)
	return err
}

func (r *ring) MarshalJSON() ([]byte, error) {
	type plain ring
	return json.Marshal((*plain)(r))
}

func (r *ring) UnmarshalJSON(b []byte) error {
	type plain ring
	return json.Unmarshal(b, (*plain)(r))
}

func (b branch) MarshalJSON() ([]byte, error) {
	type plain branch
	return json.Marshal(plain(b))
}

func (b holder) MarshalJSON() ([]byte, error) {
	type plain holder
	return json.Marshal(plain(b))
}

func (c child) MarshalJSON() ([]byte, error)  { return json.Marshal(c.Name) }
func (c *child) UnmarshalJSON(b []byte) error { return json.Unmarshal(b, &c.Name) }
func (c child) Equal(other child) bool        { return c.Name == other.Name }
func sameName(a, b *child) bool               { return a.Equal(*b) }
func sameText(a, b json.RawMessage) bool      { return string(a) == string(b) }
func prefix(addr string, bits int) netip.Prefix {
	return netip.PrefixFrom(netip.MustParseAddr(addr), bits)
}

func TestJSONRefusesEmbeddedPointersThatBecomeNil(t *testing.T) {
	js(t, "a field is written", member{&Profile{Nick: "a"}}, true)
	js(t, "nil", member{}, true)
	js(t, "all fields are left out", member{&Profile{}}, false)
	js(t, "an empty list", member{&Profile{Marks: []string{}}}, false)
	js(t, "in a list", []member{{}, {&Profile{}}}, false)
	js(t, "in a map", map[string]member{"a": {&Profile{}}}, false)
	js(t, "fields without names", secret{&Hidden{}}, false)
	js(t, "no fields", nothing{&Empty{}}, false)
	js(t, "in an embedded struct", deeper{Between{&Profile{}}}, false)
	js(t, "written in an embedded struct", deeper{Between{&Profile{Nick: "a"}}}, true)
	js(t, "behind an embedded pointer", pointers{&Between{}}, false)
	js(t, "two pointers", pointers{&Between{&Profile{Nick: "a"}}}, true)
	js(t, "fields of others", shadowed{&Profile{Nick: "a"}, "b", 1}, false)
	js(t, "fields of others, nil", shadowed{nil, "b", 1}, true)
	js(t, "a field by itself", named{&Profile{}}, true)
	// Each of them is looked at once: not with all that come behind it.
	kit.Watch(t, time.Minute)
	var l *chain
	for range 9000 {
		l = &chain{&Link{Next: l, Name: "a"}}
	}
	js(t, "a long list", l, true)
	l.Next.Next.Name, l.Next.Next.Next = "", nil
	js(t, "a list with an end of nothing", l, false)
}

// TestJSONRefusesKeysThatFindOtherEntries has keys of a string kind. Since Go 1.27 encoding/json calls both of their methods.
func TestJSONRefusesKeysThatFindOtherEntries(t *testing.T) {
	text, err := json.Marshal(map[turned]int{"ab": 1})
	if err != nil {
		t.Fatal(err)
	}
	both := string(text) == `{"ba":1}`
	js(t, "exchanged", map[turned]int{"ab": 1, "ba": 2}, both)
	js(t, "exchanged, equal", map[turned]int{"ab": 1, "ba": 1}, both)
	js(t, "one", map[turned]int{"ab": 1}, both)
	js(t, "the same from both ends", map[turned]int{"aba": 1, "bb": 2}, true)
	js(t, "numbers", map[minus]int{1: 1, -1: 2, 0: 3}, true)
}

func TestJSONRefusesAddressesThatItWouldChange(t *testing.T) {
	port := func(n uint16) netip.AddrPort { return netip.AddrPortFrom(netip.Addr{}, n) }
	js(t, "prefix", []netip.Prefix{prefix("10.0.0.1", 32), prefix("::", 0), {}}, true)
	js(t, "too long a prefix", prefix("10.0.0.1", 99), false)
	js(t, "no prefix", &struct{ P netip.Prefix }{prefix("10.0.0.1", -1)}, false)
	js(t, "prefix as a key", map[netip.Prefix]int{prefix("10.0.0.1", 33): 1}, false)
	js(t, "prefixes as keys", map[netip.Prefix]int{prefix("10.0.0.1", 3): 1, {}: 2}, true)
	js(t, "addresses with ports", []netip.AddrPort{netip.MustParseAddrPort("[::1%a]:80"), {}}, true)
	js(t, "a port without an address", port(80), false)
	js(t, "behind a pointer", pointerTo(port(1)), false)
	js(t, "keys that become one", map[netip.AddrPort]int{port(80): 1, port(81): 2}, false)
	js(t, "key that becomes another", map[netip.AddrPort]int{port(80): 1}, false)
}

// TestJSONStoresRawTextWithCharactersOfHTML stores just the texts that encoding/json writes as they are: not those with spaces, and
// since Go 1.27 not those with separators of lines.
func TestJSONStoresRawTextWithCharactersOfHTML(t *testing.T) {
	for _, text := range []string{`{"url":"/?a=1&b=2"}`, `"<b>"`, "\"\u2028\u2029\"", `{"a" : 1}`, `"\u0026"`} {
		var w bytes.Buffer
		e := json.NewEncoder(&w)
		e.SetEscapeHTML(false)
		if err := e.Encode(json.RawMessage(text)); err != nil {
			t.Fatal(err)
		}
		want := w.String() == text+"\n"
		if html := strings.ContainsAny(text, "&<"); html && !want {
			t.Errorf("encoding/json escapes %s", text)
		}
		survives(t, codec.JSON[json.RawMessage](), text, json.RawMessage(text), want, sameText)
		js(t, "in a struct "+text, struct{ Raw json.RawMessage }{json.RawMessage(text)}, want)
	}
}

// TestNoShapeOfAValueWithMethodsEndsTheProcess encodes values nested in themselves whose methods begin encoders
// of their own, so that no encoder sees all levels.
func TestNoShapeOfAValueWithMethodsEndsTheProcess(t *testing.T) {
	kit.Watch(t, 2*time.Minute)
	for _, n := range []int{100, kit.Rounds(300_000)} {
		var r *ring
		b, x := branch{}, holder{}
		for range n {
			r, b, x = &ring{Next: r}, branch{map[string][]branch{"a": {b}}}, holder{x}
		}
		deep(t, fmt.Sprint("list of ", n), r, n == 100)
		deep(t, fmt.Sprint("branches ", n), b, n == 100)
		deep(t, fmt.Sprint("holders ", n), x, false) // an interface comes back as a map
	}
	r, b, x := &ring{}, branch{map[string][]branch{"a": make([]branch, 1)}}, &holder{}
	r.Next, x.Any = r, x
	b.In["a"][0] = b
	deep(t, "list in itself", r, false)
	deep(t, "list in itself in a list", []*ring{{}, r}, false)
	deep(t, "branch in itself", b, false)
	deep(t, "holder in itself", x, false)
	parent := &child{Name: "a"}
	parent.parent, parent.Up = parent, parent
	survives(t, codec.JSON[*child](), "a parent that is not written", parent, true, sameName)
}
