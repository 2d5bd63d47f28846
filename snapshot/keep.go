package snapshot

import (
	"cmp"
	"io"
	"iter"
	"math"
	"os"
	"slices"
	"time"

	"github.com/strata-cache/strata/internal/snapshot/format"
	"github.com/strata-cache/strata/internal/snapshot/transfer"
)

// keepFor is how old the keys of a file may become that L1 does not have any more: long enough
// for a weekend without traffic and the days around it.
const keepFor = 7 * 24 * time.Hour

// earlier is the file of keys that a SaveKeys replaces.
type earlier struct {
	f       *os.File
	created time.Time
	// counts are the numbers of keys, sections the caches of sections, by their indexes: -1 for a
	// section of another cache.
	counts   []int
	sections []int
}

// openEarlier opens the file of keys at path. It returns nil if there is no whole and young
// enough file. The caller closes it.
func openEarlier(path string, all []transfer.Source) *earlier {
	about, err := os.Stat(path)
	if err != nil || !about.Mode().IsRegular() {
		return nil
	}
	f, err := os.Open(path)
	if err != nil {
		return nil
	}
	e := &earlier{f: f, counts: make([]int, len(all))}
	if !e.read(all) {
		f.Close()
		return nil
	}
	return e
}

// read counts the keys of all caches, and reports whether the file is usable.
func (e *earlier) read(all []transfer.Source) bool {
	r := format.NewReader(e.f, format.Limits{})
	h, err := r.Header()
	// Keys that are too old are not kept for ever by one save after the other: the age is that of
	// the oldest file.
	if age := time.Since(h.Created); err != nil || h.Mode != format.Keys || age > keepFor || age < -maxAhead {
		return false
	}
	e.created = h.Created
	for {
		rec, err := r.Next()
		switch {
		case err != nil:
			return err == io.EOF
		case rec.Kind == format.KindSection:
			e.sections = append(e.sections, e.cache(rec.Section, all))
		case rec.Kind == format.KindKey && e.sections[rec.Index] >= 0:
			e.counts[e.sections[rec.Index]]++
		}
	}
}

// cache returns the index of the cache of a section, or -1.
func (e *earlier) cache(s *format.Section, all []transfer.Source) int {
	return slices.IndexFunc(all, func(c transfer.Source) bool {
		return c.Name() == s.Name && c.Space() == cmp.Or(s.Space, s.Name)
	})
}

// keys iterates over the caches and keys of the file, up to an error.
func (e *earlier) keys() iter.Seq2[int, []byte] {
	return func(yield func(int, []byte) bool) {
		// The file is read a second time, so that its keys need no memory.
		if _, err := e.f.Seek(0, io.SeekStart); err != nil {
			return
		}
		for r := format.NewReader(e.f, format.Limits{}); ; {
			rec, err := r.Next()
			if err != nil {
				return
			}
			if rec.Kind == format.KindKey && e.sections[rec.Index] >= 0 && !yield(e.sections[rec.Index], rec.Key) {
				return
			}
		}
	}
}

// quiet is the content of a cache after a while without traffic.
type quiet struct {
	present []string
	left    format.Left
	room    int // for keys of the earlier file
}

// findQuiet looks for caches that lost more than half of their keys since the earlier
// file. The new file stays as old as the keys that it keeps.
func (w *writing) findQuiet() {
	w.quiet = make([]*quiet, len(w.all))
	if w.earlier == nil {
		return
	}
	for i, s := range w.all {
		n := min(w.earlier.counts[i], w.most())
		// Half of the keys are enough to see that the cache is not quiet.
		q := &quiet{}
		for name := range s.Hot((n+1)/2, &q.left) {
			q.present = append(q.present, name)
		}
		if q.room = n - len(q.present); 2*len(q.present) < n {
			w.quiet[i], w.header.Created = q, w.earlier.created
		}
	}
}

// most is the largest number of keys written of a cache.
func (w *writing) most() int {
	if w.o.MaxEntries > 0 {
		return w.o.MaxEntries
	}
	return math.MaxInt
}

// hot iterates over the keys that a cache has.
func (w *writing) hot(i int) iter.Seq[string] {
	if q := w.quiet[i]; q != nil {
		w.left[i] = q.left
		return slices.Values(q.present)
	}
	return w.all[i].Hot(w.most(), &w.left[i])
}

// keep writes keys of the earlier file that quiet caches do not have, behind the keys that
// they have.
func (w *writing) keep() error {
	if !slices.ContainsFunc(w.quiet, func(q *quiet) bool { return q != nil }) {
		return nil
	}
	written := make(map[int]map[string]bool)
	// Keys that the cache has are written already, as hotter ones.
	for i, q := range w.quiet {
		if q != nil {
			written[i] = make(map[string]bool, len(q.present))
			for _, name := range q.present {
				written[i][name] = true
			}
		}
	}
	for i, key := range w.earlier.keys() {
		q := w.quiet[i]
		if q == nil || q.room == 0 || written[i][string(key)] {
			continue
		}
		if err := w.count(i, w.w.Key(i, string(key))); err != nil {
			return err
		}
		q.room--
		w.report.Caches[i].Kept++
	}
	return nil
}
