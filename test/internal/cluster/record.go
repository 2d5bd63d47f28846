//go:build linux

package cluster

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/strata-cache/strata/internal/testing/checker"
)

// The kinds of records, each the first field of a line. Times are times of the
// Clock; each call has a number.
const (
	recRead     = "R" // key, of, version, call, return, stale, final, more
	recFence    = "F" // call, key, version, time, soft, stores
	recFenced   = "f" // call, time, failed
	recLoad     = "L" // call, key, since, time
	recLoaded   = "l" // call, version, time, ok
	recLeft     = "V" // key, from, to: a caller has left, or (all keys) no load may be joined
	recDropped  = "D" // key, from, to: it was dropped at some time, for an Update
	recStalled  = "Z" // from, to: the process did not run
	recAsked    = "A" // as recRead, but degraded instead of more: a read with ReadInfo
	recRemote   = "E" // time, operation: L2 has not answered
	recHears    = "C" // time, yes: the opinion of the cache about its bus
	recSample   = "S" // time, JSON
	recSurprise = "X" // time, text: a result that no call may have
)

// recorder writes records to a file. Kept records are in the hands of the
// system, and survive the process.
type recorder struct {
	clock Clock

	mu    sync.Mutex // guards below
	f     *os.File
	buf   []byte
	next  uint64
	reads map[string]*pendingRead // the last of each key
}

// pendingRead is a read that may be joined by others that get the same.
type pendingRead struct {
	checker.Read
	since checker.Time
}

// together is the longest time between reads that are recorded as one.
const together = checker.Time(10 * time.Millisecond)

func newRecorder(path string, clock Clock) (*recorder, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	return &recorder{clock: clock, f: f, reads: map[string]*pendingRead{}}, err
}

// call is a number that no other call of this process has.
func (r *recorder) call() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.next++
	return r.next
}

// read adds a read of this process; it is kept when flush is called, or another
// version of the key is read.
func (r *recorder) read(read checker.Read) {
	r.mu.Lock()
	defer r.mu.Unlock()
	p := r.reads[read.Key]
	if p != nil && p.joined(&read) {
		return
	}
	if p != nil {
		r.end(p)
	}
	r.reads[read.Key] = &pendingRead{read, read.Call}
}

// joined makes read a part of p if both got the same at almost the same time.
// The joined read has the latest call and the earliest return of all.
func (p *pendingRead) joined(read *checker.Read) bool {
	same := p.Of == read.Of && p.Version == read.Version && p.Stale == read.Stale && p.Final == read.Final
	if !same || read.Call-p.since > together || p.since-read.Call > together {
		return false
	}
	p.Call, p.Return = max(p.Call, read.Call), min(p.Return, read.Return)
	p.More++
	return true
}

func (r *recorder) end(p *pendingRead) {
	r.line(recRead, p.Key, p.Of, p.Version, p.Call, p.Return, p.Stale, p.Final, p.More)
}

// add adds a record; it is kept soon.
func (r *recorder) add(kind string, fields ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.line(kind, fields...)
}

func (r *recorder) line(kind string, fields ...any) {
	r.buf = append(r.buf, kind...)
	for _, f := range fields {
		r.buf = append(r.buf, ' ')
		switch f := f.(type) {
		case string:
			r.buf = append(r.buf, f...)
		case checker.Time:
			r.buf = strconv.AppendInt(r.buf, int64(f), 10)
		case uint64:
			r.buf = strconv.AppendUint(r.buf, f, 10)
		case bool:
			r.buf = strconv.AppendBool(r.buf, f)
		default:
			r.buf = fmt.Append(r.buf, f)
		}
	}
	r.buf = append(r.buf, '\n')
	if len(r.buf) > 64<<10 {
		r.write()
	}
}

// keep adds a record and returns when it is kept.
func (r *recorder) keep(kind string, fields ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.line(kind, fields...)
	r.write()
}

// flush returns when all records are kept.
func (r *recorder) flush() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, p := range r.reads {
		r.end(p)
	}
	clear(r.reads)
	r.write()
}

func (r *recorder) write() {
	if _, err := r.f.Write(r.buf); err != nil {
		panic("cluster: records: " + err.Error()) // without them the run proves nothing
	}
	r.buf = r.buf[:0]
}

// Sample holds numbers that a process records about itself from time to time.
type Sample struct {
	At                                        checker.Time
	Goroutines                                int
	RSS                                       int64 // bytes
	Reads, L1Hits, L2Hits, Loads, Gaps, Heard uint64
	Refused, RemoteRefused, RemoteErrors      uint64
	Moved                                     Moved
}

// Span is a time in which something has happened to Key.
type Span struct {
	Key      string
	From, To checker.Time
}

// Opinion is the belief of an instance, from At on, that its bus is connected or not.
type Opinion struct {
	At    checker.Time
	Hears bool
}

// Log is the records of one process.
type Log struct {
	Reads  []checker.Read
	Fences []checker.Fence
	// Open fences were called and have not returned; their Return is missing.
	Open []checker.Fence
	// Loads have returned. Unfinished loads have not, as far as the process
	// could record it.
	Loads, Unfinished []checker.Load
	// Left are times in which callers who left may have been waiting for a
	// load, or, for all keys, in which running loads could not be joined any
	// more. Dropped are times in which a key was dropped beside the drops in Fences.
	Left, Dropped []Span
	// Stalls are times in which the process did not run, or not as it should.
	Stalls []Span
	// Asked repeats the reads that asked whether the instance calls the value degraded.
	Asked []checker.Read
	// RemoteErrors are times at which L2 did not answer.
	RemoteErrors []checker.Time
	Opinions     []Opinion
	Samples      []Sample
	// Surprises are results that no call may have.
	Surprises []string
}

// ReadLog reads the records of the process of an instance. It leaves out an
// incomplete last line, which the end of the process has cut short.
func ReadLog(path string, instance int) (*Log, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	l := &logReader{
		log: &Log{}, instance: instance, names: map[string]string{},
		fences: map[uint64]checker.Fence{}, loads: map[uint64]checker.Load{},
	}
	in := bufio.NewReaderSize(f, 1<<20)
	for n := 1; ; n++ {
		line, err := in.ReadString('\n')
		if err != nil {
			break // a line without an end was not kept
		}
		if err := l.line(strings.TrimSuffix(line, "\n")); err != nil {
			return nil, fmt.Errorf("cluster: %s:%d: %w", path, n, err)
		}
	}
	for _, open := range l.fences {
		l.log.Open = append(l.log.Open, open)
	}
	for _, open := range l.loads {
		l.log.Unfinished = append(l.log.Unfinished, open)
	}
	return l.log, nil
}

type logReader struct {
	log      *Log
	instance int
	names    map[string]string // one string for each key
	fences   map[uint64]checker.Fence
	loads    map[uint64]checker.Load
}

var errRecord = errors.New("no record")

// line reads one record.
func (l *logReader) line(line string) error {
	kind, rest, _ := strings.Cut(line, " ")
	switch kind {
	case recSample:
		at, text, _ := strings.Cut(rest, " ")
		s := Sample{}
		err := json.Unmarshal([]byte(text), &s)
		p := fields{rest: at}
		s.At = p.time()
		l.log.Samples = append(l.log.Samples, s)
		return errors.Join(err, p.err)
	case recSurprise:
		l.log.Surprises = append(l.log.Surprises, rest)
		return nil
	}
	p := &fields{rest: rest}
	switch kind {
	case recRead:
		l.log.Reads = append(l.log.Reads, checker.Read{
			Instance: l.instance, Key: l.name(p.text()), Of: l.name(p.text()), Version: p.number(),
			Call: p.time(), Return: p.time(), Stale: p.yes(), Final: p.yes(), More: int(p.number()),
		})
	case recFence:
		l.fences[p.number()] = checker.Fence{
			Instance: l.instance, Key: l.name(p.text()), Version: p.number(), Call: p.time(), Soft: p.yes(), Stores: p.yes(),
		}
	case recFenced:
		call := p.number()
		f, ok := l.fences[call]
		if !ok {
			return errRecord
		}
		f.Return, f.Failed = p.time(), p.yes()
		delete(l.fences, call)
		l.log.Fences = append(l.log.Fences, f)
	case recLoad:
		l.loads[p.number()] = checker.Load{Instance: l.instance, Key: l.name(p.text()), Since: p.time(), Call: p.time()}
	case recLoaded:
		call := p.number()
		load, ok := l.loads[call]
		if !ok {
			return errRecord
		}
		load.Version, load.Return, load.OK = p.number(), p.time(), p.yes()
		delete(l.loads, call)
		l.log.Loads = append(l.log.Loads, load)
	case recLeft:
		l.log.Left = append(l.log.Left, Span{l.name(p.text()), p.time(), p.time()})
	case recStalled:
		l.log.Stalls = append(l.log.Stalls, Span{"", p.time(), p.time()})
	case recAsked:
		l.log.Asked = append(l.log.Asked, checker.Read{
			Instance: l.instance, Key: l.name(p.text()), Of: l.name(p.text()), Version: p.number(),
			Call: p.time(), Return: p.time(), Stale: p.yes(), Final: p.yes(), Degraded: p.yes(),
		})
	case recDropped:
		l.log.Dropped = append(l.log.Dropped, Span{l.name(p.text()), p.time(), p.time()})
	case recRemote:
		l.log.RemoteErrors = append(l.log.RemoteErrors, p.time())
		p.text()
	case recHears:
		l.log.Opinions = append(l.log.Opinions, Opinion{p.time(), p.yes()})
	default:
		return errRecord
	}
	return p.err
}

// name is a key as it was written: "*" for all keys.
func (l *logReader) name(s string) string {
	if s == allKeys {
		return ""
	}
	if n, ok := l.names[s]; ok {
		return n
	}
	s = strings.Clone(s) // so that the name does not hold its line in memory
	l.names[s] = s
	return s
}

// allKeys stands for the key of a call about all keys.
const allKeys = "*"

// fields takes the fields of a record one by one. Go evaluates the operands of
// a composite literal in order.
type fields struct {
	rest string
	err  error
}

func (p *fields) text() (s string) {
	if p.rest == "" && p.err == nil {
		p.err = errRecord
	}
	s, p.rest, _ = strings.Cut(p.rest, " ")
	return s
}

func (p *fields) number() uint64 {
	n, err := strconv.ParseUint(p.text(), 10, 64)
	if err != nil && p.err == nil {
		p.err = err
	}
	return n
}

func (p *fields) time() checker.Time { return checker.Time(p.number()) }

func (p *fields) yes() bool {
	yes, err := strconv.ParseBool(p.text())
	if err != nil && p.err == nil {
		p.err = err
	}
	return yes
}
