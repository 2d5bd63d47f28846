package castier

import (
	"context"
	"time"
)

// Store is a map from keys to items that several processes share. Each item has a version,
// and is replaced only by a caller that knows its version. Implement it for a database, and
// pass it to [New]. stratatest.TestStore checks an implementation.
//
// Keys have 1 to 250 bytes, none of them a space or a control character. All other bytes are
// allowed, so a key need not be UTF-8. The keys of a call differ. A call has any number of them,
// but at least one: a Store with a smaller limit splits the call. Result i belongs to argument i.
// Methods are safe for concurrent use and return when their context ends. A Store does not keep the
// slices of its arguments after a call, and the caller owns the slices of its results.
//
// An error means that the outcome is unknown, for all keys of the call; [remote.KeyErrors] has
// the errors of the failed keys. An error that matches [remote.ErrRefused] says that the
// database has answered and refused; one that matches [remote.ErrValueTooLarge], that the value
// is too large for it.
//
// There is no method that deletes: an item also has the leases and holds of its key, and the
// Tier writes another state in its place. So a Store must not delete an item before its life is
// over, if it can avoid it. The package documentation has the costs of an early loss.
type Store interface {
	// GetMany returns the present items of keys. It must see the swaps of all
	// processes reported before the call: it must not read from a lagging replica.
	GetMany(ctx context.Context, keys []string) ([]Item, error)
	// SwapMany writes each item that still has the version of its Swap, and reports which
	// items were written. Each item is compared and written in one step, on its own: one that
	// has another version leaves the others alone. false says that nothing was written for the
	// item. A Store that cannot tell, for instance after it has repeated a request, returns an
	// error for the key instead.
	SwapMany(ctx context.Context, swaps []Swap) (swapped []bool, err error)
}

// Item is the content of a key of a [Store].
type Item struct {
	// Value is the bytes of the last Swap.
	Value []byte
	// Version identifies the item at this time. The zero Version says that there is none.
	Version Version
}

// Version identifies an item between two writes: a number, a text, or both, as the Store has
// it. Each write of a key gives it a Version that the key never had, also if the bytes are the
// same, and if the item ended or was lost in between. The Tier only compares Versions for
// equality. The zero Version stands for no item.
type Version struct {
	// Number is for stores that count: a revision, a row version.
	Number uint64
	// Text is for stores with names: an entity tag.
	Text string
}

// Swap is a write of one item by [Store.SwapMany].
type Swap struct {
	// Key is the key of the item.
	Key string
	// Value is the new content.
	Value []byte
	// Version is the version that the item must still have. The zero Version writes only if
	// there is no item.
	Version Version
	// Life is the time for which the Store keeps the item at least, from this write on. It may
	// delete the item later, or never. Life is a whole number of seconds. Zero means for ever.
	Life time.Duration
}

// Clock is a [Store] that tells the time of its database. Without it, a Tier uses the clocks of
// the instances, and lives end up to a second early; these clocks must be right to half a second.
type Clock interface {
	// Now returns the time. The clock may show it in steps: the time is t or later, and before
	// t+step. A step is at most 2 seconds, and values with lives shorter than a step are
	// refused. A step of zero means that the time is t. All instances must be told the same
	// clock, which goes on as time does and is never set back. It need not be near the true
	// time, but must show one after 1970.
	Now(ctx context.Context) (t time.Time, step time.Duration, err error)
}

// Counter is a [Store] that counts by itself. Without it, a Tier counts by swaps, which takes
// two round trips or more.
type Counter interface {
	// AddMany adds to counters, and returns the sums. A counter is an item, and GetMany returns
	// its number in decimal digits. It lives for ever.
	AddMany(ctx context.Context, adds []Add) (sums []uint64, err error)
}

// Add is an addition to one counter by [Counter.AddMany].
type Add struct {
	// Key is the key of the counter.
	Key string
	// Delta is added to the number, and may be zero.
	Delta uint64
	// First is the number at which a counter begins if it does not exist, or if its Value is not
	// a number; Delta is not added to it. If First is zero such a counter is left alone, and its
	// sum is zero.
	First uint64
}

// Toucher is a [Store] that gives an item another life without a transfer of its value. With
// it, a large value gets an item of its own, which a lease or a drop of the key does not move.
// Without it, all values of a key are in its one item.
type Toucher interface {
	// TouchMany gives items other lives, and reports which items exist. It leaves their values
	// alone. It may leave the Version of an item, too, or give the item another one, as a write
	// does: a Version that the key never had.
	TouchMany(ctx context.Context, touches []Touch) (touched []bool, err error)
	// Large returns the least number of bytes of a value that gets an item of its own. Such a
	// value takes one more round trip to read and to store. Zero means 32 KiB. It is the same
	// for all servers of a Fleet.
	Large() int
}

// Touch is another life for one item, by [Toucher.TouchMany].
type Touch struct {
	// Key is the key of the item.
	Key string
	// Life is as in [Swap].
	Life time.Duration
}

// Fleet is several servers, each with a [Store] of some keys, for [NewFleet]. A server that does
// not answer costs its own keys the shared tier, and no others. No data moves between servers.
type Fleet interface {
	// Servers returns the number of the first server of the present list, and how many servers
	// there are. The first list begins at 0. The numbers of another list are larger than all
	// before, also for a server from an earlier list. Call [Moved] after each change.
	Servers() (first, n int)
	// Name returns the name of a server for people. It is the same in all lists.
	Name(server int) string
	// Home returns the server of a key. It changes with the list only.
	Home(key string) int
	// On returns the Store of one server, also for keys that have other homes, or the reason
	// why it is not used now. A server of the list before the present one may still be asked
	// for. The Store may be a Clock, a Counter and a Toucher.
	On(ctx context.Context, server int) (Store, error)
	// Beside runs f in a goroutine that the Fleet owns, unless one for the same task runs, or
	// there is no room. A task is any value that can be compared. ctx ends when the Fleet is closed.
	Beside(task any, f func(ctx context.Context))
}

// single is the Fleet of one Store.
type single struct{ Store }

func (single) Servers() (first, n int) { return 0, 1 }

func (single) Name(int) string { return "store" }

func (single) Home(string) int { return 0 }

func (s single) On(context.Context, int) (Store, error) { return s.Store, nil }

// Beside is not called: there is no server of other keys.
func (single) Beside(_ any, f func(context.Context)) { f(context.Background()) }
