// Witnesses: they tell whether the position of another instance is as new as the
// position of the tier was at some time.
//
// States of a lane, for a witness: covered at the version that the tier had, and at the
// versions in later messages; not covered at any other version.
//
// Invariant: if a witness covers a lane at a version, each later drop of the lane was
// carried out after the witness began. So this instance is told of it, or makes it
// itself, or the lane becomes suspect for entries with a stamp from before the witness.

package ledger

import (
	"slices"
	"sync"

	"github.com/strata-cache/strata/remote"
)

// maxPassed is the number of changes of lane versions that a witness remembers. It
// covers no later ones.
const maxPassed = 1 << 16

// Witness remembers in which order lanes came to their versions here, since it began.
type Witness struct {
	mu    sync.Mutex // guards below
	order map[passedVersion]int
}

type passedVersion struct {
	lane    int
	version remote.LaneVersion
}

// Witness begins a witness, which [Ledger.Dismiss] ends.
func (l *Ledger) Witness() *Witness {
	l.mu.Lock()
	defer l.mu.Unlock()
	w := &Witness{order: make(map[passedVersion]int)}
	for i, v := range l.known.Lanes {
		w.order[passedVersion{i, v}] = 0
	}
	l.witnesses = append(l.witnesses, w)
	return w
}

// Dismiss ends a witness.
func (l *Ledger) Dismiss(w *Witness) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.witnesses = slices.DeleteFunc(l.witnesses, func(x *Witness) bool { return x == w })
}

// Known returns the position that this instance has come to, and false if there is none.
func (l *Ledger) Known() (p remote.Position, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	p = l.known.Position
	p.Lanes = slices.Clone(p.Lanes)
	return p, l.known.taken
}

// saw tells the witnesses that a lane has a version now. mu of the ledger is held.
func (l *Ledger) saw(lane int, version remote.LaneVersion) {
	for _, w := range l.witnesses {
		w.mu.Lock()
		if n := len(w.order); n < len(l.known.Lanes)+maxPassed {
			w.order[passedVersion{lane, version}] = n + 1
		}
		w.mu.Unlock()
	}
}

// Covers compares p, the position of another instance, with tier, the position that the
// tier has told after the witness began.
func (w *Witness) Covers(tier, p *remote.Position) (c Coverage) {
	if len(p.Lanes) == 0 || tier.Epoch != p.Epoch || len(tier.Lanes) != len(p.Lanes) || p.Drops < tier.Drops || p.Expiries < tier.Expiries {
		return c
	}
	c.Tags = p.Clock >= tier.Clock
	c.Lanes = make([]bool, len(p.Lanes))
	w.mu.Lock()
	defer w.mu.Unlock()
	for i, v := range p.Lanes {
		c.Lanes[i] = v == tier.Lanes[i] || w.after(i, v, tier.Lanes[i])
		c.Awaits = c.Awaits || !c.Lanes[i] && v.Count > tier.Lanes[i].Count
	}
	return c
}

// after reports whether a lane came to version v here after it had come to another. mu is
// held.
func (w *Witness) after(lane int, v, other remote.LaneVersion) bool {
	at, ok := w.order[passedVersion{lane, v}]
	since, reached := w.order[passedVersion{lane, other}]
	return ok && reached && at > since
}

// Coverage is the part of another instance's entries for which this instance can
// answer. The zero Coverage covers none.
type Coverage struct {
	// Lanes has an element for each lane; nil if no lane is covered.
	Lanes []bool
	// Tags: entries with tags are covered, too.
	Tags bool
	// Awaits says that a lane may be covered once more messages have arrived.
	Awaits bool
}

// Whole reports whether everything is covered.
func (c Coverage) Whole() bool { return len(c.Lanes) > 0 && c.Tags && !slices.Contains(c.Lanes, false) }

// Covers reports whether an entry of the lane is covered.
func (c Coverage) Covers(lane uint16, tagged bool) bool {
	return int(lane) < len(c.Lanes) && c.Lanes[lane] && (c.Tags || !tagged)
}
