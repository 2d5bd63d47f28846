// Package metrics has the metrics of caches and of clients for the packages that hand them
// to Prometheus and OpenTelemetry: names, units, texts, labels and numbers.
package metrics

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/strata-cache/strata"
	"github.com/strata-cache/strata/internal/observe"
)

// Kind is the type of a family.
type Kind uint8

// The kinds of families.
const (
	Counter Kind = iota
	Gauge
	Buckets
)

// Family is a metric with all its rows.
type Family struct {
	// Name is the name as Prometheus has it, Unit the unit in the notation of
	// OpenTelemetry.
	Name, Unit string
	Kind       Kind
	Help       string
	Labels     []string
	// Has reports whether a cache has the metric; nil for all.
	Has  func(*Reading) bool
	Rows []Row
	// Each, if set, sends the rows known only from a reading.
	Each func(r *Reading, send func(v Value, labels ...string))
}

// Row is a number with the values of the labels. A number of seconds is in nanoseconds.
type Row struct {
	Labels []string
	Number func(*Reading) int64
	Has    func(*Reading) bool // nil: as for the family
}

// Value is a number or a histogram.
type Value struct {
	Number    int64
	Durations *strata.Histogram
	Sizes     *strata.SizeHistogram
}

// Seconds reports whether the numbers of the family are times.
func (f *Family) Seconds() bool { return f.Unit == "s" }

// Float returns a number of the family in its unit.
func (f *Family) Float(n int64) float64 {
	if f.Seconds() {
		return time.Duration(n).Seconds()
	}
	return float64(n)
}

// Dotted returns the name as OpenTelemetry has it: with dots, and without the unit and
// _total.
func (f *Family) Dotted() string {
	name := strings.TrimSuffix(f.Name, "_total")
	for _, unit := range []string{"_seconds", "_bytes"} {
		name = strings.Replace(name, unit, "", 1)
	}
	return strings.ReplaceAll(name, "_", ".")
}

// Source is a cache of any types, a [strata.Cache].
type Source interface {
	Stats() strata.Stats
}

// Cache reads the numbers of one cache.
type Cache struct {
	source Source

	mu       sync.Mutex
	instance string // the instance that misses is about
	misses   *observe.Disjoint
}

// Reading is the result of one look at a cache.
type Reading struct {
	strata.Stats
	remoteMisses, remoteForeign uint64 // of L2.Misses, disjoint
}

// Of returns a Cache that reads the numbers of source.
func Of(source Source) *Cache { return &Cache{source: source} }

// Read returns the numbers that the cache has now.
func (c *Cache) Read() *Reading {
	r := &Reading{Stats: c.source.Stats()}
	r.remoteMisses, r.remoteForeign = c.missesOf(r.Parts.Instance).Split(r.L2.Misses, r.L2.Foreign)
	return r
}

// missesOf returns the misses of an instance. A source may follow a cache that is made anew and counts
// from zero, as the demo does: the largest numbers of the cache before are none of the new one.
func (c *Cache) missesOf(instance string) *observe.Disjoint {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.misses == nil || c.instance != instance {
		c.instance, c.misses = instance, &observe.Disjoint{}
	}
	return c.misses
}

// Check returns the valid ones of the caches given to a function of a package, and an error
// if there is none, or if one is nil or has the name and the service of another one. label is the
// package's word for the name of a cache.
func Check[S Source](pkg, function, label string, caches []S) (valid []S, err error) {
	if len(caches) == 0 {
		err = fmt.Errorf("%s: %s was given no cache", pkg, function)
	}
	var seen [][2]string // services and names
	for i, c := range caches {
		if v := reflect.ValueOf(c); !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil() {
			err = errors.Join(err, fmt.Errorf("%s: cache %d of %d is nil", pkg, i+1, len(caches)))
			continue
		}
		s := c.Stats()
		// The service is a label, too: a library with a service need not know the names in a program.
		if slices.Contains(seen, [2]string{s.Parts.Service, s.Name}) {
			err = errors.Join(err, fmt.Errorf("%s: two caches have the name %q, which is their %s: give them names that differ", pkg, s.Name, label))
			continue
		}
		seen, valid = append(seen, [2]string{s.Parts.Service, s.Name}), append(valid, c)
	}
	return valid, err
}

// count is a row of a counter.
func count(f func(*Reading) uint64, labels ...string) Row {
	return Row{Labels: labels, Number: func(r *Reading) int64 { return int64(f(r)) }}
}

// single is a family with one row.
func single(kind Kind, name, unit, help string, has func(*Reading) bool, f func(*Reading) int64) Family {
	return Family{Name: name, Unit: unit, Kind: kind, Help: help, Has: has, Rows: []Row{{Number: f}}}
}

// histogramOf is a family with one histogram of durations.
func histogramOf(name, help string, has func(*Reading) bool, f func(*Reading) *strata.Histogram) Family {
	return Family{
		Name: name, Unit: "s", Kind: Buckets, Help: help, Has: has,
		Each: func(r *Reading, send func(Value, ...string)) { send(Value{Durations: f(r)}) },
	}
}

// servers is a family with a row for each server that names returns.
func servers(name, help string, names func(*Reading) []string) Family {
	return Family{
		Name: name, Unit: "1", Kind: Gauge, Help: help, Has: hasL2, Labels: []string{"server"},
		Each: func(r *Reading, send func(Value, ...string)) {
			for _, server := range names(r) {
				send(Value{Number: 1}, server)
			}
		},
	}
}

func hasL2(r *Reading) bool  { return r.Parts.L2 != "" }
func hasBus(r *Reading) bool { return r.Parts.Bus != "" }

// hasGuard reports whether the cache has a guard with a limit.
func hasGuard(r *Reading) bool { return r.Guard.Limit > 0 }

// undecoded reports whether an encoded L1 has had a value that could not be decoded.
func undecoded(r *Reading) bool { return r.DecodeErrors > 0 }

// compresses reports whether the Codec has compressed a value, or left it as it is.
func compresses(r *Reading) bool { return r.Compressed+r.StoredRaw > 0 }

// onL2 is r for caches with an L2.
func onL2(r Row) Row {
	r.Has = hasL2
	return r
}

func oneIf(b bool) int64 {
	if b {
		return 1
	}
	return 0
}
