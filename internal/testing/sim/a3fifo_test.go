package sim

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/strata-cache/strata/internal/cache/evict"
)

// naiveA3 is A3-FIFO with slices for queues and history, of the capacities at which
// stamps are exact. It is the oracle of the engine.
type naiveA3 struct {
	capacity, target int
	small, main      []naiveEntry
	history          map[int][]naiveRecord // by bucket, youngest first
	clock, evictions int
	trials           map[uint64]bool
	losses, returns  float64
	gone             float64
}

type naiveEntry struct {
	key          uint64
	count, stamp int
}

type naiveRecord struct {
	print    uint64
	fromMain bool
	stamp    int
}

func (p *naiveA3) share(percent int) int { return max(1, p.capacity*percent/100) }

func (p *naiveA3) roomInMain() bool { return len(p.main) < p.capacity-p.target }

func (p *naiveA3) full() bool { return len(p.small)+len(p.main) >= p.capacity }

func (p *naiveA3) Access(key uint64) bool {
	for _, queue := range [][]naiveEntry{p.small, p.main} {
		for i := range queue {
			if queue[i].key == key {
				queue[i].count = min(3, queue[i].count+1)
				return true
			}
		}
	}
	p.clock++
	promote, trial := p.recall(key)
	switch {
	case p.full() && promote && !p.roomInMain():
		p.evictMain()
	case p.full():
		p.freeOne()
	case !promote && len(p.small) >= p.target:
		p.main = append(p.main, p.popSmall()) // not proven: its count and stamp stay
	}
	if promote {
		p.toMain(key)
		p.trials[key] = trial
	} else {
		p.small = append(p.small, naiveEntry{key: key, stamp: p.clock})
	}
	return false
}

func (p *naiveA3) recall(key uint64) (promote, trial bool) {
	bucket, print := p.place(key)
	at := slices.IndexFunc(p.history[bucket], func(r naiveRecord) bool { return r.print == print })
	if at < 0 {
		return false, false
	}
	r := p.history[bucket][at]
	p.history[bucket] = slices.Delete(p.history[bucket], at, at+1)
	if r.fromMain {
		if p.evictions-r.stamp < p.share(8) {
			p.target = max(p.share(1), p.target-1)
		}
		if p.evictions-r.stamp < len(p.main) {
			p.returns += 1.0 / 32
			p.gone -= 1.0 / 64
		}
		return false, false
	}
	distance := p.clock - r.stamp
	if distance <= len(p.small)+p.share(8) || p.gone > 0.97 && distance <= p.capacity*99/100 {
		p.target = min(p.share(99), p.target+1)
	}
	if p.roomInMain() {
		return true, false
	}
	promote = p.hand() && distance < p.clock-p.main[0].stamp
	if p.losses > 0.8 && p.returns >= 0.1 && (hash(key)^uint32(p.clock))*0x9e3779b1%64 != 0 {
		promote = false
	}
	return promote, promote
}

// hand reports whether the front of main is a victim.
func (p *naiveA3) hand() bool {
	for range 32 {
		if len(p.main) == 0 {
			return false
		}
		front := p.main[0]
		if front.count == 0 {
			return true
		}
		p.judge(front.key, 0)
		p.main = append(p.main[1:], naiveEntry{front.key, front.count - 1, p.clock})
	}
	return false
}

func (p *naiveA3) evictMain() {
	p.hand()
	p.evictions++
	p.returns -= p.returns * (1.0 / 32)
	p.gone += (1 - p.gone) * (1.0 / 64)
	p.judge(p.main[0].key, 1)
	p.remember(p.main[0].key, true, p.evictions)
	p.main = p.main[1:]
}

// judge ends the trial of a key, if it is on one.
func (p *naiveA3) judge(key uint64, loss float64) {
	if p.trials[key] {
		p.losses += (loss - p.losses) * (1.0 / 32)
	}
	delete(p.trials, key)
}

func (p *naiveA3) popSmall() naiveEntry {
	front := p.small[0]
	p.small = p.small[1:]
	return front
}

func (p *naiveA3) toMain(key uint64) {
	p.main = append(p.main, naiveEntry{key: key, stamp: p.clock})
}

func (p *naiveA3) freeOne() {
	for steps := 0; p.full(); steps++ {
		if steps == 32 || len(p.small) == 0 || len(p.small) < p.target && len(p.main) > 0 {
			p.evictMain()
			continue
		}
		x := p.popSmall()
		if x.count >= 2 || x.count == 1 && p.roomInMain() {
			p.toMain(x.key)
			if len(p.main) > p.capacity-p.target {
				p.evictMain()
			}
			continue
		}
		p.remember(x.key, false, x.stamp)
	}
}

func (p *naiveA3) place(key uint64) (bucket int, print uint64) {
	buckets := (3*p.capacity + 15) / 16
	return int(uint64(hash(key)*0x9e3779b1) * uint64(buckets) >> 32), uint64(max(1, hash(key)&0xffff))
}

func (p *naiveA3) remember(key uint64, fromMain bool, stamp int) {
	bucket, print := p.place(key)
	records := slices.DeleteFunc(p.history[bucket], func(r naiveRecord) bool { return r.print == print })
	records = slices.Insert(records, 0, naiveRecord{print, fromMain, stamp})
	p.history[bucket] = records[:min(16, len(records))]
}

func TestA3FIFOAgreesWithItsReference(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 1))
	for round := range 400 {
		capacity := 1 + random.IntN(60)
		keys := 1 + random.Uint64N(uint64(6*capacity))
		p := NewEngine(evict.A3FIFO, capacity)
		r := &naiveA3{capacity: capacity, target: 1, history: map[int][]naiveRecord{}, trials: map[uint64]bool{}}
		for i := range 2000 {
			key := random.Uint64N(keys)
			switch {
			case round%4 == 0:
				key = uint64(i) % keys
			case round%4 == 1: // forwards and backwards
				key = min(uint64(i)%(2*keys), 2*keys-1-uint64(i)%(2*keys))
			case random.IntN(3) == 0:
				key = random.Uint64N(1 + keys/5)
			}
			if got, want := p.Access(key), r.Access(key); got != want || p.Len() != len(r.small)+len(r.main) {
				t.Fatalf("round %d, capacity %d: request %d for %d of %d keys: hit %t, the reference says %t", round, capacity, i, key, keys, got, want)
			}
		}
	}
}
