package bytestore

import (
	"encoding/binary"
	"iter"
	"sync/atomic"
)

// someHomes is the number of homes of an index whose keys are copied under one lock.
const someHomes = 512

// cursor is the place of a walk over the keys of a shard: the next home, in an index of a length.
type cursor struct{ home, length int }

// All iterates over the keys and values, in no order. Both are copies, valid until the iteration goes
// on. An entry that is there all the time comes once, whatever happens to others; one that is stored or
// removed meanwhile may be left out. All holds no lock while the loop runs.
func (c *Store) All() iter.Seq2[[]byte, []byte] {
	return func(yield func(key, value []byte) bool) {
		var keys, value []byte
		for i := range c.shards {
			for at, more := (cursor{}), true; more; {
				keys, more = c.shards[i].appendKeys(keys[:0], &at)
				for rest := keys; len(rest) > 0; {
					n, size := binary.Uvarint(rest)
					key := rest[size : size+int(n) : size+int(n)]
					rest = rest[size+int(n):]
					var ok bool
					if value, ok = c.AppendPeek(value[:0], key); ok && !yield(key, value) {
						return
					}
				}
			}
		}
	}
}

// appendKeys appends some keys to dst, each behind its length, moves the cursor, and reports whether
// there are more. It takes the lock.
//
// Entries move between chunks, and slots a little, but a key keeps its home, and slots are in the
// order of homes. If the index has got another length since the last call, the rest is taken at once: the
// keys whose home in the old index was not reached.
func (s *shard) appendKeys(dst []byte, at *cursor) (keys []byte, more bool) {
	s.rlock()
	defer s.mu.RUnlock()
	length := len(s.index.slots)
	from, to := at.home, at.home+someHomes
	if at.length == 0 {
		at.length = length
	}
	if length != at.length || to >= length {
		return s.appendRest(dst, *at), false
	}
	at.home = to
	for i := from; ; i++ {
		x := atomic.LoadUint64(&s.index.slots[i&(length-1)])
		home := 0
		if x != 0 {
			home = s.index.home(hashIn(x))
		}
		switch {
		case x != 0 && home >= from && home < to:
			dst = s.appendKey(dst, x)
		case i >= to: // the homes of a run only grow
			return dst, true
		}
	}
}

// appendRest appends the keys from a cursor on.
func (s *shard) appendRest(dst []byte, at cursor) []byte {
	for i := range s.index.slots {
		if x := atomic.LoadUint64(&s.index.slots[i]); x != 0 && int(hashIn(x)&uint64(at.length-1)) >= at.home {
			dst = s.appendKey(dst, x)
		}
	}
	return dst
}

// appendKey appends the key of a slot.
func (s *shard) appendKey(dst []byte, x slot) []byte {
	p := placeIn(x)
	e := read(s.chunks[p.chunk()].data[p.offset():])
	return append(binary.AppendUvarint(dst, uint64(len(e.key))), e.key...)
}
