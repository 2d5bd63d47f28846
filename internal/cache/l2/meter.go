// The durations and sizes of operations on L2. Invariant: each request to the tier but
// probes and positions is counted once, when it has ended.

package l2

import (
	"context"
	"time"

	"github.com/strata-cache/strata/internal/observe"
	"github.com/strata-cache/strata/remote"
)

// Operation names an operation of the tier in metrics.
type Operation uint8

// The operations.
const (
	Get Operation = iota
	GetTags
	Acquire
	PutValues
	Extend
	Renew
	Release
	Drop
	DropTags
	DropAll
	Operations // the number of them
)

// String returns the name of the operation as metrics label it.
func (o Operation) String() string {
	return [Operations]string{
		"get", "tags", "acquire", "put", "extend", "renew", "release", "drop", "drop_tags", "drop_all",
	}[o]
}

// Result is the end of an operation.
type Result uint8

// The results of operations.
const (
	OK Result = iota
	Failed
	TimedOut  // failed, since no answer has come in time
	Cancelled // the caller has left
	Results   // the number of them
)

// String returns the name of the result as metrics label it.
func (r Result) String() string { return [Results]string{"ok", "error", "timeout", "cancelled"}[r] }

// Meter has the durations of all operations on the tier and the sizes of values.
type Meter struct {
	Took [Operations][Results]observe.Durations
	// Read and Written are the sizes of values on their way from and to the tier.
	Read, Written observe.Sizes

	bulk  bulk
	worth worth
}

// Meter returns the durations and sizes; nil without a tier.
func (s *Store) Meter() *Meter { return s.meter }

// end counts an operation under ctx, begun at some time and ended with err. It returns err.
func (m *Meter) end(ctx context.Context, op Operation, begun time.Time, err error) error {
	r := OK
	switch {
	case err == nil:
	// The order matters: a caller that has left also makes the operation fail, which says nothing
	// about L2.
	case CallerLeft(ctx) != nil:
		r = Cancelled
	case timedOut(err):
		r = TimedOut
	default:
		r = Failed
	}
	m.Took[op][r].Add(time.Since(begun))
	return err
}

// held counts the size of a value after a read.
func (m *Meter) held(h remote.Held) {
	if n := len(h.Data); n > 0 {
		m.Read.Add(n)
		m.bulk.add(n)
	}
}

// put stores values in the tier.
func (s *Store) put(ctx context.Context, puts []remote.Put) (refused []int, err error) {
	for i := range puts {
		if puts[i].Left > 0 {
			s.meter.Written.Add(len(puts[i].Data))
			s.meter.bulk.add(len(puts[i].Data))
		}
	}
	begun := time.Now()
	refused, err = s.tier.Put(ctx, puts)
	return refused, s.meter.end(ctx, PutValues, begun, err)
}

// drop drops keys in the tier.
func (s *Store) drop(ctx context.Context, drops []remote.Drop) (leases []remote.Lease, err error) {
	begun := time.Now()
	leases, err = s.tier.Drop(ctx, drops)
	return leases, s.meter.end(ctx, Drop, begun, err)
}

// tags asks the tier for the drops of tags.
func (s *Store) tags(ctx context.Context, tags []string) (known []remote.Tag, err error) {
	begun := time.Now()
	known, err = s.can.tag.Tags(ctx, tags)
	return known, s.meter.end(ctx, GetTags, begun, err)
}

// get asks a view of the tier for values. Values with the IDs in known need not be sent.
func (s *Store) get(ctx context.Context, view remote.Tier, names []string, known []remote.ID) (held []remote.Held, err error) {
	known = s.meter.naming(known)
	begun := time.Now()
	held, err = view.Get(ctx, names, known...)
	took := time.Since(begun)
	for i := range held {
		s.meter.held(held[i])
		age(&held[i], took)
		if known == nil || known[i] == 0 {
			s.believe(&held[i], 0)
			continue
		}
		if s.believe(&held[i], known[i]); held[i].Same || held[i].Data != nil {
			s.meter.worth.add(held[i].Same)
		}
	}
	return held, s.meter.end(ctx, Get, begun, err)
}
