package envelope_test

import (
	"bytes"
	"encoding/hex"
	"errors"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/strata-cache/strata/internal/cache/envelope"
)

// uuid is a key as libraries for UUIDs have it.
type uuid [16]byte

func (u uuid) MarshalText() ([]byte, error) { return hex.AppendEncode(nil, u[:]), nil }

func (u *uuid) UnmarshalText(text []byte) error {
	if len(text) != 2*len(u) {
		return errors.New("length of " + string(text))
	}
	_, err := hex.Decode(u[:], text)
	return err
}

// id is a string with the methods of a text, another one than the string.
type id string

func (i id) MarshalText() ([]byte, error) { return []byte("text of " + i), nil }

func (i *id) UnmarshalText(text []byte) error {
	*i = id(bytes.TrimPrefix(text, []byte("text of ")))
	return nil
}

// level is an integer with a text.
type level int

func (l level) MarshalText() ([]byte, error)  { return []byte(strings.Repeat("!", int(l))), nil }
func (l *level) UnmarshalText(t []byte) error { *l = level(len(t)); return nil }

// folded has one text for upper and lower case.
type folded struct{ s string }

func (f folded) MarshalText() ([]byte, error)  { return []byte(strings.ToLower(f.s)), nil }
func (f *folded) UnmarshalText(t []byte) error { f.s = string(t); return nil }

// fickle has no text for some keys.
type fickle struct{ n int }

var errFickle = errors.New("secret 7")

func (f fickle) MarshalText() ([]byte, error) {
	if f.n == 7 {
		return nil, errFickle
	}
	return []byte("odd"), nil
}

func (f *fickle) UnmarshalText([]byte) error { return errFickle }

func comesBack[K comparable](t *testing.T, key K, want string) {
	t.Helper()
	n, ok := envelope.Default[K]()
	if !ok {
		t.Fatalf("%T: no names", key)
	}
	name, err := n.Of(key)
	if name != want || err != nil {
		t.Errorf("%T: the name of %v is %q, %v; want %q", key, key, name, err, want)
	}
	if back, err := n.Parse(name); back != key || err != nil {
		t.Errorf("%T: %q is the name of %v, %v; want %v", key, name, back, err, key)
	}
}

func TestKeysComeBackFromTheirNames(t *testing.T) {
	comesBack(t, "a key", "a key")
	comesBack(t, int8(-7), "-7")
	comesBack(t, ^uint64(0), "18446744073709551615")
	comesBack(t, uuid{1, 15: 255}, "010000000000000000000000000000ff")
	comesBack(t, netip.MustParseAddr("fe80::1%eth0"), "fe80::1%eth0")
	comesBack(t, netip.MustParsePrefix("10.0.0.0/8"), "10.0.0.0/8")
	comesBack(t, time.Unix(1, 5).UTC(), "1970-01-01T00:00:01.000000005Z")
}

func TestTextMethodsOfStringsAndIntegersAreNotUsed(t *testing.T) {
	comesBack(t, id("x"), "x")
	comesBack(t, level(3), "3")
}

func TestTypesWithoutATextHaveNoNames(t *testing.T) {
	hasNone[float64](t)
	hasNone[struct{ A int }](t)
	hasNone[*uuid](t)
	hasNone[any](t)
	hasNone[struct{ Key any }](t)
	hasNone[writeOnly](t)
	hasNone[readOnly](t)
}

type writeOnly struct{ a int }

func (writeOnly) MarshalText() ([]byte, error) { return nil, nil }

type readOnly struct{ a int }

func (*readOnly) UnmarshalText([]byte) error { return nil }

func hasNone[K comparable](t *testing.T) {
	t.Helper()
	if _, ok := envelope.Default[K](); ok {
		t.Errorf("%T has names", *new(K))
	}
}

func TestTextThatIsNotOfItsKeyAloneIsRefused(t *testing.T) {
	refused(t, folded{"A"}, nil)
	refused(t, time.Now(), nil) // has a reading of the monotonic clock
	refused(t, time.Unix(1, 0).In(time.FixedZone("", 60)), nil)
	refused(t, fickle{7}, errFickle)
	refused(t, fickle{8}, errFickle)
	n, _ := envelope.Default[uuid]()
	if key, err := n.Parse("0102"); err == nil || key != (uuid{}) || strings.Contains(err.Error(), "0102") {
		t.Errorf("a short text is parsed to %v, %v", key, err)
	}
}

func refused[K comparable](t *testing.T, key K, cause error) {
	t.Helper()
	n, _ := envelope.Default[K]()
	name, err := n.Of(key)
	var e *envelope.TextError
	if name != "" || !errors.As(err, &e) || !errors.Is(err, cause) && cause != nil {
		t.Errorf("the name of %v is %q, %v", key, name, err)
	} else if strings.Contains(err.Error(), "secret") {
		t.Errorf("the error quotes the key: %v", err)
	}
}

func TestGivenNamesArePassedOn(t *testing.T) {
	n := envelope.Given(func(k int) string { return strings.Repeat("x", k) }, nil)
	if name, err := n.Of(3); name != "xxx" || err != nil || n.Parse != nil {
		t.Errorf("the name of 3 is %q, %v", name, err)
	}
}
