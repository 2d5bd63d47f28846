package transfer

import (
	"context"
	"time"

	"github.com/strata-cache/strata/internal/cache/ledger"
	"github.com/strata-cache/strata/remote"
)

// Cover compares the drops that another instance knows with the drops that this one
// knows.
type Cover struct {
	// Alone says that no other instance can drop anything.
	Alone bool
	// Witness is nil if no drops are known.
	Witness *ledger.Witness
	// Tier is the position of the tier after the begin of Witness; without lanes if it is
	// not known.
	Tier remote.Position
	// Connected reports whether the bus is connected.
	Connected func() bool

	covered ledger.Coverage
}

const (
	// coverWithin is the time for messages to arrive that another instance has had.
	coverWithin = time.Second
	coverPoll   = 10 * time.Millisecond
)

// Learn is [Restore.Cover].
func (c *Cover) Learn(ctx context.Context, position []byte) (suspect string) {
	c.covered = ledger.Coverage{}
	switch {
	case c.Alone:
		return ""
	case c.Witness == nil:
		return "the drops of this cache have no positions, as those of memcached"
	case position == nil:
		return "the snapshot has no position: its cache had no L2 with positions, or its bus was silent"
	}
	p, err := ParsePosition(position)
	switch {
	case err != nil:
		return err.Error()
	case !c.Connected() || len(c.Tier.Lanes) == 0:
		return "the bus of this instance is silent"
	case p.Epoch != c.Tier.Epoch:
		return "the snapshot comes from instances with another L2, or from before L2 lost its data"
	}
	for deadline := time.Now().Add(coverWithin); ; {
		c.covered = c.Witness.Covers(&c.Tier, &p)
		if !c.covered.Awaits || !time.Now().Before(deadline) || pause(ctx, coverPoll) != nil {
			break
		}
	}
	if !c.covered.Whole() {
		return "keys were dropped since the snapshot"
	}
	return ""
}

// Covers reports whether the entry of a name is covered. lane returns its lane, for tiers
// with lanes. While the bus is silent no entry is covered.
func (c *Cover) Covers(lane func(name string) uint16, name string, tagged bool) bool {
	return c.Alone || len(c.covered.Lanes) > 0 && c.Connected() && c.covered.Covers(lane(name), tagged)
}
