package snapshot

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/strata-cache/strata/internal/snapshot/format"
	"github.com/strata-cache/strata/internal/snapshot/transfer"
)

// Read fills caches from a snapshot of values, as [Load] does from a file. It ends with ctx, and after Options.Within, even if a
// Read of r does not: that one is left behind, and r must not be used before it has returned.
func Read(ctx context.Context, r io.Reader, o Options, caches ...Cache) (Report, error) {
	return read(ctx, r, o, format.Values, 0, caches)
}

// read fills caches from one stream of length bytes; 0 or less if the length is
// unknown.
func read(ctx context.Context, r io.Reader, o Options, mode format.Mode, length int64, caches []Cache) (Report, error) {
	rd, err := newReading(ctx, o, mode, caches)
	if err != nil {
		return Report{}, err
	}
	defer rd.cancel()
	if rd.meter.expect(0, length); length <= 0 {
		r = &awaited{ctx: rd.ctx, r: r}
	}
	in, err := rd.begin()
	if err != nil {
		return Report{}, err
	}
	defer in.close()
	in.whole = true
	err = in.stream(&pipe{ctx: rd.ctx, pace: rd.pace, meter: rd.meter, r: r}, sinceCreation)
	return rd.end("snapshot is loaded", "snapshot is loaded in part", err)
}

// reading is a snapshot on its way into caches, by one stream or several.
type reading struct {
	o      Options
	ctx    context.Context
	cancel context.CancelFunc
	mode   format.Mode
	all    []transfer.Source
	pace   *pacer
	meter  *meter

	taken   map[string]*transfer.Taken // by the names of caches
	mu      sync.Mutex
	report  Report
	warmers map[string]*warmer // by the names of caches
}

func newReading(ctx context.Context, o Options, mode format.Mode, caches []Cache) (*reading, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	all, err := sources(caches)
	if err != nil {
		return nil, err
	}
	rd := &reading{o: o, mode: mode, all: all, pace: newPacer(o.BytesPerSecond), meter: newMeter(o.Progress), warmers: make(map[string]*warmer)}
	rd.taken = make(map[string]*transfer.Taken)
	// All are made now: the streams read the map without a lock.
	for _, s := range all {
		rd.taken[s.Name()] = new(transfer.Taken)
	}
	rd.ctx, rd.cancel = o.within(ctx)
	return rd, nil
}

// end waits for the reads from L2, and is the result of the call.
func (rd *reading) end(done, failed string, err error) (Report, error) {
	for i := range rd.report.Caches {
		c := &rd.report.Caches[i]
		// Entries that a later drop has removed again were counted when they were stored.
		c.withdraw(rd.taken[c.Name])
		if w := rd.warmers[c.Name]; w != nil {
			if warm := w.end(c); err == nil && warm != nil {
				err = fmt.Errorf("snapshot: cache %q: %w", c.Name, warm)
			}
		}
	}
	r := rd.report
	if why := r.refused(); err == nil && why != "" {
		err = fmt.Errorf("%w: %s", ErrRefused, why)
	}
	r.Bytes, r.Took = rd.meter.end()
	r.log(rd.o.logger(rd.all), done, failed, err)
	return r, err
}

// clock tells, for the snapshot with a header, how long ago it was begun.
type clock func(format.Header) (ago func() time.Duration, err error)

// maxAhead is how far the creation of a snapshot may be in the future.
const maxAhead = time.Minute

// sinceCreation is the clock of files: the wall clock.
func sinceCreation(h format.Header) (ago func() time.Duration, err error) {
	created := h.Created
	if ahead := time.Until(created); ahead > maxAhead {
		return nil, fmt.Errorf("%w by %v", ErrFuture, ahead.Round(time.Second))
	}
	return func() time.Duration { return time.Since(created) }, nil
}

// section is a section of a stream on its way into a cache.
type section struct {
	source  transfer.Source  // nil if it is passed over
	restore transfer.Restore // nil for keys, and if it is passed over
	report  CacheReport
	fates   outcomes
	suspect string // the reason why entries need a question to L2
	told    bool   // the drops are told by logs, in place of drops of everything
	full    int    // consecutive entries for which L1 had no room
	filled  bool   // L1 counts as full
}

// fullAfter is the number of consecutive refused entries after which L1 counts as full.
// A single entry may have come to a full part of L1.
const fullAfter = 1000

// incoming is one stream on its way in.
type incoming struct {
	rd       *reading
	p        *pipe
	ago      func() time.Duration
	begun    map[string]transfer.Restore
	sections []section
	usable   int // sections that no cache refuses
	filled   int // the usable sections with a full L1
	// whole says that drops are read to the end although L1 is full. The cache that a stream of another instance
	// comes from drops keys later as well, without a word to this one; a file may have the last drops of this cache.
	whole bool
	skips bool // entries are passed over from now on
}

// begin begins to take in entries of all caches by one stream: drops from now on are seen.
func (rd *reading) begin() (*incoming, error) {
	in := &incoming{rd: rd, begun: make(map[string]transfer.Restore)}
	if rd.mode == format.Keys {
		return in, nil
	}
	for _, s := range rd.all {
		r, err := s.Restore(rd.ctx, rd.taken[s.Name()])
		if err != nil {
			in.close()
			return nil, fmt.Errorf("snapshot: cache %q: %w", s.Name(), err)
		}
		in.begun[s.Name()] = r
	}
	return in, nil
}

// stream fills caches from p. The entries before an error are in use.
func (in *incoming) stream(p *pipe, c clock) error {
	in.p = p
	err := in.from(format.NewReader(p, format.Limits{Keep: in.rd.o.Alias}), c)
	for _, r := range in.begun {
		r.End() // the stream may have ended early
	}
	in.rd.take(in.sections)
	p.count(0)
	if err != nil {
		return fmt.Errorf("snapshot: %w", placed(err))
	}
	return nil
}

func (in *incoming) close() {
	for _, r := range in.begun {
		r.Close()
	}
}

// from reads the header and all records.
func (in *incoming) from(r *format.Reader, c clock) error {
	h, err := r.Header()
	if err != nil {
		return err
	}
	if err := sameMode(h.Mode, in.rd.mode); err != nil {
		return err
	}
	if in.ago, err = c(h); err != nil {
		return err
	}
	for {
		// The rest would be turned away entry by entry: it need not even be transferred, unless it tells of drops.
		if in.full() && !in.skips {
			in.rd.partly("L1 is full")
			if in.skips = in.whole && in.told(); !in.skips {
				return nil
			}
		}
		rec, err := r.Next()
		if err == io.EOF {
			return nil
		}
		if err == nil {
			err = in.record(&rec)
		}
		if err != nil {
			return err
		}
	}
}

// partly notes why a stream was not read to its end.
func (rd *reading) partly(why string) {
	rd.mu.Lock()
	defer rd.mu.Unlock()
	rd.report.Rest = why
}

// sameMode returns an error if a snapshot has another mode than is wanted. A snapshot
// with values can also be read for its keys.
func sameMode(is, want format.Mode) error {
	if is == format.Keys && want == format.Values {
		return ErrKeysOnly
	}
	return nil
}

// told reports whether the stream tells a cache of drops that no other way does.
func (in *incoming) told() bool {
	return slices.ContainsFunc(in.sections, func(s section) bool { return s.told })
}

// full reports whether no cache has room for more.
func (in *incoming) full() bool { return in.filled > 0 && in.filled == in.usable }

func (in *incoming) record(rec *format.Record) error {
	switch rec.Kind {
	case format.KindSection:
		in.bind(rec.Section)
	case format.KindKey:
		in.key(&in.sections[rec.Index], rec.Key)
	case format.KindEntry:
		if !in.skips {
			in.entry(&in.sections[rec.Index], rec.Entry)
		}
	case format.KindDrop:
		return in.drop(&in.sections[rec.Index], rec.Drop)
	case format.KindLog:
		return in.learn(&in.sections[rec.Index], rec.Log)
	case format.KindLeft:
		in.sections[rec.Index].report.miss(&rec.Left)
	case format.KindSectionEnd:
		in.sections[rec.Index].report.Skipped = int(rec.Counts.Skipped)
	case format.KindAbort:
		return fmt.Errorf("%w: %q", format.ErrAborted, rec.Reason)
	}
	return nil
}

// bind looks for the cache of a section, and learns how far its entries can be trusted.
func (in *incoming) bind(s *format.Section) {
	b := section{report: CacheReport{Name: s.Name}}
	for _, source := range in.rd.all {
		if source.Name() == s.Name {
			b.source = source
		}
	}
	// A section without a cache is read to its end, since the others are behind it. Its entries are
	// only counted.
	if why := in.refuse(b.source, s); why != "" {
		b.source, b.report.Refused = nil, why
	} else if in.usable++; in.rd.mode == format.Values {
		b.restore = in.begun[s.Name]
		b.suspect = b.restore.Cover(in.rd.ctx, s.Position)
	}
	in.sections = append(in.sections, b)
}

// refuse returns why the entries of s cannot go into the cache of source.
func (in *incoming) refuse(source transfer.Source, s *format.Section) string {
	if source == nil {
		return "no cache here has this name"
	}
	// The counts and the drops of two sections for one cache could not be told apart.
	for i := range in.sections {
		if in.sections[i].report.Name == s.Name {
			return "the snapshot has an earlier section of this name"
		}
	}
	if space := cmp.Or(s.Space, s.Name); space != source.Space() {
		return fmt.Sprintf("it is of another service: its namespace is %.200q, that of the cache %q", space, source.Space())
	}
	if in.rd.mode == format.Keys {
		if !source.HasTier() {
			return "the cache has no L2 to read keys from"
		}
		return ""
	}
	switch codec, fingerprint := source.Format(); {
	case codec != s.Codec:
		return fmt.Sprintf("its values have the codec %.64q, the cache has %q", s.Codec, codec)
	case fingerprint != s.Fingerprint:
		return fmt.Sprintf("its values have another type: fingerprint %016x, the cache has %016x", s.Fingerprint, fingerprint)
	}
	return ""
}

// key takes in the key of an entry.
func (in *incoming) key(s *section, name []byte) {
	in.p.entries++
	switch {
	case s.source == nil:
		s.report.Entries++
		s.report.Passed++
	// The name outlives the memory of the record, which the next one uses again.
	case !in.rd.warm(s.source, bytes.Clone(name)):
		s.fates[transfer.Unconfirmed]++
	}
}

// entry takes in an entry.
func (in *incoming) entry(s *section, e *format.Entry) {
	if s.restore == nil {
		in.key(s, e.Key)
		return
	}
	in.p.entries++
	o := s.restore.Entry(e, in.ago(), in.rd.o.Alias)
	// The entry may have missed a drop. Its key is as good as before: L2 has the value, or knows of
	// the drop.
	if o == transfer.Unconfirmed {
		s.report.Suspect = s.suspect
		if s.source.HasTier() && in.rd.warm(s.source, bytes.Clone(e.Key)) {
			return // its warmer counts it
		}
	}
	s.fates[o]++
	switch o {
	// Only refusals in a row count: as long as some entries find room, L1 is not full.
	case transfer.Stored:
		if s.full = 0; s.filled {
			s.filled = false
			in.filled--
		}
	case transfer.Full:
		if s.full++; s.full == fullAfter {
			s.filled = true
			in.filled++
		}
	}
}

// drop makes a key absent, or all keys, among the entries that the snapshot has
// stored here.
func (in *incoming) drop(s *section, d format.Drop) error {
	switch {
	case s.restore == nil:
	case !d.All:
		s.restore.Drop(d.Name, in.ago())
	// A cache that tells its drops in logs writes this record only for readers of earlier versions,
	// which know no logs. It would empty L1 for nothing.
	case !s.told:
		// A frame may have thousands of these records, and L1 is looked through for each. Reads from the
		// stream, which see the end of the call, are only between frames.
		if err := context.Cause(in.rd.ctx); err != nil {
			return err
		}
		s.restore.DropAll()
	}
	return nil
}

// learn takes in a piece of the drops that the other cache knows.
func (in *incoming) learn(s *section, piece []byte) error {
	if s.restore == nil {
		return nil
	}
	// L1 may be looked through for this piece, too.
	if err := context.Cause(in.rd.ctx); err != nil {
		return err
	}
	told, err := s.restore.Learn(piece)
	s.told = told
	if err != nil {
		return fmt.Errorf("%w: %w", format.ErrCorrupt, err)
	}
	return nil
}

// take adds the counts of a stream.
func (rd *reading) take(sections []section) {
	rd.mu.Lock()
	defer rd.mu.Unlock()
	// The streams of one call count apart, without a lock, and are added at their ends.
	for i := range sections {
		s := &sections[i]
		s.report.add(&s.fates)
		s.report.Coarse = s.report.Coarse || s.restore != nil && s.restore.Coarse()
		rd.merge(&sections[i].report)
	}
}

// merge adds c to the report. mu is held.
func (rd *reading) merge(c *CacheReport) {
	for i := range rd.report.Caches {
		if rd.report.Caches[i].Name == c.Name {
			rd.report.Caches[i].merge(c)
			return
		}
	}
	rd.report.Caches = append(rd.report.Caches, *c)
}
