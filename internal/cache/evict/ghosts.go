package evict

import "math/bits"

const (
	// bucketSlots is the number of records in a bucket, which is one cache line.
	bucketSlots = 16
	// historyShare is the number of records per entry that a history has room for.
	historyShare = 3
	// ageBits is the number of bits of a record's time. ageUnits is the number of units of this
	// time in which a clock advances by the capacity of the shard: so a time wraps after 16
	// capacities.
	ageBits  = 15
	ageUnits = 10
	ageMask  = 1<<ageBits - 1
)

// ghosts remembers evicted keys: 12 bytes per entry, in buckets of one cache line.
// In a full bucket the oldest record makes room. A record is a fingerprint of 16
// bits, the queue from which the entry was evicted, and a time of 15 bits. The
// zero ghosts remembers nothing and has no room. Two keys share a record with a
// chance of one in 4096.
type ghosts struct {
	buckets [][bucketSlots]uint32
	// room is the number of entries for which the size is meant.
	room int
	// shift is the number of low bits of a time left out of a record.
	shift int
}

// ghost is the record of an evicted key.
type ghost struct {
	fromMain bool
	// age is the time since, by the clock of the queue that it was evicted from.
	age int64
}

// newGhosts makes an empty history for n entries in a shard of the given
// capacity.
func newGhosts(n int, capacity int64) ghosts {
	return ghosts{
		buckets: make([][bucketSlots]uint32, (historyShare*n+bucketSlots-1)/bucketSlots),
		room:    n,
		shift:   max(0, bits.Len64(uint64(capacity))-ageUnits),
	}
}

// bucket returns the bucket of a hash. The multiplication mixes the bits, since
// the bits of the fingerprint are among them.
func (g *ghosts) bucket(hash uint32) *[bucketSlots]uint32 {
	return &g.buckets[uint64(hash*0x9e3779b1)*uint64(len(g.buckets))>>32]
}

// record returns the record of a hash without its time. Zero stands for a free
// slot, so a fingerprint is never zero.
func record(hash uint32, fromMain bool) uint32 {
	r := max(1, hash&0xffff) << 16
	if fromMain {
		r |= 1 << ageBits
	}
	return r
}

// add remembers a key evicted at a time of its queue's clock.
func (g *ghosts) add(hash uint32, fromMain bool, at uint64) {
	b := g.bucket(hash)
	r := record(hash, fromMain) | uint32(at>>g.shift)&ageMask
	last := bucketSlots - 1
	for i, old := range b {
		if old == 0 || old>>16 == r>>16 {
			last = i
			break
		}
	}
	copy(b[1:last+1], b[:last])
	b[0] = r
}

// take returns the record of a key, and forgets it. small and main are the present
// times of the clocks.
func (g *ghosts) take(hash uint32, small, main uint64) (x ghost, ok bool) {
	if len(g.buckets) == 0 {
		return ghost{}, false
	}
	b := g.bucket(hash)
	for i, r := range b {
		if r == 0 {
			return ghost{}, false
		}
		if r>>16 != max(1, hash&0xffff) {
			continue
		}
		copy(b[i:], b[i+1:])
		b[bucketSlots-1] = 0
		now := small
		if x.fromMain = r>>ageBits&1 != 0; x.fromMain {
			now = main
		}
		x.age = int64((uint32(now>>g.shift)-r)&ageMask) << g.shift
		return x, true
	}
	return ghost{}, false
}

// brake holds promotions back while their entries leave main without a hit and main's
// victims come back. Sweeps back and forth over more keys than fit do that.
//
// Its shares are moving means of events in main. The zero brake holds nothing back.
type brake struct {
	losses  float32 // share of trials without a hit
	returns float32 // share of main's victims that came back within one length of main
	// gone is the share of main's victims that did not, over a longer time. While nearly all are
	// gone for good, as when the keys in use change, the room of main is worth less than each key
	// that a longer small queue would have kept. A step to the next length is not enough: keys that
	// are all read again after the same long time are found by none of the shorter queues.
	gone float64
}

// weight is the weight of one event in a mean over the last thirty-second of main's
// length, or over the last 32 events if these are more.
func (b *brake) weight(n int) float32 { return 1 / max(32, float32(n)/32) }

// long is the weight of one event in a mean over a quarter of main's length, or over the last 64
// events if these are more. A shorter mean ends before a victim can have come back.
func (b *brake) long(n int) float64 { return 1 / max(64, float64(n)/4) }

// out notes that main, which has n entries, evicts one.
func (b *brake) out(n int) {
	b.returns -= b.returns * b.weight(n)
	b.gone += (1 - b.gone) * b.long(n)
}

// back notes that a key comes back which main, of n entries, has evicted.
func (b *brake) back(n int) {
	b.returns += b.weight(n)
	b.gone -= b.long(n)
}

// judge ends a trial.
func (b *brake) judge(hit bool, n int) {
	loss := float32(1)
	if hit {
		loss = 0
	}
	b.losses += (loss - b.losses) * b.weight(n)
}

// holds reports whether a promotion at a time is held back.
func (b *brake) holds(hash uint32, clock uint64) bool {
	return b.losses > 1-losing && b.returns >= missed && (hash^uint32(clock))*0x9e3779b1%passing != 0
}
