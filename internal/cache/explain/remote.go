package explain

import (
	"context"
	"time"

	"github.com/strata-cache/strata/internal/cache/envelope"
	"github.com/strata-cache/strata/internal/cache/expiry"
	"github.com/strata-cache/strata/remote"
)

// Remote is L2, as a cache reads it.
type Remote struct {
	Timeout time.Duration
	// Read asks for the value under a name, of any version of the program.
	Read func(ctx context.Context, name string) (remote.Held, error)
	// Open removes the envelope of a value, and returns the version of the program that wrote
	// it. Decode decodes the rest.
	Open   func(data []byte, name string) (payload []byte, flags envelope.Flags, version int, err error)
	Decode func(payload []byte, version int) error
	// Tags asks for the drops of tags. It is not called if Untagged, the error of a tier
	// without tags, is set.
	Tags     func(ctx context.Context, tags []string) ([]remote.Tag, error)
	Untagged error
	// Since returns the time since a stale value ended, and whether a caller has expired it.
	// byTag: a caller has expired one of its tags. own are its lives; nil stands for the lives in
	// the Options. unbounded says that L2 keeps it for too long.
	Since func(h *remote.Held, byTag bool, tags []string, own *expiry.Own) (age time.Duration, expired, unbounded bool)
	// WhileRevalidate and OnError are the windows of stale values.
	WhileRevalidate, OnError time.Duration
}

// Look adds the entry under name to p.
func (r *Remote) Look(ctx context.Context, name string, p *Place) {
	ctx, cancel := remote.WithTimeout(ctx, r.Timeout)
	defer cancel()
	h, err := r.Read(ctx, name)
	if err != nil {
		p.Err, p.Silent = err, true
		return
	}
	if h.Absent() || h.Data == nil {
		return
	}
	payload, flags, version, err := r.Open(h.Data, name)
	if err != nil {
		p.Err = err
		return
	}
	p.Fresh, p.Left = h.Fresh, h.Left
	// The envelope has its parts in this order: tags, lives, the encoded value.
	if flags&envelope.Tagged != 0 {
		if payload, err = r.tags(ctx, payload, p); err != nil || p.DroppedByTag {
			p.Fresh, p.Left, p.Err = 0, 0, err
			return
		}
	}
	var own *expiry.Own
	if flags&envelope.Lived != 0 {
		var ok bool
		if own, payload, ok = envelope.CutLives(payload); !ok {
			p.Fresh, p.Left, p.Err = 0, 0, envelope.ErrForeign
			return
		}
	}
	// From here on, a read would use the entry.
	p.Present, p.NotFound = flags&envelope.NotFound == 0, flags&envelope.NotFound != 0
	if p.Size = len(payload); p.Present {
		p.Err = r.Decode(payload, version)
		r.stale(&h, own, p)
	}
}

// stale adds the uses of a stale value.
func (r *Remote) stale(h *remote.Held, own *expiry.Own, p *Place) {
	if p.Fresh > 0 {
		return
	}
	age, soft, _ := r.Since(h, p.Expired, p.Tags, own)
	p.Expired = soft
	revalidate, onError := own.Windows(r.WhileRevalidate, r.OnError)
	p.Served, p.Fallback = !soft && age < revalidate, age < onError
}

// tags takes the tags from body, and adds the effect of their drops on the entry.
func (r *Remote) tags(ctx context.Context, body []byte, p *Place) (payload []byte, err error) {
	clock, tags, payload, ok := envelope.CutTags(body)
	if p.Tags = tags; !ok {
		return nil, envelope.ErrTag
	}
	if r.Untagged != nil {
		return nil, r.Untagged
	}
	known, err := r.Tags(ctx, tags)
	if err != nil {
		p.Silent = true
		return nil, err
	}
	for _, t := range known {
		p.DroppedByTag = p.DroppedByTag || t.Dropped > clock
		if t.Expired > clock {
			p.Fresh, p.Expired = min(p.Fresh, 0), true
		}
	}
	return payload, nil
}
