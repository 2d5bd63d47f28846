//go:build linux

package cluster

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"math/rand/v2"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/strata-cache/strata"
	"github.com/strata-cache/strata/snapshot"
)

// Instances save their entries to files that all share, and load entries that any of them has
// saved, from a moment ago or from long before. A restored entry is judged as any other value.

const (
	// snapshotFiles is the number of files. The more there are, the older they become.
	snapshotFiles = 5
	// snapshotEvery is the mean time between two calls of a process that save or load.
	snapshotEvery = time.Second
	// snapshotWithin bounds such a call.
	snapshotWithin = 5 * time.Second
)

// Moved counts snapshots, and the entries that came with them.
type Moved struct {
	// Saved and Loaded are numbers of files.
	Saved, Loaded uint64
	// Stored counts entries that came into L1, Confirmed entries that were read from L2 instead,
	// and Changed entries that did not come into L1 because they were dropped. Others are not
	// counted.
	Stored, Confirmed, Changed uint64
}

// Add adds the counts of another instance.
func (m *Moved) Add(o *Moved) {
	m.Saved += o.Saved
	m.Loaded += o.Loaded
	m.Stored += o.Stored
	m.Confirmed += o.Confirmed
	m.Changed += o.Changed
}

// moved are the counts of a process.
type moved struct{ saved, loaded, stored, confirmed, changed atomic.Uint64 }

func (m *moved) counts() Moved {
	return Moved{m.saved.Load(), m.loaded.Load(), m.stored.Load(), m.confirmed.Load(), m.changed.Load()}
}

// snapshots saves the entries of a cache of this process to a file, or loads the entries of
// a file into it, now and then. It reports whether it has done so.
func (w *worker) snapshots(ctx context.Context, r *rand.Rand) bool {
	if w.c.Snapshots == "" || r.Float64()*w.c.Rate*snapshotEvery.Seconds() >= 1 {
		return false
	}
	of := w.cache
	if w.neighbour != nil && r.IntN(4) == 0 {
		of = w.neighbour
	}
	path := filepath.Join(w.c.Snapshots, "snapshot"+strconv.Itoa(r.IntN(snapshotFiles)))
	switch r.IntN(4) {
	case 0:
		w.save(ctx, path, of)
	case 1:
		w.restore(ctx, path, of)
	default: // at once: few keys have been dropped since, so that most entries are taken in
		w.save(ctx, path, of)
		_ = sleep(ctx, time.Duration(r.Int64N(int64(200*time.Millisecond))))
		w.restore(ctx, path, w.cache)
	}
	return true
}

// silent is for options of snapshots: lines about each would hide all others.
var silent = snapshot.Options{Logger: slog.New(slog.DiscardHandler)} // read-only

func (w *worker) save(ctx context.Context, path string, of *strata.Cache[string, string]) {
	ctx, cancel := context.WithTimeout(ctx, snapshotWithin)
	defer cancel()
	if _, err := snapshot.Save(ctx, path, silent, of); err == nil {
		w.moved.saved.Add(1)
	} else if ctx.Err() == nil {
		w.surprise("Save returned: " + err.Error())
	}
}

// restore loads a file, which may be of the other service: such a file is refused.
func (w *worker) restore(ctx context.Context, path string, of *strata.Cache[string, string]) {
	ctx, cancel := context.WithTimeout(ctx, snapshotWithin)
	defer cancel()
	rep, err := snapshot.Load(ctx, path, silent, of)
	_, remote := errors.AsType[*strata.RemoteError](err)
	switch {
	case err == nil:
		w.moved.loaded.Add(1)
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, snapshot.ErrRefused), remote, ctx.Err() != nil,
		strings.HasSuffix(err.Error(), "L2 does not answer"):
	default:
		w.surprise("Load returned: " + err.Error())
	}
	for _, c := range rep.Caches {
		w.moved.stored.Add(uint64(c.Stored))
		w.moved.confirmed.Add(uint64(c.Confirmed))
		w.moved.changed.Add(uint64(c.Changed))
		all := c.Stored + c.Confirmed + c.Present + c.Changed + c.Absent + c.Over + c.Full + c.Unusable + c.Passed
		if c.Unusable > 0 || all != c.Entries {
			w.surprise("the report of a Load does not add up")
		}
	}
}
