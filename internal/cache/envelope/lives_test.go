package envelope_test

import (
	"bytes"
	"math"
	"testing"
	"time"

	"github.com/strata-cache/strata/internal/cache/envelope"
	"github.com/strata-cache/strata/internal/cache/expiry"
)

func TestLivesAreReadBackBehindTags(t *testing.T) {
	for _, d := range []time.Duration{expiry.None, 0, 1, time.Hour, math.MaxInt64} {
		own := expiry.Own{Revalidate: d, OnError: time.Second, Memory: d}
		b := envelope.AppendTags(envelope.Begin(nil), 7, []string{"t"})
		b = append(envelope.AppendLives(b, &own), "payload"...)
		envelope.Seal(b, "k", 1, envelope.Tagged|envelope.Lived)
		payload, flags, err := envelope.Open(b, "k", 1)
		if err != nil || flags != envelope.Tagged|envelope.Lived {
			t.Fatalf("flags %d, %v", flags, err)
		}
		_, _, payload, ok := envelope.CutTags(payload)
		got, payload, ok2 := envelope.CutLives(payload)
		if !ok || !ok2 || *got != own || string(payload) != "payload" {
			t.Errorf("%v: %+v, %q, %v, %v", d, got, payload, ok, ok2)
		}
	}
}

func FuzzCutLives(f *testing.F) {
	f.Add([]byte{1, 0, 2, 'v'})
	f.Add(bytes.Repeat([]byte{0xff}, 30))
	f.Fuzz(func(t *testing.T, b []byte) {
		own, rest, ok := envelope.CutLives(b)
		if !ok {
			if own != nil || rest != nil {
				t.Errorf("%v and %q beside an error", own, rest)
			}
			return
		}
		for _, d := range []time.Duration{own.Revalidate, own.OnError, own.Memory} {
			if d < expiry.None {
				t.Errorf("a window of %v", d)
			}
		}
		if again, _, ok := envelope.CutLives(append(envelope.AppendLives(nil, own), rest...)); !ok || *again != *own {
			t.Errorf("%+v becomes %+v", own, again)
		}
	})
}
