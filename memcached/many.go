package memcached

import (
	"context"
	"maps"
	"slices"
	"sync"

	"github.com/strata-cache/strata/internal/memcached/meta"
)

// Calls for many keys send rounds over a connection of their own: get with many keys;
// quiet meta commands, which the server answers only to report an item or a failure,
// and mn behind them; or commands with a reply each. Invariant: all keys and values
// are checked before a byte is sent; an item is reported as stored only if the server
// has said so, or has said nothing about a quiet command before it answered mn;
// batches of several servers share only the slice of requests, and each place belongs
// to one batch.

const (
	// mostKeys is how many bytes of keys one get has.
	mostKeys = 8 << 10
	// mostRound is about how many bytes of commands are sent before their replies
	// are read.
	mostRound = 64 << 10
	// quietValue is the largest value, in bytes, that a quiet command sets: an
	// error for its size does not name its item.
	quietValue = 16 << 10
)

// batch is a call for many keys at one server.
type batch struct {
	n *node
	// ejected is the error if the server is left alone.
	ejected error
	keys    []string
	// wire are the keys in the form that is sent. It is nil if they are sent as they are.
	wire []meta.Key
	// at are the places of the keys that belong to the server.
	at   []int
	meta bool
	// cas says that items are read with their numbers.
	cas bool
	// block is memory for small values. About left more are to come.
	block []byte
	left  int
	// failed has the error of each key that failed.
	failed PartialError
}

// key returns the key at place i as it is sent.
func (b *batch) key(i int) meta.Key {
	if b.wire == nil {
		return meta.Key{Text: b.keys[i]}
	}
	return b.wire[i]
}

// batches splits keys by their servers, after all were checked.
func (c *Client) batches(keys []string) ([]*batch, error) {
	wire, bad := meta.KeysOf(meta.Carriage(c.o.Keys), keys)
	if bad >= 0 {
		return nil, badKey(keys[bad])
	}
	whole := batch{keys: keys, wire: wire}
	var all []*batch
	for i := range keys {
		server, ejected := c.node(whole.key(i).Text)
		at := 0 // most often there is one server
		if len(all) == 0 || all[0].n != server {
			at = slices.IndexFunc(all, func(b *batch) bool { return b.n == server })
		}
		if at < 0 {
			at = len(all)
			all = append(all, &batch{n: server, ejected: ejected, keys: keys, wire: wire, at: make([]int, 0, len(keys))})
		}
		all[at].at = append(all[at].at, i)
	}
	return all, nil
}

// begin finds out how to speak to the server.
func (b *batch) begin(ctx context.Context) error {
	if b.ejected != nil {
		return b.ejected
	}
	able, err := b.n.ready(ctx)
	b.meta = able.Meta
	return err
}

// failAll notes err for the keys at places, except keys with an error.
func (b *batch) failAll(places []int, err error) {
	for _, i := range places {
		if _, ok := b.failed.Failed[b.keys[i]]; !ok {
			b.failed.fail(b.keys[i], err)
		}
	}
}

// merge returns the errors of all keys.
func merge(all []*batch) error {
	var failed PartialError
	for _, b := range all {
		for key, err := range b.failed.Failed {
			failed.fail(key, err)
		}
	}
	return failed.orNil()
}

// GetMany reads the items of keys in few round trips. Missing keys are not in the
// map, and small values share blocks of 4 KiB. All servers are asked at the same time. If one
// fails, the error is a [*PartialError] with its unread keys, and the map has the others.
func (c *Client) GetMany(ctx context.Context, keys []string) (map[string]Item, error) {
	all, err := c.batches(keys)
	if err != nil {
		return nil, err
	}
	for _, b := range all {
		b.cas = true
	}
	items := make(map[string]Item, len(keys))
	if len(all) == 1 {
		all[0].get(ctx, items)
	} else {
		var mu sync.Mutex // guards items
		atOnce(all, func(b *batch) {
			some := make(map[string]Item, len(b.at))
			b.get(ctx, some)
			mu.Lock()
			defer mu.Unlock()
			maps.Copy(items, some)
		})
	}
	if c.misses(ctx) {
		for _, b := range all {
			maps.DeleteFunc(b.failed.Failed, func(_ string, err error) bool { return dead(err) })
		}
	}
	return items, merge(all)
}

// atOnce calls f for all batches at once.
func atOnce(all []*batch, f func(*batch)) {
	var wg sync.WaitGroup
	for _, b := range all {
		wg.Go(func() { f(b) })
	}
	wg.Wait()
}

// get reads the items at b.at, in rounds.
func (b *batch) get(ctx context.Context, items map[string]Item) {
	rest := b.at
	b.left = len(rest)
	err := b.begin(ctx)
	for len(rest) > 0 && err == nil {
		var round []int
		round, rest = b.nextGet(rest)
		switch {
		case !b.key(round[0]).Binary:
			err = b.n.traced(ctx, b.command().Name(false), 1, func() error {
				return b.n.run(ctx, true, func(cn *conn) error { return b.getRound(cn, round, items) })
			})
		case !b.meta:
			err = ErrClassic
		default:
			err = b.n.traced(ctx, b.n.name(meta.OpGets), len(round), func() error {
				return b.n.run(ctx, true, func(cn *conn) error { return b.getQuietly(cn, round, items) })
			})
		}
		if err != nil {
			rest = append(append([]int{}, round...), rest...)
		}
	}
	for _, i := range rest {
		if _, ok := items[b.keys[i]]; !ok {
			b.failed.fail(b.keys[i], err)
		}
	}
}

// nextGet cuts off the places of the next round: keys sent in the same way.
func (b *batch) nextGet(places []int) (round, rest []int) {
	binary, size := b.key(places[0]).Binary, 0
	for n, i := range places {
		k := b.key(i)
		if size += len(k.Text) + 1; n > 0 && (k.Binary != binary || size > mostKeys) {
			return places[:n], places[n:]
		}
	}
	return places, nil
}

// command is the operation that reads items: with their numbers only if the caller wants them.
func (b *batch) command() meta.Op {
	if b.cas {
		return meta.OpGets
	}
	return meta.OpGet
}

// getRound reads items by one get or gets. A server answers in the order of the keys, and a proxy before several
// servers almost so.
func (b *batch) getRound(cn *conn, round []int, items map[string]Item) error {
	var passed []int // over, as absent so far
	cn.W = append(cn.W, b.command().Name(false)...)
	for _, i := range round {
		cn.W = append(append(cn.W, ' '), b.key(i).Text...)
	}
	cn.W = meta.AppendEnd(cn.W)
	if err := cn.flush(true); err != nil {
		return err
	}
	for {
		if len(round) > 0 { // most often the next value belongs to the next key
			if flags, size, cas, ok := cn.r.TakeItem(b.key(round[0]).Text); ok {
				if err := b.accept(cn, size, round[0], Item{Flags: flags, CAS: cas}, items); err != nil {
					return err
				}
				round = round[1:]
				continue
			}
		}
		r, err := cn.read()
		switch {
		case err != nil:
			return err
		case r.Kind == meta.End:
			return nil
		case r.Kind == meta.Error:
			return readError(serverError(r))
		case r.Kind != meta.Item:
			return errForeign()
		}
		is := func(i int) bool { return b.key(i).Text == string(r.Key) }
		var place int
		if at := slices.IndexFunc(round, is); at >= 0 {
			place = round[at]
			passed, round = append(passed, round[:at]...), round[at+1:]
		} else if at = slices.IndexFunc(passed, is); at >= 0 {
			place = passed[at]
			passed = slices.Delete(passed, at, at+1)
		} else {
			return errForeign()
		}
		if err := b.accept(cn, r.Size, place, Item{Flags: r.ClientFlags, CAS: r.Number}, items); err != nil {
			return err
		}
	}
}

// getQuietly reads items by quiet meta commands.
func (b *batch) getQuietly(cn *conn, round []int, items map[string]Item) error {
	first := b.n.opaque.Add(uint32(len(round))) - uint32(len(round)) + 1
	for n, i := range round {
		q := request{Op: meta.OpGets, Key: b.key(i), Meta: true, Opaque: first + uint32(n), Quiet: true}
		cn.W = q.AppendTo(cn.W, 0)
	}
	return b.untilNoOp(cn, func(r meta.Reply) error {
		at, ok := r.Flags.Uint('O')
		if n := uint32(at) - first; ok && at < 1<<32 && n < uint32(len(round)) && r.Kind == meta.VA {
			flags, _ := r.Flags.Uint('f')
			cas, _ := r.Flags.Uint('c')
			return b.accept(cn, r.Size, round[n], Item{Flags: uint32(flags), CAS: cas}, items)
		}
		if r.Kind == meta.Error {
			return readError(serverError(r))
		}
		return errForeign()
	})
}

// untilNoOp sends the commands in the buffer and mn, and hands over the replies that
// come before the reply to mn.
func (b *batch) untilNoOp(cn *conn, hear func(meta.Reply) error) error {
	cn.W = append(cn.W, meta.NoOp...)
	if err := cn.flush(false); err != nil {
		return err
	}
	for {
		r, err := cn.read()
		switch {
		case err != nil:
			return err
		case r.Kind == meta.MN:
			return nil
		case r.Fatal():
			return readError(serverError(r))
		}
		if err := hear(r); err != nil {
			return err
		}
	}
}

const (
	// blockSize is the size, in bytes, of the memory that small values share, and
	// sharedValue the size of the largest of them.
	blockSize   = 4 << 10
	sharedValue = 1 << 10
)

// room returns memory for a small value, and nil for others.
func (b *batch) room(size int64) []byte {
	if size > sharedValue {
		return nil
	}
	n := int(size)
	if cap(b.block)-len(b.block) < n || b.block == nil {
		b.block = make([]byte, 0, max(min(blockSize, n*b.left), n, 1))
	}
	at := len(b.block)
	b.block = b.block[:at+n]
	return b.block[at : at : at+n]
}

// accept reads the value of the key at place i into it, which has the rest of the item.
func (b *batch) accept(cn *conn, size int64, i int, it Item, items map[string]Item) error {
	data, err := cn.value(b.room(size), size)
	if err != nil {
		return err
	}
	b.left--
	key := b.key(i)
	if value, ok := key.Open(data); ok {
		it.Key, it.Value = b.keys[i], value
		items[it.Key] = it
	}
	return nil
}

// SetMany stores items, as Set does, in few round trips. If a key or a value cannot be
// sent, SetMany sends nothing. All servers get their items at the same time. If items
// fail, the error is a [*PartialError] with their keys. If a server does not name the
// refused one among several items, the error has the keys of all of these.
func (c *Client) SetMany(ctx context.Context, items []Item) error {
	keys := make([]string, len(items))
	for i := range items {
		if _, err := c.o.storing(meta.OpSet, &items[i]); err != nil {
			return err
		}
		keys[i] = items[i].Key
	}
	all, err := c.batches(keys)
	if err != nil {
		return err
	}
	for _, b := range all {
		for _, i := range b.at {
			key := b.key(i)
			if err := room(&key, int64(len(items[i].Value)), c.o.MaxValue); err != nil {
				return err
			}
		}
	}
	return changeAll(all, func(b *batch) {
		b.change(ctx, func(i int) request {
			q, _ := c.o.storing(meta.OpSet, &items[i]) // it was checked
			return q
		})
	})
}

// DeleteMany removes the items of keys in few round trips. A missing item is no error. If
// one key cannot be sent, DeleteMany sends nothing. If some keys fail, such as all keys of
// a dead server, the error is a [*PartialError] with these: their items may still exist.
func (c *Client) DeleteMany(ctx context.Context, keys []string) error {
	all, err := c.batches(keys)
	if err != nil {
		return err
	}
	return changeAll(all, func(b *batch) {
		b.change(ctx, func(int) request { return request{Op: meta.OpDelete} })
	})
}

// changeAll calls f for all batches at once, and returns the errors of all keys.
func changeAll(all []*batch, f func(*batch)) error {
	if len(all) == 1 {
		f(all[0])
	} else {
		atOnce(all, f)
	}
	return merge(all)
}

// change carries out a request for each key at b.at, in rounds. The function of returns the request
// of a place, still without the key.
func (b *batch) change(ctx context.Context, of func(i int) request) {
	rest := b.at
	err := b.begin(ctx)
	for len(rest) > 0 && err == nil {
		var round []int
		var quiet bool
		round, rest, quiet = b.nextChange(rest, of)
		if !b.meta && b.key(round[0]).Binary {
			err = ErrClassic
		} else {
			err = b.n.traced(ctx, b.n.name(of(round[0]).Op), len(round), func() error {
				return b.n.run(ctx, false, func(cn *conn) error { return b.changeRound(cn, round, of, quiet) })
			})
		}
		if err != nil {
			b.failAll(round, err)
		}
	}
	b.failAll(rest, err)
}

// nextChange cuts off the places of the next round: requests sent in the same way.
func (b *batch) nextChange(places []int, of func(i int) request) (round, rest []int, quiet bool) {
	length := func(i int) int { q := of(i); return len(q.Value) }
	isQuiet := func(i int) bool { return b.meta && length(i) <= quietValue }
	quiet = isQuiet(places[0])
	size := 0
	for n, i := range places {
		size += meta.MaxKey + len(b.key(i).Full) + length(i)
		if n > 0 && (size > mostRound || isQuiet(i) != quiet) {
			return places[:n], places[n:], quiet
		}
	}
	return places, nil, quiet
}

// changeRound carries out a round.
func (b *batch) changeRound(cn *conn, round []int, of func(i int) request, quiet bool) error {
	first := b.n.opaque.Add(uint32(len(round))) - uint32(len(round)) + 1
	nth := func(n int) request {
		q := of(round[n])
		q.Key, q.Meta, q.Opaque, q.Quiet = b.key(round[n]), b.meta, first+uint32(n), quiet
		return q
	}
	for n := range round {
		q := nth(n)
		cn.put(&q)
	}
	if quiet {
		return b.untilNoOp(cn, func(r meta.Reply) error { return b.refused(r, round, nth) })
	}
	if err := cn.flush(false); err != nil {
		return err
	}
	for n, i := range round {
		r, err := cn.read()
		q := nth(n)
		switch {
		case err != nil:
			return err
		case !q.Fits(&r):
			return errForeign()
		case r.Fatal():
			return readError(serverError(r))
		}
		if err := verdict(&r); err != nil && !(q.Op == meta.OpDelete && err == ErrMiss) {
			b.failed.fail(b.keys[i], err)
		}
	}
	return nil
}

// refused notes the reply to a quiet command, which has failed. nth is the request of each place
// of the round.
func (b *batch) refused(r meta.Reply, round []int, nth func(n int) request) error {
	if r.Kind == meta.Error { // without an opaque
		b.failAll(round, serverError(r))
		return nil
	}
	at, ok := r.Flags.Uint('O')
	first := nth(0)
	n := uint32(at) - first.Opaque
	err := verdict(&r)
	if !ok || at >= 1<<32 || n >= uint32(len(round)) || err == nil || r.Size >= 0 {
		return errForeign()
	}
	if first.Op != meta.OpDelete || err != ErrMiss {
		b.failed.fail(b.keys[round[n]], err)
	}
	return nil
}
