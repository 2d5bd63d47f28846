package expiry_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/strata-cache/strata/internal/cache/expiry"
)

func TestTimesOfAnEntryImplyItsBirth(t *testing.T) {
	b := expiry.NewBirths(time.Hour, 0.1, false)
	r := rand.New(rand.NewPCG(5, 6))
	for range 10_000 {
		born, life := 1+r.Int64N(1<<50), b.Jittered(b.TTL)
		if life > b.TTL || life < b.TTL*9/10 {
			t.Fatalf("a TTL of %v became %v", b.TTL, life)
		}
		fresh := born + int64(life)
		l, dead := expiry.New(1, 0, fresh, fresh+int64(time.Minute))
		bits, ok := b.Implies(born, l.FreshUntil(dead))
		if !ok {
			t.Fatalf("a life of %v implies no birth", life)
		}
		l.State |= bits
		if got := b.Implied(&l, dead); got != born {
			t.Fatalf("born %d, implied %d", born, got)
		}
		if l.Stamp() != 1 || l.Expired() {
			t.Fatal("the bits of the birth are those of others")
		}
	}
}

func TestOtherLivesImplyNoBirth(t *testing.T) {
	b := expiry.NewBirths(time.Hour, 0.1, false)
	for name, life := range map[string]time.Duration{"longer": time.Hour + 1, "shorter": time.Minute} {
		if _, ok := b.Implies(1, 1+int64(life)); ok {
			t.Errorf("%s: a life of %v implies a birth", name, life)
		}
	}
	b.Hashed = true
	if _, ok := b.Implies(1, 1+int64(b.TTL)); ok {
		t.Error("the bits have a hash, and a birth as well")
	}
	b = expiry.NewBirths(forever, 0.1, false)
	if _, ok := b.Implies(5, forever); !ok || b.Implied(&expiry.Lives{}, forever) != 0 || b.Before(7, time.Second) != 0 {
		t.Error("the birth of an entry without an end is not known")
	}
}
