package compact_test

import (
	"math/big"
	"net/netip"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/strata-cache/strata/codec/compact"
	"github.com/strata-cache/strata/internal/testing/kit"
)

// shy leaves out a secret.
type shy struct{ Public, Secret string }

func (s shy) MarshalBinary() ([]byte, error)  { return []byte(s.Public), nil }
func (s *shy) UnmarshalBinary(b []byte) error { s.Public = string(b); return nil }

// scratched writes to the bytes that it is given, though it must not.
type scratched struct{ S string }

func (s scratched) MarshalBinary() ([]byte, error) { return []byte(s.S), nil }
func (s *scratched) UnmarshalBinary(b []byte) error {
	s.S = string(b)
	clear(b)
	return nil
}

func TestValuesThatTheirMethodsDoNotKeepAreRefused(t *testing.T) {
	roundTrip(t, []shy{{Public: "a"}, {}})
	for _, v := range []shy{{"a", "hunter2"}, {"", "hunter2"}} {
		out, err := compact.New[map[string]shy]().Append([]byte("abc"), map[string]shy{"k": v})
		if err == nil || string(out) != "abc" || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%v: %q, %v", v, out, err)
		}
	}
	if _, err := compact.New[url.URL]().Append(nil, url.URL{RawPath: "%2f", Path: "a"}); err == nil {
		t.Error("a URL that no text has is accepted")
	}
	roundTrip(t, &url.URL{Scheme: "https", Host: "a.example", Path: "/b", User: url.UserPassword("u", "p")})
	roundTrip(t, []any2{{big.NewInt(7), big.NewRat(1, 3), netip.MustParseAddr("::1"), time.Unix(1, 0).UTC()}})
	if out, err := compact.New[scratched]().Append(nil, scratched{"ab"}); err != nil || string(out) != "\x02ab" {
		t.Errorf("%q, %v", out, err)
	}
}

// day is a key with a part that may come back in another zone.
type day struct {
	ID int
	At time.Time
}

// pale is a key with a field that is left out.
type pale struct {
	ID     int
	shade  int
	Stamps [1]time.Time
}

func TestKeysThatComeBackAsOthersAreRefused(t *testing.T) {
	at := time.Date(2026, 11, 28, 0, 0, 0, 0, time.UTC)
	zoned, other := at.In(time.FixedZone("CET", 3600)), at.In(time.FixedZone("X", 3600))
	user, plain := url.URL{Host: "host", User: url.User("hunter2")}, url.URL{Host: "host"}
	for what, err := range map[string]error{
		"in a zone":              refusalOf(map[time.Time]int{zoned: 1}),
		"two of one instant":     refusalOf(map[time.Time]int{zoned: 1, other: 2}),
		"monotonic reading":      refusalOf(map[time.Time]int{time.Now(): 1}),
		"zone in a field":        refusalOf(map[day]int{{1, zoned}: 1}),
		"zone in an array":       refusalOf(map[[1]time.Time]int{{zoned}: 1}),
		"pointer behind methods": refusalOf(map[url.URL]int{user: 1}),
		"field that is left out": refusalOf(map[pale]int{{ID: 1}: 1, {ID: 1, shade: 2}: 2}),
		"map in a list":          refusalOf([]map[day]string{{{1, at}: "a"}, {{1, zoned}: "b"}}),
	} {
		if err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v", what, err)
		}
	}
	roundTrip(t, map[time.Time]int{at: 1, at.Add(1): 2})
	roundTrip(t, map[day]int{{1, at}: 1, {2, at}: 2})
	roundTrip(t, map[url.URL]int{plain: 1, {}: 2})
	roundTrip(t, map[pale]int{{1, 0, [1]time.Time{at}}: 1})
	if out, err := compact.New[map[scratched]int8]().Append(nil, map[scratched]int8{{"ab"}: 7}); err != nil || string(out) != "\x02\x02ab\x07" {
		t.Errorf("%q, %v", out, err)
	}
}

type any2 struct {
	N *big.Int
	R *big.Rat
	A netip.Addr
	T time.Time
}

func TestValueWithAPartInVeryManyPlacesIsRefused(t *testing.T) {
	kit.Watch(t, 2*time.Minute)
	type tree struct{ L, R *tree }
	var shared *tree
	for range 60 {
		shared = &tree{shared, shared}
	}
	if out, err := compact.New[*tree]().Append([]byte("abc"), shared); err == nil || string(out) != "abc" {
		t.Errorf("%d bytes, %v", len(out), err)
	}
}

// ring encodes itself by the codec, for a type without the method.
type ring struct {
	ID   int
	Next *ring
}

func (r *ring) MarshalBinary() ([]byte, error) {
	type plain ring
	return compact.New[*plain]().Append(nil, (*plain)(r))
}

func (r *ring) UnmarshalBinary(data []byte) error {
	type plain ring
	back, err := compact.New[*plain]().Decode(data)
	if err == nil {
		*r = ring(*back)
	}
	return err
}

func TestValueWithMethodsInItselfIsRefused(t *testing.T) {
	r := &ring{ID: 1, Next: &ring{ID: 2}}
	roundTrip(t, r)
	r.Next.Next = r
	for what, err := range map[string]error{"ring": refusalOf(r), "rings": refusalOf([]*ring{r}), "in a struct": refusalOf(struct{ R ring }{*r})} {
		if err == nil {
			t.Errorf("%s: stored", what)
		}
	}
}

func refusalOf[V any](v V) error {
	_, err := compact.New[V]().Append(nil, v)
	return err
}
