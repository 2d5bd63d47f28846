package snapshot

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"iter"
	"math"
	"slices"
	"time"

	"github.com/strata-cache/strata/internal/snapshot/format"
	"github.com/strata-cache/strata/internal/snapshot/transfer"
)

// Write writes a snapshot of the values of caches to w, as [Save] does to a file.
func Write(ctx context.Context, w io.Writer, o Options, caches ...Cache) (Report, error) {
	return write(ctx, w, "", o, format.Values, caches)
}

// write writes a snapshot as one stream. A snapshot of keys takes over some of the file at path.
func write(ctx context.Context, w io.Writer, path string, o Options, mode format.Mode, caches []Cache) (Report, error) {
	if err := o.check(); err != nil {
		return Report{}, err
	}
	all, err := sources(caches)
	if err != nil {
		return Report{}, err
	}
	m := newMeter(o.Progress)
	out := &writing{o: &o, mode: mode, all: all, header: format.Header{Mode: mode, Streams: 1}}
	_, _ = rand.Read(out.header.ID[:]) // does not fail
	if mode == format.Keys {
		if out.earlier = openEarlier(path, all); out.earlier != nil {
			defer out.earlier.f.Close() // before the file is replaced
		}
	}
	m.expect(out.total(), 0)
	r, err := out.stream(&pipe{ctx: ctx, pace: newPacer(o.BytesPerSecond), meter: m, w: w})
	r.Bytes, r.Took = m.end()
	return r, err
}

// writing is one stream on its way out.
type writing struct {
	o      *Options
	mode   format.Mode
	all    []transfer.Source
	header format.Header

	w      *format.Writer
	p      *pipe
	dumps  []transfer.Dump // of the mode Values
	left   []format.Left   // for each cache
	report Report

	// Of the mode Keys: the replaced file, or nil, and for each cache nil or its content
	// after a quiet time.
	earlier *earlier
	quiet   []*quiet
}

// total is about the number of entries of the stream.
func (w *writing) total() (n int64) {
	for _, s := range w.all {
		one := int64(s.Len())
		if w.o.MaxEntries > 0 {
			one = min(one, int64(w.o.MaxEntries))
		}
		n += one / int64(w.header.Streams)
	}
	return n
}

// stream writes to p. If it fails, it tries to tell the reader why.
func (w *writing) stream(p *pipe) (Report, error) {
	w.p = p
	w.header.Created = time.Now()
	if w.mode == format.Keys {
		w.findQuiet()
	}
	w.w = format.NewWriter(p, w.header)
	defer func() {
		for _, d := range w.dumps {
			d.Close()
		}
	}()
	err := w.begin()
	if err == nil {
		err = w.w.Flush()
	}
	if err == nil && p.flush != nil {
		p.flush() // the reader learns that there is a snapshot
	}
	if err == nil && w.mode == format.Keys {
		err = w.keys()
	} else if err == nil {
		err = w.values()
	}
	if err == nil {
		err = w.w.Close()
	}
	if err != nil {
		err = fmt.Errorf("snapshot: %w", err)
		_ = w.w.Abort(err.Error())
	}
	return w.report, err
}

// dumpsWithin is the time for calls of this instance to end before the entries are taken.
const dumpsWithin = 3 * time.Second

// begin writes the sections. Dumps begin after the time of creation, so that entries seem
// older than they are, not younger.
func (w *writing) begin() error {
	ctx, cancel := context.WithTimeout(w.p.ctx, dumpsWithin)
	defer cancel()
	for _, s := range w.all {
		about := format.Section{Name: s.Name()}
		about.Codec, about.Fingerprint = s.Format()
		if s.HasTier() || s.Space() != s.Name() {
			about.Space = s.Space()
		}
		if w.mode == format.Values {
			d, err := s.Dump(ctx, w.header.Stream, w.header.Streams)
			if err != nil {
				return fmt.Errorf("cache %q: %w", s.Name(), err)
			}
			// stream closes the dumps, also those of a call that fails with the next cache.
			w.dumps = append(w.dumps, d)
			about.Position = d.Position()
		}
		if _, err := w.w.Section(about); err != nil {
			return fmt.Errorf("cache %q: %w", s.Name(), err)
		}
		w.report.Caches = append(w.report.Caches, CacheReport{Name: s.Name()})
	}
	w.left = make([]format.Left, len(w.all))
	for i, d := range w.dumps { // after all sections
		if piece := d.Know(); piece != nil {
			if err := w.w.Log(i, piece); err != nil {
				return err
			}
		}
	}
	return nil
}

// tell writes drops that the cache of section i knows.
func (w *writing) tell(i int, all bool) error {
	for _, piece := range w.dumps[i].Tell(all) {
		if err := w.w.Log(i, piece); err != nil {
			return err
		}
	}
	return nil
}

// keys writes the names of keys, in turn one of each cache.
func (w *writing) keys() error {
	lists := make([]iter.Seq[string], len(w.all))
	for i := range w.all {
		lists[i] = w.hot(i)
	}
	// In turn, so that the end of a stream that is cut off costs each cache some of its keys, and
	// no cache all of them.
	err := inTurn(lists, func(string) int { return 0 }, func(i int, name string) error {
		return w.count(i, w.w.Key(i, name))
	})
	if err == nil {
		err = w.keep()
	}
	// A cache that was closed meanwhile has told no more keys.
	for i := 0; err == nil && i < len(w.all); i++ {
		err = w.all[i].Usable(w.p.ctx)
	}
	if err != nil {
		return err
	}
	return w.missing()
}

// missing writes and reports the numbers of missing entries.
func (w *writing) missing() error {
	for i, d := range w.dumps {
		w.left[i] = d.Left()
	}
	for i, l := range w.left {
		w.report.Caches[i].miss(&l)
		if l == (format.Left{}) {
			continue
		}
		if err := w.w.Left(i, l); err != nil {
			return err
		}
	}
	return nil
}

// given is an entry that a cache gives away.
type given struct {
	entry *format.Entry
	value func(dst []byte) ([]byte, error)
}

// lookEvery is the number of entries between two looks at the drops.
const lookEvery = 1024

// values writes entries and, for caches without an L2, their drops.
func (w *writing) values() error {
	lists := make([]iter.Seq[given], len(w.all))
	for i, d := range w.dumps {
		lists[i] = w.hottest(d)
	}
	n, uses := 0, math.MaxInt
	err := inTurn(lists, func(g given) int { return g.entry.Uses }, func(i int, g given) error {
		var err error
		switch n++; {
		case g.entry.Uses < uses: // the more used ones of small caches may wait for a full frame
			uses, err = g.entry.Uses, w.w.Flush()
		// Entries written before may have been dropped since. The reader has them in use, and must
		// learn of it before the end of a long stream.
		case n%lookEvery == 0:
			err = w.drops()
		}
		if err != nil {
			return err
		}
		return w.count(i, w.w.Entry(i, g.entry, g.value))
	})
	if err == nil {
		err = w.drops()
	}
	// At the end come all drops that the cache knows: its own, and those that snapshots have told
	// it of.
	for i := range w.dumps {
		if err == nil {
			err = w.tell(i, true)
		}
	}
	if err != nil {
		return err
	}
	return w.missing()
}

// hottest iterates over the entries of d, up to as many as Options.MaxEntries allows.
func (w *writing) hottest(d transfer.Dump) iter.Seq[given] {
	most := (w.o.MaxEntries + w.header.Streams - 1) / w.header.Streams
	return func(yield func(given) bool) {
		n := 0
		for e, value := range d.Entries() {
			if !yield(given{e, value}) {
				return
			}
			if n++; n == most {
				return
			}
		}
	}
}

// count counts the record just written, or left out, in section i.
func (w *writing) count(i int, err error) error {
	c := &w.report.Caches[i]
	var skip *format.SkipError
	switch {
	case err == nil:
		c.Entries++
		w.p.entries++
	// A value that cannot be encoded, or is too large, is left out and counted: it is no reason to
	// give up the others.
	case errors.As(err, &skip):
		c.Skipped++
		err = nil
	}
	return err
}

// inTurn calls do with the elements of all lists, each with the number of its list. Elements with
// more uses come first. Elements with equal uses come from each list in turn.
func inTurn[T any](lists []iter.Seq[T], uses func(T) int, do func(list int, one T) error) error {
	if len(lists) == 1 { // without the cost of iter.Pull
		for one := range lists[0] {
			if err := do(0, one); err != nil {
				return err
			}
		}
		return nil
	}
	heads := make([]head[T], 0, len(lists))
	for i, l := range lists {
		next, stop := iter.Pull(l)
		defer stop()
		if one, ok := next(); ok {
			heads = append(heads, head[T]{list: i, one: one, next: next})
		}
	}
	for at := -1; len(heads) > 0; {
		at = nextTurn(heads, at, uses)
		h := &heads[at]
		if err := do(h.list, h.one); err != nil {
			return err
		}
		var ok bool
		if h.one, ok = h.next(); !ok {
			heads = slices.Delete(heads, at, at+1)
			at--
		}
	}
	return nil
}

// head is the first remaining element of a list.
type head[T any] struct {
	list int
	one  T
	next func() (T, bool)
}

// nextTurn returns the index of the most used head, the first of them behind last.
func nextTurn[T any](heads []head[T], last int, uses func(T) int) int {
	best, most := 0, -1
	for k := 1; k <= len(heads); k++ {
		i := (last + k) % len(heads)
		if n := uses(heads[i].one); n > most {
			best, most = i, n
		}
	}
	return best
}

// drops writes the drops since the last call.
func (w *writing) drops() error {
	for i, d := range w.dumps {
		names, all := d.Dropped()
		for _, name := range names {
			err := w.w.Drop(i, name, false)
			// A name too long for a record becomes a drop of everything, which the reader can be
			// told.
			if all = all || errors.Is(err, format.ErrTooLarge); err != nil && !all {
				return err
			}
		}
		if !all {
			continue
		}
		// Readers of earlier versions know nothing but a drop of everything.
		if err := w.tell(i, false); err != nil {
			return err
		}
		if err := w.w.DropAll(i, false); err != nil {
			return err
		}
	}
	return nil
}
