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
