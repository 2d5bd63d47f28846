package itemtier

import (
	"context"

	"github.com/strata-cache/strata/internal/observe/tracing"
)

// Store is a fleet of servers with items.
type Store interface {
	// Servers returns the number of the first server of the present list, and how many
	// there are. The first list begins at 0. Another list has numbers that are larger
	// than all before, also for a server that was in an earlier one.
	Servers() (first, n int)
	// Name returns the name of a server for people, which is the same in all lists.
	Name(server int) string
	// Home returns the server of a key. It changes with the list.
	Home(key string) int
	// Do executes operations on one server in any order, also if their keys have
	// other homes, and returns a Result for each. Only Looks have a key in common. An error means
	// that the outcome of all is unknown. A server of the list before the present one may
	// still be used.
	Do(ctx context.Context, server int, ops []Op) ([]Result, error)
	// Beside runs f in a goroutine of the store, unless one for the same thing runs, or
	// there is no room. ctx ends with the store.
	Beside(what any, f func(ctx context.Context))
	// Seconds returns the time of a server in whole seconds since 1970.
	Seconds(ctx context.Context, server int) (int64, error)
}

// Kind is the kind of an [Op].
type Kind uint8

// The kinds of operations.
const (
	// Look returns an item without its version.
	Look Kind = iota
	// Read returns an item with its version.
	Read
	// Write stores Data if the item has Version, or, for the zero Version, if there is
	// no item.
	Write
	// Set stores Data in place of any item.
	Set
	// Touch gives an item another life. It is Done if there is one.
	Touch
	// Count adds Delta to a counter and returns it. A counter that is not there, or that
	// holds no number, begins at First instead; if First is zero it is left alone, and
	// the Result is not Done.
	Count
)

// Op is one operation on one item.
type Op struct {
	Kind Kind
	// Key has 1 to 250 bytes, none of them a space or a control character.
	Key     string
	Data    []byte
	Version Version
	// Life is after how many seconds the server forgets the item that it writes or touches; 0
	// means never.
	Life         int64
	Delta, First uint64
}

// Result is the result of one [Op].
type Result struct {
	// Done says that a Look, a Read or a Touch has found an item, that a Write or a Set has
	// written, or that there is a counter.
	Done    bool
	Data    []byte
	Version Version
	Count   uint64
	// Err says that the server has refused the operation.
	Err error
}

// Version identifies the Data of an item at one time. The zero Version stands for
// no item.
type Version struct {
	// CAS is the number of the item.
	CAS uint64
	// Connection is the number of the connection, if such numbers begin again with a server
	// that restarts: a Write on another connection is not done. Else it is zero.
	Connection uint64
}

// owned is a Store that is told for which cache operations are.
type owned struct {
	Store
	owner *tracing.Owner
}

func (o owned) Do(ctx context.Context, server int, ops []Op) ([]Result, error) {
	return o.Store.Do(o.owner.Own(ctx), server, ops)
}

func (o owned) Seconds(ctx context.Context, server int) (int64, error) {
	return o.Store.Seconds(o.owner.Own(ctx), server)
}
