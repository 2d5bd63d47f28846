package gob_test

import (
	"bytes"
	stdgob "encoding/gob"
	"errors"
	"fmt"
	"math/big"
	"net/url"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/strata-cache/strata/codec"
	"github.com/strata-cache/strata/codec/gob"
	"github.com/strata-cache/strata/internal/testing/kit"
)

type (
	pointers struct {
		I  *int
		S  *string
		L  *[]int
		M  *map[string]int
		P  **int
		T  *time.Time
		N  *big.Int
		U  *url.URL
		In *point
	}
	place  *point
	point  struct{ X, Y int }
	circle struct{ Middle point }
	either struct{ V any }
	list   struct{ Next *list }
	tree2  struct{ L, R *tree2 }
	lists  []lists
	maps   map[string]maps
	link   struct{ Next any }

	// picky refuses its zero value, fussy cannot decode it.
	picky struct{ n int }
	fussy struct{ n int }
	// shy leaves out a secret.
	shy struct{ Public, Secret string }
	// veiled is a key with a field that is not encoded.
	veiled struct {
		ID    int
		shard int
	}
	// stamped has the methods of a part.
	stamped struct {
		time.Time
		Name string
	}
)

func (p picky) GobEncode() ([]byte, error) {
	if p.n == 0 {
		return nil, errors.New("hunter2 is zero")
	}
	return []byte{byte(p.n)}, nil
}
func (p *picky) GobDecode(b []byte) error  { p.n = int(b[0]); return nil }
func (f fussy) GobEncode() ([]byte, error) { return []byte{byte(f.n)}, nil }
func (f *fussy) GobDecode(b []byte) error {
	if f.n = int(b[0]); f.n == 0 {
		return errors.New("zero")
	}
	return nil
}
func (s shy) GobEncode() ([]byte, error) { return []byte(s.Public), nil }
func (s *shy) GobDecode(b []byte) error  { s.Public = string(b); return nil }

func to[T any](v T) *T { return &v }

// keeps checks whether a value is stored, and comes back unchanged if it is.
func keeps[V any](t *testing.T, what string, v V, want bool) {
	t.Helper()
	c := gob.New[V]()
	if err := c.(codec.Checker).Check(); err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	data, err := c.Append([]byte("before"), v)
	if stored := err == nil; stored != want {
		t.Errorf("%s: stored: %v; error %v", what, stored, err)
	}
	if err != nil {
		var e *codec.Error
		if !errors.As(err, &e) || string(data) != "before" || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: error %v, and %.20q", what, err, data)
		}
		return
	}
	if back, err := c.Decode(data[len("before"):]); err != nil || !reflect.DeepEqual(back, v) {
		t.Errorf("%s: %.200v comes back as %.200v, %v", what, any(v), any(back), err)
	}
}

func TestGobRefusesPointersThatBecomeNil(t *testing.T) {
	keeps(t, "keys that differ in a hidden field", map[veiled]string{{1, 1}: "a", {1, 2}: "b"}, false)
	keeps(t, "a key with a hidden field", map[veiled]string{{1, 1}: "a"}, false)
	keeps(t, "a hidden field of a key in an array", map[[1]struct{ V veiled }]string{{{veiled{1, 1}}}: "a"}, false)
	keeps(t, "a key with an empty hidden field", map[veiled]string{{ID: 1}: "a", {ID: 2}: "b"}, true)
	keeps(t, "none", pointers{}, true)
	keeps(t, "all", pointers{to(1), to("a"), &[]int{1}, &map[string]int{}, to(to(1)), to(time.Unix(1, 0).UTC()), big.NewInt(0), &url.URL{}, &point{}}, true)
	keeps(t, "zero", pointers{I: to(0)}, false)
	keeps(t, "empty text", pointers{S: to("")}, false)
	keeps(t, "empty list", pointers{L: &[]int{}}, false)
	keeps(t, "nil map", pointers{M: new(map[string]int)}, false)
	keeps(t, "pointer to nil", pointers{P: new(*int)}, false)
	keeps(t, "zero behind two pointers", pointers{P: to(to(0))}, false)
	keeps(t, "zero time", pointers{T: new(time.Time)}, true)
	keeps(t, "in a list of maps", []map[string]pointers{{"a": {I: to(0)}}}, false)
	keeps(t, "elements", []*int{to(0), to(1)}, true)
	keeps(t, "elements of maps", map[string]*string{"a": to("")}, true)
	keeps(t, "value", to(0), true)
}

// grade encodes itself by a method of the value.
type grade int

func (g grade) GobEncode() ([]byte, error) { return []byte{byte(g)}, nil }
func (g *grade) GobDecode(b []byte) error  { *g = grade(b[0]); return nil }

type (
	graded   struct{ G **grade }
	graded3  struct{ G ***grade }
	numbered struct{ N **int }
	// wired has fields that encoding/gob leaves out.
	wired struct {
		A     int
		C     *chan int
		F     **func()
		Plain chan int
	}
)

func TestGobKeepsPointersToAZeroThatEncodesItself(t *testing.T) {
	keeps(t, "zero", graded{to(to(grade(0)))}, true)
	keeps(t, "zero behind three pointers", graded3{to(to(to(grade(0))))}, true)
	keeps(t, "not zero", graded{to(to(grade(3)))}, true)
	keeps(t, "pointer to nil", graded{new(*grade)}, false)
	keeps(t, "pointer to a pointer to nil", graded3{to(new(*grade))}, false)
	keeps(t, "without a method", numbered{to(to(0))}, false)
}

func TestGobNamesFieldsWithPointersToChannelsAndFunctions(t *testing.T) {
	c := gob.New[wired]()
	if lost := strings.Join(c.(codec.Lossy).Lost(), " "); lost != "C F Plain" {
		t.Errorf("lost %s", lost)
	}
	data, err := c.Append(nil, wired{A: 1, C: to(make(chan int))})
	if back, err2 := c.Decode(data); err != nil || err2 != nil || !reflect.DeepEqual(back, wired{A: 1}) {
		t.Errorf("%+v, %v, %v", back, err, err2)
	}
}

func TestGobRefusesWhatComesBackAsAnotherType(t *testing.T) {
	stdgob.Register(point{})
	stdgob.Register(&circle{})
	stdgob.Register(map[string]any{})
	keeps(t, "registered", either{point{1, 2}}, true)
	keeps(t, "registered as a value", either{&point{1, 2}}, false)
	keeps(t, "registered as a pointer", either{&circle{point{1, 2}}}, true)
	keeps(t, "pointer is registered", either{circle{point{1, 2}}}, false)
	keeps(t, "number", either{7}, true)
	keeps(t, "maps in maps", either{map[string]any{"a": map[string]any{"b": 1, "c": "d"}}}, true)
	keeps(t, "in a map", map[string]any{"a": &point{}}, false)
	keeps(t, "alone", any(point{1, 2}), true)
}

func TestGobRefusesWhatMethodsDoNotUndo(t *testing.T) {
	stdgob.Register(time.Time{})
	at := time.Date(1900, 1, 1, 0, 0, 0, 0, time.UTC)
	keeps(t, "as much as it has", shy{Public: "a"}, true)
	keeps(t, "less than it has", []shy{{"a", "b"}}, false)
	keeps(t, "embedded", stamped{at, ""}, true)
	keeps(t, "embedded with others", stamped{at, "lost"}, false)
	keeps(t, "URL", url.URL{Scheme: "https", Host: "a.example", Path: "/b", User: url.UserPassword("u", "p")}, true)
	keeps(t, "pointer with a name", place(&point{1, 2}), true)
	keeps(t, "pointer to a URL", &url.URL{Path: "/b"}, true)
	keeps(t, "URL that no text has", url.URL{RawPath: "%2f", Path: "a"}, false)
	keeps(t, "big numbers", []*big.Int{big.NewInt(1), new(big.Int).Lsh(big.NewInt(1), 999)}, true)
	keeps(t, "big float", big.NewFloat(1.5), true)
	keeps(t, "rational", big.NewRat(1, 3), true)
	keeps(t, "keys with pointers", map[*point]int{{1, 2}: 1}, false)
	keeps(t, "times as keys", map[time.Time]int{at: 1}, true)
	keeps(t, "times of other zones as keys", map[time.Time]int{at.In(time.FixedZone("X", 3600)): 1}, false)
	keeps(t, "time east of UTC by seconds", []time.Time{at.In(time.FixedZone("", 3601))}, true)
	keeps(t, "time west of UTC by minutes", at.In(time.FixedZone("", -17760)), true)
	west := at.In(time.FixedZone("", -17762)) // New York before 1883, which would come back as 4:16 later on the clock
	keeps(t, "time west of UTC by seconds", west, false)
	keeps(t, "pointer to a time west of UTC by seconds", struct{ At *time.Time }{&west}, false)
	keeps(t, "times west of UTC by seconds", map[string][]time.Time{"a": {at, west}}, false)
	keeps(t, "any time", any(at), true)
	keeps(t, "any time west of UTC by seconds", any(west), false)
	keeps(t, "bytes that are no UTF-8", map[string]string{"\xff": "\xfe"}, true)
}

// TestGobRefusesNoTypeForItsZeroValue has types of which gob, or a method, refuses zero.
func TestGobRefusesNoTypeForItsZeroValue(t *testing.T) {
	keeps(t, "picky", picky{1}, true)
	keeps(t, "picky zero", picky{}, false)
	keeps(t, "picky in a list", []picky{{1}}, true)
	keeps(t, "picky in an array", [1]picky{{1}}, true)
	keeps(t, "fussy", fussy{1}, true)
	keeps(t, "fussy zero", fussy{}, false)
	keeps(t, "pointers in an array", [2]*int{to(1), to(0)}, true)
	keeps(t, "nil in an array", [2]*int{}, false)
}

func TestNoShapeOfAValueEndsTheProcess(t *testing.T) {
	kit.Watch(t, 2*time.Minute)
	stdgob.Register(link{})
	stdgob.Register([]any{})
	for _, n := range []int{gob.MaxDepth / 20, kit.Rounds(300_000)} {
		fits := n < gob.MaxDepth
		var l *list
		var s lists
		var m maps
		var x any = 1
		k := link{}
		for range n {
			l, s, m, x, k = &list{l}, lists{s}, maps{"": m}, []any{x}, link{k}
		}
		shaped(t, fmt.Sprint("list of ", n), l, fits)
		shaped(t, fmt.Sprint("slices ", n), s, fits)
		shaped(t, fmt.Sprint("maps ", n), m, fits)
		shaped(t, fmt.Sprint("any ", n), either{x}, fits)
		shaped(t, fmt.Sprint("links ", n), k, fits)
	}
	l, s, m, x := &list{}, lists{nil}, maps{}, map[string]any{}
	l.Next, s[0], m["m"], x["x"] = l, s, m, x
	shaped(t, "list in itself", l, false)
	shaped(t, "slice in itself", s, false)
	shaped(t, "map in itself", m, false)
	shaped(t, "any in itself", either{x}, false)
	if !testing.Short() { // package codec ends the walk, and has the same test
		var shared *tree2
		for range 60 {
			shared = &tree2{shared, shared}
		}
		shaped(t, "2^60 places", shared, false)
	}
	shaped(t, "millions", make([]point, kit.Rounds(2_000_000)), true)
}

func shaped[V any](t *testing.T, what string, v V, want bool) {
	t.Helper()
	c := gob.New[V]()
	data, err := c.Append(nil, v)
	if stored := err == nil; stored != want {
		t.Errorf("%s: stored: %v; %v", what, stored, err)
	}
	if err != nil {
		return
	}
	if _, err := c.Decode(data); err != nil {
		t.Errorf("%s: %v", what, err)
	}
}

// ring encodes itself by an encoder of its own, which cannot count the levels around it.
type ring struct {
	ID   int
	Next *ring
}

func (r *ring) GobEncode() ([]byte, error) {
	type plain ring
	var b bytes.Buffer
	err := stdgob.NewEncoder(&b).Encode((*plain)(r))
	return b.Bytes(), err
}

func (r *ring) GobDecode(data []byte) error {
	type plain ring
	return stdgob.NewDecoder(bytes.NewReader(data)).Decode((*plain)(r))
}

func TestValueWithMethodsInItselfIsRefused(t *testing.T) {
	r := &ring{ID: 1, Next: &ring{ID: 2}}
	shaped(t, "two", r, true)
	r.Next.Next = r
	shaped(t, "ring", r, false)
	shaped(t, "rings", []*ring{r}, false)
}
