package explain

import (
	"slices"

	"github.com/strata-cache/strata/internal/cache/l1/local"
	"github.com/strata-cache/strata/internal/cache/ledger"
)

// Memory adds the entry of key in L1 to p. lasts reports whether an entry that is suspect since a time
// may be served while L2 does not answer.
func Memory[K comparable, V any](near *local.Store[K, V], key K, lasts func(since int64) bool, p *Place) {
	if e, now := near.Negatives.Peek(key); e != nil && near.Recall(key) == &e.Value && e.Value.NotFound {
		p.NotFound = true
		p.Fresh, p.Left = local.Until(e.Value.Fresh, now), local.Until(e.Dead, now)
		return
	}
	e, now := near.Values.Glance(key)
	if e == nil {
		return
	}
	e = near.Aged(key, e)
	p.Tags, p.DroppedByTag = slices.Clone(local.RecordOf(e).Traits.Tags()), near.TagsDropped(e)
	v, since := near.Judge(key, e)
	if p.Suspect = v == ledger.Suspect; v >= ledger.Suspect {
		p.Lasts = p.Suspect && now < e.Value.FreshUntil(e.Dead) && lasts(since)
		return
	}
	p.Present = true
	p.Fresh, p.Left = local.Until(e.Value.FreshUntil(e.Dead), now), local.Until(near.Values.End(e), now)
	if p.Expired = e.Value.Expired(); p.Expired {
		p.Fresh = 0
	}
	p.Served = p.Fresh <= 0 && near.Revalidates(e, now)
	p.Fallback = p.Fresh <= 0 && now < near.OnErrorUntil(e)
}
