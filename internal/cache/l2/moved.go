// Servers that take the place of others. The tier counts the times at which it has
// learned of another server, or of another life of one. The drops that were confirmed
// lately are pending again then: a server that had lost its place may have confirmed
// them.
// Invariant: no value is used that a server has returned which the tier knew too late
// for the repetition: a read during which drops were repeated passes L2 by.

package l2

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/strata-cache/strata/remote"
)

// mostTries is how often one call sends a drop while servers take over from each other.
const mostTries = 3

// errMoving is the error of a drop during which the tier has learned of another server
// each time.
var errMoving = fmt.Errorf("strata: L2 changes its server again and again: %w, %w", remote.ErrMoved, remote.ErrRefused)

// moves are the changes of server that the tier knows.
type moves struct {
	tier remote.Mover // nil if the tier does not know them
	// seen is the number of changes after which drops were repeated last, and
	// repeats how often there were drops to repeat.
	seen, repeats atomic.Uint64
	repeating     sync.Mutex // held while drops are made pending
}

func (m *moves) count() uint64 {
	if m.tier == nil {
		return 0
	}
	return m.tier.Moves()
}

// confirmed executes a drop by do, and notes it by note if the tier has confirmed it.
// A drop during which the tier has learned of another server is sent again: it is
// not known which of them has executed it.
func (s *Store) confirmed(do func() error, note func()) (err error) {
	if s.moves.tier == nil {
		return do()
	}
	for range mostTries {
		before := s.moves.count()
		if err = do(); err != nil && !errors.Is(err, remote.ErrMoved) {
			return err
		}
		if err == nil {
			// Noted first: if the count is the same afterwards, a repetition has it.
			if note(); s.moves.count() == before {
				return nil
			}
		}
		s.repeat()
	}
	if err == nil {
		err = errMoving
	}
	return err
}

// repeat makes the drops pending that were confirmed lately, if the tier has learned of
// another server since the last call.
func (s *Store) repeat() {
	m := &s.moves
	if m.count() == m.seen.Load() {
		return
	}
	m.repeating.Lock()
	defer m.repeating.Unlock()
	if n := m.count(); n != m.seen.Load() {
		if s.pending.Repeat() {
			m.repeats.Add(1)
		}
		m.seen.Store(n) // last: until then all readers come here, and wait
	}
}
