package l1

// handSteps bounds the work of one eviction: after that many second chances the
// oldest entry is the victim, whether used or not.
const handSteps = 64

// queue is the eviction policy of one shard: CLOCK (Corbató, "A Paging
// Experiment with the Multics System", 1968) with a two-bit counter, kept as a
// queue instead of a ring: the hand is always at the head, and an entry that
// has been used goes to the tail with its counter lowered by one. All methods
// need the shard's mutex; readers only ever write the counter of an entry.
type queue[K comparable, V any] struct {
	head, tail *Entry[K, V] // head is the oldest
	n          int
}

// add puts a new entry at the tail.
func (q *queue[K, V]) add(e *Entry[K, V]) {
	e.prev, e.next = q.tail, nil
	if q.tail == nil {
		q.head = e
	} else {
		q.tail.next = e
	}
	q.tail = e
	q.n++
}

// remove takes an entry out.
func (q *queue[K, V]) remove(e *Entry[K, V]) {
	if e.prev == nil {
		q.head = e.next
	} else {
		e.prev.next = e.next
	}
	if e.next == nil {
		q.tail = e.prev
	} else {
		e.next.prev = e.prev
	}
	e.prev, e.next = nil, nil
	q.n--
}

// replace gives old's place to e.
func (q *queue[K, V]) replace(old, e *Entry[K, V]) {
	e.prev, e.next = old.prev, old.next
	if e.prev == nil {
		q.head = e
	} else {
		e.prev.next = e
	}
	if e.next == nil {
		q.tail = e
	} else {
		e.next.prev = e
	}
	old.prev, old.next = nil, nil
}

// victim returns the entry to evict next, which is still in the queue. It never
// returns keep, so that the writer of an entry can read it; nil means that
// there is no other entry.
func (q *queue[K, V]) victim(keep *Entry[K, V]) *Entry[K, V] {
	if q.head == nil || q.head == keep && q.n == 1 {
		return nil
	}
	for range handSteps {
		e := q.head
		if e != keep {
			u := e.use.Load()
			if u == 0 {
				return e
			}
			e.use.Store(u - 1)
		}
		q.remove(e)
		q.add(e)
	}
	if q.head == keep {
		return keep.next
	}
	return q.head
}
