package codec_test

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/strata-cache/strata/codec"
	"github.com/strata-cache/strata/codec/flate"
	"github.com/strata-cache/strata/internal/testing/kit"
)

// The first byte of a value stored without compression, and of a compressed value.
const (
	asEncoded    = 0
	asCompressed = 1
)

func compressedBytes(min int) codec.Codec[[]byte] {
	return codec.Compressed(codec.Bytes(), min, flate.New())
}

// rows returns JSON of users, which compresses to a fraction of its size.
func rows(n int) []user {
	r := rand.New(rand.NewPCG(3, 4))
	words := strings.Fields("the a with for light steel cotton garden table lamp wooden small large blue green")
	all := make([]user, n)
	for i := range all {
		u := sampleUser()
		u.ID, u.Name = r.Int64(), words[r.IntN(len(words))]+" "+words[r.IntN(len(words))]
		all[i] = u
	}
	return all
}

func TestCompressedValuesSurviveTheRoundTrip(t *testing.T) {
	for _, min := range []int{-1, 0, 1, 1000, 1 << 20} {
		for _, text := range kit.Texts() {
			roundTrip(t, compressedBytes(min), text)
		}
		for _, n := range []int{0, 1, 2, 30, 3000} {
			roundTrip(t, codec.Compressed(codec.JSON[[]user](), min, flate.New()), rows(n))
		}
	}
}

// TestAnyValueSurvivesCompression is the property over chosen lengths and contents: a
// value comes back, and takes one byte more than without compression at most.
func TestAnyValueSurvivesCompression(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for range kit.Rounds(300) {
		text := make([]byte, r.IntN(1<<r.IntN(19)))
		for i := range text { // from one repeated byte to noise
			text[i] = byte(r.IntN(1 + r.IntN(1<<(len(text)%9))))
		}
		c := compressedBytes(r.IntN(2000))
		roundTrip(t, c, text)
		if data := appended(t, c, text); len(data) > len(text)+1 {
			t.Fatalf("%d bytes became %d", len(text), len(data))
		}
	}
}

func appended[V any](t testing.TB, c codec.Codec[V], v V) []byte {
	t.Helper()
	data, err := c.Append(nil, v)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestOnlyLargeValuesThatShrinkAreCompressed(t *testing.T) {
	noise := kit.Texts()[3]
	for what, tt := range map[string]struct {
		min  int
		text []byte
		mark byte
	}{
		"below the minimum":         {101, bytes.Repeat([]byte("a"), 100), asEncoded},
		"the minimum":               {100, bytes.Repeat([]byte("a"), 100), asCompressed},
		"noise":                     {0, noise, asEncoded},
		"nothing":                   {0, nil, asEncoded},
		"one byte":                  {0, []byte("a"), asEncoded},
		"zeros that any length may": {0, make([]byte, 64<<10), asCompressed},
		"more zeros":                {0, make([]byte, 64<<10+1), asEncoded},
		"many zeros, and noise":     {0, append(make([]byte, 200_000), noise...), asCompressed},
		"more than is accepted":     {0, make([]byte, 64<<20+1), asEncoded},
	} {
		data := appended(t, compressedBytes(tt.min), tt.text)
		if data[0] != tt.mark {
			t.Errorf("%s: marker %d, want %d", what, data[0], tt.mark)
		}
		if tt.mark == asEncoded && !bytes.Equal(data[1:], tt.text) {
			t.Errorf("%s: the encoding is not stored as it is", what)
		}
		if got, err := compressedBytes(0).Decode(data); err != nil || !bytes.Equal(got, tt.text) {
			t.Errorf("%s: not read by a codec with another minimum: %v", what, err)
		}
	}
}

// TestCompressedCountsTheValuesThatItLeaves: also behind other codecs. Values that are too
// small, too large, or do not shrink count as raw. A value without an encoding counts as
// neither.
func TestCompressedCountsTheValuesThatItLeaves(t *testing.T) {
	inner := codec.Compressed(codec.Bytes(), 500, flate.New())
	c := codec.Versioned(codec.WithName(inner, "pages"), codec.From(codec.String(), func(s string) ([]byte, error) { return []byte(s), nil }))
	for i, tt := range []struct {
		text            []byte
		shortened, raws uint64
	}{
		{bytes.Repeat([]byte("a"), 499), 0, 1},
		{bytes.Repeat([]byte("a"), 500), 1, 1},
		{kit.Texts()[3], 1, 2},
		{make([]byte, 64<<20+1), 1, 3},
		{nil, 1, 4},
		{bytes.Repeat([]byte("a"), 5000), 2, 4},
	} {
		data := appended(t, c, tt.text)
		for _, of := range []codec.Codec[[]byte]{inner, c} {
			shortened, raw := of.(interface {
				Counts() (shortened, raw uint64)
			}).Counts()
			if shortened != tt.shortened || raw != tt.raws {
				t.Errorf("%d: %d compressed, %d raw; want %d, %d", i, shortened, raw, tt.shortened, tt.raws)
			}
		}
		if v, err := c.Decode(data); !bytes.Equal(v, tt.text) || err != nil {
			t.Errorf("%d: %d bytes, %v", i, len(v), err)
		}
	}
	broken := codec.Compressed(codec.Bytes(), 0, awkward{})
	if _, err := broken.Append(nil, []byte("value")); err == nil {
		t.Fatal("no error")
	}
	if shortened, raw := broken.(interface {
		Counts() (shortened, raw uint64)
	}).Counts(); shortened+raw > 0 {
		t.Errorf("%d, %d without a value", shortened, raw)
	}
}

func TestCompressionIsWorthIt(t *testing.T) {
	plain := appended(t, codec.JSON[[]user](), rows(500))
	short := appended(t, codec.Compressed(codec.JSON[[]user](), 1000, flate.New()), rows(500))
	if len(short)*3 > len(plain) {
		t.Errorf("%d bytes of JSON became %d, want a third", len(plain), len(short))
	}
}

func TestCompressedHasTheAbilitiesOfItsCodec(t *testing.T) {
	c := codec.Compressed(prices(), 100, flate.New())
	if c.Name() != "json+flate" || codec.WithName(c, "p2").Name() != "p2" {
		t.Errorf("named %q", c.Name())
	}
	if older := olderOf(t, c); len(older) != 1 || older[0].Fingerprint != codec.Fingerprint(codec.JSON[priceV1]()) {
		t.Errorf("older versions: %+v", older)
	}
	if lost := codec.Compressed(codec.JSON[struct{ a, B int }](), 1, flate.New()).(codec.Lossy).Lost(); !slices.Equal(lost, []string{"a"}) {
		t.Errorf("lost: %q", lost)
	}
	if err := codec.Compressed(codec.JSON[chan int](), 1, flate.New()).(codec.Checker).Check(); err == nil {
		t.Error("the error of the codec inside is lost")
	}
	if err := c.(codec.Checker).Check(); err != nil {
		t.Error(err)
	}
}

// TestFingerprintOfCompressedValues: other bytes have another fingerprint, and the
// tags that the codec does not read do not count, as without compression.
func TestFingerprintOfCompressedValues(t *testing.T) {
	of := codec.Fingerprint(codec.Compressed(codec.JSON[priceV2](), 1, flate.New()))
	if of == codec.Fingerprint(codec.JSON[priceV2]()) {
		t.Error("compressed values are read by a codec without compression")
	}
	if of != codec.Fingerprint(codec.Compressed(prices(), 5000, flate.New())) {
		t.Error("the minimum changes the fingerprint")
	}
	if of != codec.Fingerprint(codec.WithName(codec.JSON[priceV2](), "json+flate")) {
		t.Error("the keys of tags that count are not those of the codec inside")
	}
}

func TestValuesFromBeforeCompressionAreReadAsAnOlderVersion(t *testing.T) {
	same := func(p priceV2) (priceV2, error) { return p, nil }
	c := codec.Versioned(codec.Compressed(codec.JSON[priceV2](), 1, flate.New()), codec.From(codec.JSON[priceV2](), same))
	if err := c.(codec.Checker).Check(); err != nil {
		t.Fatal(err)
	}
	old := appended(t, codec.JSON[priceV2](), priceV2{5, "EUR"})
	if v, err := olderOf(t, c)[0].Decode(old); v != (priceV2{5, "EUR"}) || err != nil {
		t.Errorf("%+v, %v", v, err)
	}
}

func TestFailedAppendOfACompressedValueReturnsDst(t *testing.T) {
	out, err := codec.Compressed(codec.JSON[func()](), 0, flate.New()).Append([]byte("abc"), nil)
	if err == nil || string(out) != "abc" {
		t.Errorf("got %q, %v", out, err)
	}
	out, err = codec.Compressed(codec.String(), 0, awkward{}).Append([]byte("abc"), "value")
	var e *codec.Error
	if !errors.As(err, &e) || e.Op != "encode" || e.Codec != "string+awkward" || string(out) != "abc" {
		t.Errorf("got %q, %v", out, err)
	}
}

// awkward is a format that fails, or decompresses to out.
type awkward struct{ out string }

func (awkward) Name() string { return "awkward" }

func (awkward) Compress(dst, _ []byte) ([]byte, error) { return dst, errors.New("out of order") }

func (a awkward) Decompress(dst, _ []byte) ([]byte, error) { return append(dst, a.out...), nil }

func TestLengthIsThatOfTheDecompressedBytes(t *testing.T) {
	input := []byte{asCompressed, 5, 'x'}
	for out, want := range map[string]error{"four": codec.ErrShort, "fives": nil} {
		v, err := codec.Compressed(codec.String(), 0, awkward{out}).Decode(input)
		if !errors.Is(err, want) || err == nil && v != out {
			t.Errorf("%q where 5 bytes are announced: %q, %v; want %v", out, v, err, want)
		}
	}
}

func TestDecompressedValuesDoNotShareMemory(t *testing.T) {
	c := compressedBytes(0)
	first, second := bytes.Repeat([]byte("first"), 100), bytes.Repeat([]byte("other"), 100)
	for what, decode := range map[string]func([]byte) ([]byte, error){
		"Decode": c.Decode, "DecodeAlias": c.(codec.Aliaser[[]byte]).DecodeAlias,
	} {
		v, err := decode(appended(t, c, first))
		for range 3 {
			if err == nil {
				_, err = decode(appended(t, c, second))
			}
		}
		if err != nil || !reflect.DeepEqual(v, first) {
			t.Errorf("%s: a value has changed to %.20q, %v", what, v, err)
		}
	}
}

func TestAliasedValuesReferToInputThatIsNotCompressed(t *testing.T) {
	text := kit.Texts()[3]
	data := appended(t, compressedBytes(0), text)
	v, err := compressedBytes(0).(codec.Aliaser[[]byte]).DecodeAlias(data)
	if err != nil || &v[0] != &data[1] || len(v) != len(text) {
		t.Errorf("%d bytes, %v; want the input behind its marker", len(v), err)
	}
	short := codec.Compressed(codec.JSON[[]user](), 0, flate.New())
	all, err := short.(codec.Aliaser[[]user]).DecodeAlias(appended(t, short, rows(50)))
	if err != nil || !reflect.DeepEqual(all, rows(50)) {
		t.Errorf("a codec without DecodeAlias inside: %d users, %v", len(all), err)
	}
}
