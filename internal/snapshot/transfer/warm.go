package transfer

import (
	"context"
	"iter"
	"time"

	"github.com/strata-cache/strata/internal/cache/envelope"
)

// Warmable is a cache as a [Warming] needs it.
type Warmable[K comparable] interface {
	// Err returns the reason why no key can be warmed now: the error of ctx, or of a
	// closed cache.
	Err(ctx context.Context) error
	// Room returns about how many entries L1 can take without an eviction. It counts no further than most.
	Room(most int) int
	// Has reports whether L1 has a fresh value of key, Usable whether key can be looked up.
	Has(key K) bool
	Usable(key K) bool
	// LookUp gets keys from L2 into L1, or loads them, and adds what became of them to the numbers
	// in so. An error means that L2, or the origin, does not answer.
	LookUp(ctx context.Context, keys []K, so *Warmed) error
}

// Warming gets keys into L1 in batches, one at a time.
type Warming[K comparable] struct {
	Cache Warmable[K]
	// PerSecond is the largest number of keys in a second read from L2, or loaded; 0 for no limit.
	PerSecond int
	// Progress, if set, is called after each batch.
	Progress func(Warmed)

	so    Warmed
	start time.Time
	asked int // keys read from L2, or loaded
	// refused is the number of batches in a row that L2 did not answer, or that failed.
	refused int
}

const (
	// maxBatch is the number of keys in one operation on L2.
	maxBatch = 500
	// mostRefused is the number of batches in a row that end a Warming if L2 does not answer.
	mostRefused = 3
	// refusedPause is the pause after such a batch, for a busy server.
	refusedPause = 100 * time.Millisecond
)

// Run warms keys until L1 is full.
func (w *Warming[K]) Run(ctx context.Context, keys iter.Seq[K]) (Warmed, error) {
	w.start = time.Now()
	room := w.room()
	if room == 0 {
		return w.so, nil
	}
	batch := make([]K, 0, room)
	for k := range keys {
		if batch = append(batch, k); len(batch) < w.room() {
			continue
		}
		if err := w.batch(ctx, batch); err != nil {
			return w.so, err
		}
		if batch = batch[:0]; w.room() == 0 {
			return w.so, nil
		}
	}
	if len(batch) == 0 {
		return w.so, nil
	}
	return w.so, w.batch(ctx, batch)
}

// room is the number of keys of the next batch.
func (w *Warming[K]) room() int {
	n := w.Cache.Room(maxBatch)
	if w.PerSecond > 0 {
		n = min(n, max(1, w.PerSecond/10))
	}
	return n
}

// batch looks up keys, in its turn.
func (w *Warming[K]) batch(ctx context.Context, keys []K) error {
	if err := w.pace(ctx); err != nil {
		return err
	}
	var missing []K
	for _, k := range envelope.Distinct(keys) {
		if w.Cache.Has(k) {
			w.so.Present++
		} else if w.Cache.Usable(k) {
			missing = append(missing, k)
		}
	}
	w.so.Keys += len(keys)
	var err error
	if len(missing) > 0 {
		err = w.lookUp(ctx, missing)
	}
	w.so.Absent = w.so.Keys - w.so.Present - w.so.Found - w.so.Loaded - w.so.Failed
	if w.Progress != nil {
		w.Progress(w.so)
	}
	return err
}

// lookUp gets keys into L1, and ends the Warming after mostRefused failures in a row.
func (w *Warming[K]) lookUp(ctx context.Context, keys []K) error {
	w.asked += len(keys)
	reason := w.Cache.LookUp(ctx, keys, &w.so)
	if err := w.Cache.Err(ctx); err != nil || reason == nil {
		w.refused = 0
		return err
	}
	if w.refused++; w.refused == mostRefused {
		return reason
	}
	return pause(ctx, refusedPause)
}

// pace waits until PerSecond allows the next batch.
func (w *Warming[K]) pace(ctx context.Context) error {
	if err := w.Cache.Err(ctx); err != nil || w.PerSecond == 0 {
		return err
	}
	due := time.Duration(float64(w.asked) / float64(w.PerSecond) * float64(time.Second))
	return pause(ctx, time.Until(w.start.Add(due)))
}

// pause waits for d, or until ctx ends. Then it returns the error of ctx.
func pause(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
	return ctx.Err()
}
