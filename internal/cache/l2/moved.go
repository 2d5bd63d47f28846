// Servers that take the place of others. The tier counts the times at which it has
// learned of another server, or of another life of one. Then the lately confirmed drops
// are pending again: a server that had lost its place may have confirmed them.
// Invariant: a read during which drops were repeated passes L2 by. So no value is used
// if it may come from another server that has not heard of these drops.

package l2

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/strata-cache/strata/remote"
)

// mostTries is the number of times that one call sends a drop while servers take over
// from each other.
const mostTries = 3

// errMoving is the error of a drop if the tier has learned of another server during
// each try.
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
// If the tier learns of another server during a drop, the drop is sent again: it is not
// known which server has executed it.
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

// repeat makes the lately confirmed drops pending, if the tier has learned of another
// server since the last call.
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
