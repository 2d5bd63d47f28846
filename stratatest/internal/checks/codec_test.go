package checks

import (
	"bytes"
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// brokenCodec carries bytes; nil hooks leave the method as it should be.
type brokenCodec struct {
	name func() string
	app  func(dst, v []byte) ([]byte, error)
	dec  func(data []byte) ([]byte, error)
	lend func(data []byte) ([]byte, error)
}

func (c brokenCodec) Name() string {
	if c.name != nil {
		return c.name()
	}
	return "broken"
}

func (c brokenCodec) Append(dst, v []byte) ([]byte, error) {
	if c.app != nil {
		return c.app(dst, v)
	}
	return append(dst, v...), nil
}

func (c brokenCodec) Decode(data []byte) ([]byte, error) {
	if c.dec != nil {
		return c.dec(data)
	}
	return bytes.Clone(data), nil
}

func (c brokenCodec) DecodeAlias(data []byte) ([]byte, error) {
	if c.lend != nil {
		return c.lend(data)
	}
	return data[:len(data):len(data)], nil
}

// TestCodecChecksFindMutants proves that each check can fail.
func TestCodecChecksFindMutants(t *testing.T) {
	var calls, running atomic.Int64
	mutations := []struct {
		name, check string
		codec       brokenCodec
	}{
		{"no name", "NameIsConstant", brokenCodec{name: func() string { return "" }}},
		{"another name each time", "NameIsConstant", brokenCodec{name: func() string { return strconv.FormatInt(calls.Add(1), 10) }}},
		{"the last byte is lost", "ValuesComeBack", brokenCodec{dec: func(d []byte) ([]byte, error) { return bytes.Clone(d[:max(0, len(d)-1)]), nil }}},
		{"refuses its own", "ValuesComeBack", brokenCodec{dec: func([]byte) ([]byte, error) { return nil, errors.New("no") }}},
		{"starts at zero", "AppendAppends", brokenCodec{app: func(dst, v []byte) ([]byte, error) { return append(dst[:0], v...), nil }}},
		{"ignores dst", "AppendAppends", brokenCodec{app: func(_, v []byte) ([]byte, error) { return bytes.Clone(v), nil }}},
		{"decodes in place", "MemoryIsNotShared", brokenCodec{dec: func(d []byte) ([]byte, error) { return d, nil }}},
		{"encodes in place", "MemoryIsNotShared", brokenCodec{app: func(dst, v []byte) ([]byte, error) {
			if dst == nil {
				return v, nil
			}
			return append(dst, v...), nil
		}}},
		{"lends too little", "AliasesAreTheSameValues", brokenCodec{lend: func(d []byte) ([]byte, error) { return d[:max(0, len(d)-1)], nil }}},
		{"accepts what Decode refuses", "AliasesAreTheSameValues", brokenCodec{dec: func(d []byte) ([]byte, error) {
			if len(d) < 7 {
				return nil, errors.New("short")
			}
			return bytes.Clone(d), nil
		}}},
		{"decodes in its input", "AliasesAreTheSameValues", brokenCodec{lend: func(d []byte) ([]byte, error) {
			v := bytes.Clone(d)
			clear(d)
			return v, nil
		}}},
		{"all the same", "DifferentValuesDiffer", brokenCodec{app: func(dst, _ []byte) ([]byte, error) { return append(dst, 'x'), nil }}},
		{"panics when short", "DamagedInputIsHarmless", brokenCodec{dec: func(d []byte) ([]byte, error) { return bytes.Clone(d[:5]), nil }}},
		{"error and value", "DamagedInputIsHarmless", brokenCodec{dec: func(d []byte) ([]byte, error) { return []byte("x"), errors.New("damaged") }}},
		{"one at a time", "ConcurrentUseIsSafe", brokenCodec{dec: func(d []byte) ([]byte, error) {
			defer running.Add(-1)
			if running.Add(1) > 1 {
				return nil, errors.New("busy")
			}
			time.Sleep(time.Second) // in a bubble
			return bytes.Clone(d), nil
		}}},
	}
	checks := func(c brokenCodec) map[string]func(testing.TB) {
		all := map[string]func(testing.TB){}
		for _, c := range CodecChecks(c, [][]byte{[]byte("value 1"), []byte("value 2"), nil}) {
			all[c.Name] = c.Run
		}
		return all
	}
	unproved := checks(brokenCodec{})
	for name, run := range unproved {
		if said := failures(run); len(said) > 0 {
			t.Errorf("%s fails without a mutation: %q", name, said)
		}
	}
	for _, m := range mutations {
		delete(unproved, m.check)
		t.Run(m.check+"/"+m.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				if len(failures(checks(m.codec)[m.check])) == 0 {
					t.Errorf("not found")
				}
			})
		})
	}
	for name := range unproved {
		t.Errorf("no mutation proves that %s can fail", name)
	}
}

// witness is a testing.TB that records the failures of a check.
type witness struct {
	testing.TB
	mu   sync.Mutex
	said []string
}

func failures(run func(testing.TB)) []string {
	w := &witness{}
	var wg sync.WaitGroup
	wg.Go(func() { run(w) })
	wg.Wait()
	return w.said
}

func (w *witness) Helper() {}

func (w *witness) Errorf(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.said = append(w.said, fmt.Sprintf(format, args...))
}

func (w *witness) Fatalf(format string, args ...any) {
	w.Errorf(format, args...)
	runtime.Goexit()
}
