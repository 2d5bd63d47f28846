package codec_test

import (
	"errors"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/strata-cache/strata/codec"
)

type priceV1 struct{ Cents int }

type priceV2 struct {
	Cents    int    `db:"cents"`
	Currency string `json:"currency"`
}

func fromCents(p priceV1) (priceV2, error) {
	if p.Cents < 0 {
		return priceV2{Cents: 7}, errors.New("hunter2")
	}
	return priceV2{p.Cents, "EUR"}, nil
}

func prices() codec.Codec[priceV2] {
	return codec.Versioned(codec.JSON[priceV2](), codec.From(codec.JSON[priceV1](), fromCents))
}

func olderOf[V any](t testing.TB, c codec.Codec[V]) []codec.Older[V] {
	t.Helper()
	u, ok := c.(codec.Upgrader[V])
	if !ok {
		t.Fatalf("%T reads no older versions", c)
	}
	return u.Older()
}

func TestVersionedReadsOlderValues(t *testing.T) {
	old, err := codec.JSON[priceV1]().Append(nil, priceV1{5})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []codec.Codec[priceV2]{prices(), codec.WithName(prices(), "prices")} {
		older := olderOf(t, c)
		if len(older) != 1 || older[0].Fingerprint != codec.Fingerprint(codec.JSON[priceV1]()) {
			t.Fatalf("%s: older versions: %+v", c.Name(), older)
		}
		if v, err := older[0].Decode(old); v != (priceV2{5, "EUR"}) || err != nil {
			t.Errorf("%s: %+v, %v", c.Name(), v, err)
		}
		roundTrip(t, c, priceV2{9, "USD"})
	}
}

func TestVersionedHasTheFingerprintOfItsCodec(t *testing.T) {
	if codec.Fingerprint(prices()) != codec.Fingerprint(codec.JSON[priceV2]()) {
		t.Error("values of this version are not found any more once the codec reads older ones")
	}
}

func TestVersionedOfAVersionedReadsAllVersions(t *testing.T) {
	c := codec.Versioned(prices(), codec.Older[priceV2]{Fingerprint: 3, Decode: prices().Decode})
	if older := olderOf(t, c); len(older) != 2 || older[0].Fingerprint != 3 {
		t.Errorf("older versions: %+v", older)
	}
}

func TestFailedConversionIsAnErrorWithoutAValue(t *testing.T) {
	for what, convert := range map[string]func(priceV1) (priceV2, error){
		"error": fromCents,
		"panic": func(p priceV1) (priceV2, error) { panic("hunter2") },
	} {
		older := codec.From(codec.JSON[priceV1](), convert)
		v, err := older.Decode([]byte(`{"Cents":-1}`))
		var e *codec.Error
		if v != (priceV2{}) || !errors.As(err, &e) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %+v, %v", what, v, err)
		}
		if v, err := older.Decode([]byte(`{"Cents":"x"}`)); v != (priceV2{}) || err == nil {
			t.Errorf("%s: a damaged value: %+v, %v", what, v, err)
		}
	}
}

func TestVersionsThatCannotBeToldApartAreRefused(t *testing.T) {
	same := codec.From(codec.JSON[priceV2](), func(p priceV2) (priceV2, error) { return p, nil })
	good := codec.From(codec.JSON[priceV1](), fromCents)
	for what, c := range map[string]codec.Codec[priceV2]{
		"this version":      codec.Versioned(codec.JSON[priceV2](), same),
		"twice":             codec.Versioned(codec.JSON[priceV2](), good, good),
		"no decoder":        codec.Versioned(codec.JSON[priceV2](), codec.Older[priceV2]{Fingerprint: 1}),
		"no fingerprint":    codec.Versioned(codec.JSON[priceV2](), codec.Older[priceV2]{Decode: good.Decode}),
		"behind a WithName": codec.WithName(codec.Versioned(codec.JSON[priceV2](), good, good), "n"),
	} {
		if err := c.(codec.Checker).Check(); err == nil {
			t.Errorf("%s: accepted", what)
		}
	}
	if err := prices().(codec.Checker).Check(); err != nil {
		t.Error(err)
	}
	if err := codec.Versioned(codec.JSON[chan int]()).(codec.Checker).Check(); err == nil {
		t.Error("the error of the codec inside is lost")
	}
}

func TestJSONNamesTheFieldsThatItLoses(t *testing.T) {
	type inner struct {
		Kept   int
		hidden int
	}
	type node struct {
		inner
		Next   *node
		Items  []inner
		By     map[string]*inner
		At     time.Time
		Secret string `json:"-"`
		Hook   func()
		Any    any
		_      int
	}
	lost := codec.JSON[node]().(codec.Lossy).Lost()
	const native = " (only nil, bool, float64, string, []any and map[string]any)"
	if got := strings.Join(lost, " "); got != "inner.hidden Secret Hook Any"+native {
		t.Errorf("lost: %q", got)
	}
	items := codec.WithName(codec.Versioned(codec.JSON[map[string][]inner]()), "n").(codec.Lossy).Lost()
	if strings.Join(items, " ") != "[][].hidden" {
		t.Errorf("lost in a map: %q", items)
	}
	for _, c := range []any{codec.JSON[priceV2](), codec.JSON[time.Time](), codec.JSON[int]()} {
		if lost := c.(codec.Lossy).Lost(); lost != nil {
			t.Errorf("%T loses %q", c, lost)
		}
	}
	if lost := codec.JSON[any]().(codec.Lossy).Lost(); len(lost) != 1 || lost[0] != "value"+native {
		t.Errorf("lost of any value: %q", lost)
	}
	_ = inner{hidden: 1}
}

type (
	itself *itself
	row    []row
	trees  map[string]trees
	pairs  [2]*pairs
	nodes  []map[string]*nodes
)

// TestTypesThatConsistOfThemselvesLoseNothing: no field of a struct leads back to them.
func TestTypesThatConsistOfThemselvesLoseNothing(t *testing.T) {
	for _, c := range []any{codec.JSON[itself](), codec.JSON[row](), codec.JSON[trees](), codec.JSON[pairs](), codec.JSON[nodes]()} {
		if lost := c.(codec.Lossy).Lost(); lost != nil {
			t.Errorf("%T loses %q", c, lost)
		}
	}
	type deep struct {
		Trees []trees
		Any   []any
		More  []any
	}
	const native = "[] (only nil, bool, float64, string, []any and map[string]any)"
	if lost := codec.JSON[deep]().(codec.Lossy).Lost(); !slices.Equal(lost, []string{"Any" + native, "More" + native}) {
		t.Errorf("lost: %q", lost)
	}
	v := trees{"a": {"b": nil}}
	data, err := codec.JSON[trees]().Append(nil, v)
	if err != nil {
		t.Fatal(err)
	}
	if back, err := codec.JSON[trees]().Decode(data); err != nil || len(back["a"]) != 1 {
		t.Errorf("%v, %v", back, err)
	}
}

// FuzzDecodeOlder decodes any bytes as the value of an older version. An accepted
// value is one that the conversion has made.
func FuzzDecodeOlder(f *testing.F) {
	f.Add([]byte(`{"Cents":5}`))
	f.Add([]byte(`{"Cents":-5}`))
	f.Add([]byte(strconv.Itoa(math.MaxInt)))
	older := olderOf(f, codec.Versioned(codec.String(), codec.From(codec.JSON[priceV1](), func(p priceV1) (string, error) {
		switch {
		case p.Cents < 0:
			return "half", errors.New("negative")
		case p.Cents > 1<<20:
			panic(p)
		}
		return "ok", nil
	})))[0]
	f.Fuzz(func(t *testing.T, data []byte) {
		v, err := older.Decode(data)
		var e *codec.Error
		if err == nil && v != "ok" || err != nil && (v != "" || !errors.As(err, &e)) {
			t.Fatalf("%q, %v", v, err)
		}
	})
}

type (
	created struct{ time.Time }
	updated struct{ time.Time }
)

// TestTimesThatJSONLeavesOutAreNamed: of two embedded structs with a time, neither has the method that would encode it.
func TestTimesThatJSONLeavesOutAreNamed(t *testing.T) {
	type stamps struct {
		created
		updated
		Name string
	}
	type shared struct {
		Seen sync.Map
		Name string
	}
	now := time.Now()
	data, err := codec.JSON[stamps]().Append(nil, stamps{created{now}, updated{now}, "n"})
	if err != nil || string(data) != `{"Name":"n"}` {
		t.Fatalf("JSON writes %s, %v", data, err)
	}
	for _, lost := range [][]string{codec.JSON[stamps]().(codec.Lossy).Lost(), codec.JSON[[]stamps]().(codec.Lossy).Lost()} {
		if all := strings.Join(lost, " "); !strings.Contains(all, "created.Time") || !strings.Contains(all, "updated.Time") {
			t.Errorf("lost are %q, of %s", lost, data)
		}
	}
	if lost := codec.JSON[*shared]().(codec.Lossy).Lost(); !slices.Equal(lost, []string{"Seen"}) {
		t.Errorf("lost are %q, want the sync.Map", lost)
	}
}
