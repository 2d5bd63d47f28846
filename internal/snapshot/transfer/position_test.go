package transfer

import (
	"bytes"
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/strata-cache/strata/remote"
)

func sample(r *rand.Rand) remote.Position {
	p := remote.Position{Epoch: "an epoch", Drops: r.Uint64N(9), Expiries: r.Uint64N(300), Clock: r.Uint64()}
	p.Lanes = make([]remote.LaneVersion, r.IntN(40))
	for i := range p.Lanes {
		p.Lanes[i] = remote.LaneVersion{Count: r.Uint64N(1 << r.IntN(63)), Nonce: r.Uint64()}
	}
	return p
}

func TestPositionComesBack(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 1000 {
		p := sample(r)
		if back, err := ParsePosition(AppendPosition(nil, &p)); err != nil || !reflect.DeepEqual(back, p) {
			t.Fatalf("%+v\n%+v %v", p, back, err)
		}
	}
}

func TestMalformedPositionIsRefused(t *testing.T) {
	p := sample(rand.New(rand.NewPCG(3, 4)))
	b := AppendPosition(nil, &p)
	for n := range b {
		if _, err := ParsePosition(b[:n]); err == nil {
			t.Errorf("%d of %d bytes are accepted", n, len(b))
		}
	}
	if _, err := ParsePosition(append(bytes.Clone(b), 0)); err == nil {
		t.Error("a byte more is accepted")
	}
	for _, hostile := range []string{"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", "\x00\x00\x00\x00\xff\xff\x03", "\x00\x00\x00\x00\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", "\x80\x00\x00\x00\x00\x00"} {
		if _, err := ParsePosition([]byte(hostile)); err == nil {
			t.Errorf("%q is accepted", hostile)
		}
	}
}

func FuzzPosition(f *testing.F) {
	p := sample(rand.New(rand.NewPCG(5, 6)))
	f.Add(AppendPosition(nil, &p))
	f.Fuzz(func(t *testing.T, b []byte) {
		p, err := ParsePosition(b)
		if err == nil && !bytes.Equal(AppendPosition(nil, &p), b) {
			t.Errorf("%q is read as %+v", b, p)
		}
	})
}
