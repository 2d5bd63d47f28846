package envelope

import (
	"encoding/binary"
	"math"
	"time"

	"github.com/strata-cache/strata/internal/cache/expiry"
)

// AppendLives appends the lives that a value has of its own to dst, which Begin has
// started and which has its tags already. The caller then appends the payload and
// calls Seal with the flag [Lived].
func AppendLives(dst []byte, o *expiry.Own) []byte {
	for _, d := range [...]time.Duration{o.Revalidate, o.OnError, o.Memory} {
		dst = binary.AppendUvarint(dst, uint64(max(expiry.None, d))+1) // None is 0
	}
	return dst
}

// CutLives splits a payload that Open has returned with the flag [Lived], and of which
// CutTags has cut the tags if it has the flag [Tagged], into the lives and the payload
// proper. ok is false if b does not have that form.
func CutLives(b []byte) (o *expiry.Own, payload []byte, ok bool) {
	c := cutter{b: b, ok: true}
	var all [3]time.Duration
	for i := range all {
		n := c.number()
		c.ok = c.ok && n <= math.MaxInt64+1
		all[i] = time.Duration(n - 1) // 0 is None
	}
	if !c.ok {
		return nil, nil, false
	}
	return &expiry.Own{Revalidate: all[0], OnError: all[1], Memory: all[2]}, c.b, true
}
