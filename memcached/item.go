package memcached

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/strata-cache/strata/internal/memcached/meta"
)

// Item is a value under a key, as it is stored or was read.
type Item struct {
	// Key is the key; see Options.Keys.
	Key string
	// Value is the value. It belongs to the caller; a call does not change it, and
	// it may be changed once the call has returned.
	Value []byte
	// Flags are a number of the program's choice, which other clients use for the
	// kind of a value.
	Flags uint32
	// TTL is how long the item lives, rounded up to whole seconds; zero means for
	// ever. It is not set in an item from a read.
	TTL time.Duration
	// CAS is a number that changes with each change of the item. It is set by Get,
	// GetAndTouch and GetMany, and looked at by CompareAndSwap.
	CAS uint64
}

// Get reads the item of a key. A missing one is [ErrMiss].
func (c *Client) Get(ctx context.Context, key string) (Item, error) {
	return c.item(ctx, key, request{Op: meta.OpGets})
}

// GetAndTouch reads the item of a key, and gives it a new life of ttl (zero: for
// ever). A missing one is [ErrMiss].
func (c *Client) GetAndTouch(ctx context.Context, key string, ttl time.Duration) (Item, error) {
	at, err := expiry(ttl)
	if err != nil {
		return Item{}, err
	}
	return c.item(ctx, key, request{Op: meta.OpGat, Expiry: at})
}

func (c *Client) item(ctx context.Context, key string, q request) (Item, error) {
	a, err := c.do(ctx, key, q, nil)
	if err != nil {
		return Item{}, err
	}
	return Item{Key: key, Value: a.value, Flags: a.flags, CAS: a.cas}, nil
}

// AppendGet appends the value of key to dst and returns the longer slice. If dst has
// room for it, nothing is allocated. A missing key is [ErrMiss]; on any error dst is
// returned with its old length, but bytes behind it may have been overwritten.
func (c *Client) AppendGet(ctx context.Context, dst []byte, key string) ([]byte, error) {
	a, err := c.do(ctx, key, request{Op: meta.OpGet}, dst)
	if err != nil {
		return dst, err
	}
	return a.value, nil
}

// Touch gives the item of a key a new life of ttl (zero: for ever). A missing one is
// [ErrMiss].
func (c *Client) Touch(ctx context.Context, key string, ttl time.Duration) error {
	at, err := expiry(ttl)
	if err != nil {
		return err
	}
	_, err = c.do(ctx, key, request{Op: meta.OpTouch, Expiry: at}, nil)
	return err
}

// Set stores an item, whether the key has one or not. A value larger than
// Options.MaxValue is [ErrTooLarge], and nothing is sent; so is one that the server
// refuses for its size. Then the server removes the old item of the key.
func (c *Client) Set(ctx context.Context, item Item) error { return c.store(ctx, meta.OpSet, item) }

// Add stores an item if there is none under its key; otherwise it returns
// [ErrNotStored].
func (c *Client) Add(ctx context.Context, item Item) error { return c.store(ctx, meta.OpAdd, item) }

// Replace stores an item if there is one under its key; otherwise it returns
// [ErrNotStored].
func (c *Client) Replace(ctx context.Context, item Item) error {
	return c.store(ctx, meta.OpReplace, item)
}

// CompareAndSwap stores an item if the present item of its key still has the
// number item.CAS. If the present item has changed the error is
// [ErrConflict], if it is missing [ErrMiss].
func (c *Client) CompareAndSwap(ctx context.Context, item Item) error {
	return c.store(ctx, meta.OpCAS, item)
}

// Append adds data behind the value of key, and Prepend in front of it; the item keeps its
// flags and its life. A missing item is [ErrNotStored], and so is a sum larger than the
// server takes: then the item stays as it was. A key that Options.Keys hashes is
// [ErrBadKey], since its item has more than the value.
func (c *Client) Append(ctx context.Context, key string, data []byte) error {
	return c.join(ctx, meta.OpAppend, key, data)
}

// Prepend is Append in front of the value.
func (c *Client) Prepend(ctx context.Context, key string, data []byte) error {
	return c.join(ctx, meta.OpPrepend, key, data)
}

func (c *Client) join(ctx context.Context, o meta.Op, key string, data []byte) error {
	if err := c.isValue(key); err != nil {
		return err
	}
	return c.store(ctx, o, Item{Key: key, Value: data})
}

// isValue returns an error if an item of key cannot be sent, or has more than the value.
func (c *Client) isValue(key string) error {
	k, err := c.o.Keys.wire(key)
	if err == nil && k.Full != "" { // the value has the key in front
		err = badKey(key)
	}
	return err
}

func (c *Client) store(ctx context.Context, o meta.Op, item Item) error {
	q, err := c.o.storing(o, &item)
	if err != nil {
		return err
	}
	_, err = c.do(ctx, item.Key, q, nil)
	return err
}

// storing returns the request that stores an item, still without the key.
func (o *Options) storing(how meta.Op, item *Item) (request, error) {
	if len(item.Value) > o.MaxValue {
		return request{}, tooLarge(int64(len(item.Value)))
	}
	at, err := expiry(item.TTL)
	return request{Op: how, Flags: item.Flags, Expiry: at, CAS: item.CAS, Value: item.Value}, err
}

// Delete removes the item of a key. A missing one is [ErrMiss].
func (c *Client) Delete(ctx context.Context, key string) error {
	_, err := c.do(ctx, key, request{Op: meta.OpDelete}, nil)
	return err
}

// Increment adds delta to the value of key, a decimal number, and returns the sum.
// Beyond 64 bits it begins again at zero. A missing key is [ErrMiss], a value
// other than a number a [*ServerError].
func (c *Client) Increment(ctx context.Context, key string, delta uint64) (uint64, error) {
	return c.count(ctx, meta.OpIncr, key, delta)
}

// Decrement subtracts delta from the value of key, a decimal number, and returns the
// difference, at least zero. A missing key is [ErrMiss], a value other than a number
// a [*ServerError].
func (c *Client) Decrement(ctx context.Context, key string, delta uint64) (uint64, error) {
	return c.count(ctx, meta.OpDecr, key, delta)
}

func (c *Client) count(ctx context.Context, o meta.Op, key string, delta uint64) (uint64, error) {
	return c.counts(ctx, key, request{Op: o, Delta: delta})
}

// IncrementFrom is Increment, but a missing key begins at first, and lives for ttl (zero:
// for ever). Then first is returned, and delta is not added. An existing item keeps its
// life.
func (c *Client) IncrementFrom(ctx context.Context, key string, delta, first uint64, ttl time.Duration) (uint64, error) {
	return c.countFrom(ctx, meta.OpIncr, key, delta, first, ttl)
}

// DecrementFrom is Decrement as IncrementFrom is Increment.
func (c *Client) DecrementFrom(ctx context.Context, key string, delta, first uint64, ttl time.Duration) (uint64, error) {
	return c.countFrom(ctx, meta.OpDecr, key, delta, first, ttl)
}

// countFrom counts by one meta command. In classic mode it stores the first number if there
// is none; if another client has been faster, it counts again.
func (c *Client) countFrom(ctx context.Context, o meta.Op, key string, delta, first uint64, ttl time.Duration) (uint64, error) {
	at, err := expiry(ttl)
	if err != nil {
		return 0, err
	}
	for {
		n, err := c.counts(ctx, key, request{Op: o, Delta: delta, Makes: true, First: first, Expiry: at})
		if !errors.Is(err, ErrMiss) {
			return n, err
		}
		err = c.Add(ctx, Item{Key: key, Value: strconv.AppendUint(nil, first, 10), TTL: ttl})
		if !errors.Is(err, ErrNotStored) {
			return first, err
		}
	}
}

func (c *Client) counts(ctx context.Context, key string, q request) (uint64, error) {
	if err := c.isValue(key); err != nil {
		return 0, err
	}
	return counted(c.do(ctx, key, q, make([]byte, 0, len(strconv.Itoa(math.MaxInt))+1)))
}

// counted returns the number in the answer to a command that counts.
func counted(a answer, err error) (uint64, error) {
	if err != nil || a.value == nil {
		return a.number, err
	}
	n, err := strconv.ParseUint(string(a.value), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%w: result is no number", ErrProtocol)
	}
	return n, nil
}
