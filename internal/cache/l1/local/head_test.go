package local

import (
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/strata-cache/strata/internal/cache/expiry"
	"github.com/strata-cache/strata/internal/cache/l1"
	"github.com/strata-cache/strata/remote"
)

// TestHeadOfAnEncodedEntryIsReadAsItWasWritten writes heads with any parts before a value.
func TestHeadOfAnEncodedEntryIsReadAsItWasWritten(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	some := func() bool { return r.IntN(2) == 0 }
	for range 20_000 {
		want := head{dead: l1.Forever, number: r.Uint64() >> r.IntN(64)}
		want.lives.State = r.Uint64()>>r.IntN(64)&^expiry.Recorded | 1
		if some() {
			want.dead = r.Int64N(1 << 62)
		}
		if some() {
			want.lives.Fresh, want.lives.Soon = expiry.Span(r.Uint32()), expiry.Span(r.Uint32())
		}
		if some() {
			want.lives.State |= expiry.Recorded
			want.record.ID, want.record.Born = remote.ID(r.Uint64()), r.Int64()
			var tags []string
			var own *expiry.Own
			if some() {
				tags = []string{"a", string(make([]byte, r.IntN(500)+1))}
			}
			if some() {
				own = &expiry.Own{Revalidate: expiry.None, OnError: 5, Memory: 7}
			}
			want.record.Traits = NewTraits(tags, 0, own)
			if len(tags) > 0 {
				want.record.Traits.seen.Store(r.Uint64())
			}
		}
		form := append(appendHead(nil, want), "value"...)
		got, payload := cutHead(form)
		if string(payload) != "value" || !reflect.DeepEqual(got, want) {
			t.Fatalf("wrote %+v, read %+v and %q", want, got, payload)
		}
		if deadIn(form) != want.dead || numberIn(form) != want.number {
			t.Fatalf("ends at %d, number %d; want %d, %d", deadIn(form), numberIn(form), want.dead, want.number)
		}
	}
}
