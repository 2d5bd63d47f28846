package wire

import (
	"bytes"
	"context"
	"errors"
	"io"
	"unsafe"

	"github.com/strata-cache/strata/bench/internal/rig"
)

// subject is a row of the tables: a client, set up and called in one way. An op
// is nil if the client cannot do it.
type subject struct {
	name string
	kind kind

	get, set       op // one command, by many goroutines
	getAll, setAll op // a pipeline of all keys
	mget           op // one command for all keys
	getTo, setFrom op // to an io.Writer, from an io.Reader
	setGet         op // one command, and then one that reads the value of the first
}

type kind int

const (
	floor kind = iota // no client: the time of the server and the sockets alone
	own
	peer
	whole // a peer that needs all of a value in memory where others stream
	aside // another floor, with which nothing is compared
)

// family is the subjects of one library.
type family struct {
	subjects []subject
	close    func()
}

// endpoint is the address at which the server listens.
type endpoint struct{ network, addr string }

// op prepares the calls of a job.
type op func(*job) call

// call does it once, as call i of goroutine g.
type call func(ctx context.Context, g, i int) error

const (
	// maxGoroutines is the largest number of goroutines in any table.
	maxGoroutines = 64
	// stored is the number of different keys in the largest job; longer
	// pipelines repeat them.
	stored = 1024
)

// job is the keys and values of the calls. The value of a key is one letter
// over and over, so that every value in a reply can be checked at no price.
type job struct {
	keys []string // each goroutine has its equal share of them
	each int      // that share
	size int      // of a value in bytes
	// exact says that every byte is checked, and not only the first and the last.
	exact  bool
	values [][]byte // a value for each letter
}

// letters is a prime, so that the values of neighbours and of other goroutines' keys differ.
const letters = 23

// newJob names keys by the size of their values: a client may remember the size
// of a value by its key.
func newJob(goroutines, each, size int) *job {
	j := &job{each: each, size: size, values: make([][]byte, letters)}
	names := rig.Keys(min(goroutines*each, stored))
	for k := range names {
		names[k] = sizeName(size) + ":" + names[k]
	}
	for k := range goroutines * each {
		j.keys = append(j.keys, names[k%stored])
	}
	for l := range min(letters, len(j.keys)) {
		j.values[l] = bytes.Repeat([]byte{byte('a' + l)}, size)
	}
	return j
}

// index is the number of the key for call i of goroutine g.
func (j *job) index(g, i int) int { return g*j.each + i%j.each }

// value returns the stored value of key k.
func (j *job) value(k int) []byte { return j.values[k%stored%letters] }

var errWrong = errors.New("wire: a value is not what was stored")

// check completes the reading of key k.
func (j *job) check(k int, v []byte, err error) error {
	if err != nil {
		return err
	}
	letter := j.value(k)[0]
	switch {
	case len(v) != j.size, v[0] != letter, v[len(v)-1] != letter,
		j.exact && bytes.Count(v, []byte{letter}) != len(v):
		return errWrong
	}
	return nil
}

// reads makes a get of a function that reads one key for goroutine g. The
// bytes it returns need not outlive the next call.
func reads(get func(ctx context.Context, g int, key string) ([]byte, error)) op {
	return func(j *job) call {
		return func(ctx context.Context, g, i int) error {
			k := j.index(g, i)
			v, err := get(ctx, g, j.keys[k])
			return j.check(k, v, err)
		}
	}
}

func writes(set func(ctx context.Context, key string, value []byte) error) op {
	return writesBy(func(ctx context.Context, _ int, key string, value []byte) error {
		return set(ctx, key, value)
	})
}

// writesBy is writes for a function that gets the number of the goroutine.
func writesBy(set func(ctx context.Context, g int, key string, value []byte) error) op {
	return func(j *job) call {
		return func(ctx context.Context, g, i int) error {
			k := j.index(g, i)
			return set(ctx, g, j.keys[k], j.value(k))
		}
	}
}

// both makes a setGet of a set and a get.
func both(set, get op) op {
	return func(j *job) call {
		set, get := set(j), get(j)
		return func(ctx context.Context, g, i int) error {
			if err := set(ctx, g, i); err != nil {
				return err
			}
			return get(ctx, g, i)
		}
	}
}

// see is given the value of key k.
type see func(k int, v []byte) error

// readsAll makes a getAll or mget, for one goroutine.
func readsAll(get func(ctx context.Context, keys []string, f see) error) op {
	return func(j *job) call {
		seen := 0
		look := func(k int, v []byte) error {
			seen++
			return j.check(k, v, nil)
		}
		return func(ctx context.Context, _, _ int) error {
			seen = 0
			err := get(ctx, j.keys, look)
			if err == nil && seen != len(j.keys) {
				err = errWrong
			}
			return err
		}
	}
}

// writesAll makes a setAll, for one goroutine.
func writesAll(set func(ctx context.Context, keys []string, value func(k int) []byte) error) op {
	return func(j *job) call {
		value := j.value
		return func(ctx context.Context, _, _ int) error { return set(ctx, j.keys, value) }
	}
}

// streams makes a getTo, for one goroutine.
func streams(get func(ctx context.Context, key string, w io.Writer) error) op {
	return func(j *job) call {
		s := &sink{exact: j.exact}
		return func(ctx context.Context, g, i int) error {
			k := j.index(g, i)
			s.letter, s.n, s.wrong = j.value(k)[0], 0, false
			err := get(ctx, j.keys[k], s)
			if err == nil && (s.wrong || s.n != j.size) {
				err = errWrong
			}
			return err
		}
	}
}

// copies is streams for a client that returns the whole value.
func copies(get func(ctx context.Context, g int, key string) ([]byte, error)) op {
	return streams(func(ctx context.Context, key string, w io.Writer) error {
		v, err := get(ctx, 0, key)
		if err == nil {
			_, err = w.Write(v)
		}
		return err
	})
}

// sources makes a setFrom, for one goroutine.
func sources(set func(ctx context.Context, key string, r io.Reader, n int64) error) op {
	return func(j *job) call {
		s := &source{}
		return func(ctx context.Context, g, i int) error {
			k := j.index(g, i)
			v := j.value(k)
			s.piece, s.left = v[:min(len(v), 64<<10)], len(v)
			return set(ctx, j.keys[k], s, int64(j.size))
		}
	}
}

// collects is sources for a client that wants the whole value.
func collects(set func(ctx context.Context, key string, value []byte) error) op {
	return sources(func(ctx context.Context, key string, r io.Reader, n int64) error {
		value := make([]byte, n)
		if _, err := io.ReadFull(r, value); err != nil {
			return err
		}
		return set(ctx, key, value)
	})
}

// sink takes a value and keeps nothing of it. Write is its only method, so that
// io.Copy and clients find no shorter way into it.
type sink struct {
	letter       byte
	n            int
	exact, wrong bool
}

func (s *sink) Write(p []byte) (int, error) {
	if len(p) > 0 && (p[0] != s.letter || s.exact && bytes.Count(p, []byte{s.letter}) != len(p)) {
		s.wrong = true
	}
	s.n += len(p)
	return len(p), nil
}

// source gives a value from a piece that fits the processor's caches. Read is
// its only method, for the same reason.
type source struct {
	piece []byte
	left  int
}

func (s *source) Read(p []byte) (int, error) {
	if s.left == 0 {
		return 0, io.EOF
	}
	n := copy(p[:min(len(p), s.left)], s.piece)
	s.left -= n
	return n, nil
}

// scratch is a buffer for each goroutine, on a cache line of its own.
type scratch [maxGoroutines]struct {
	b []byte
	_ [40]byte
}

// raw is the bytes of a string, which must not be changed.
func raw(s string) []byte { return unsafe.Slice(unsafe.StringData(s), len(s)) }
