// The panel: the methods of a cache that package admin needs beside its public methods: keys as
// text, the options in force, the last events, the hottest keys, and a key on every instance. The
// panel knows no types of keys and values.

package observe

import (
	"context"
	"errors"
	"fmt"
	"math"
	"reflect"
	"strings"
	"time"
)

// MaxKey is the length of the text of a key, or of a tag, in bytes.
const MaxKey = 200

// ErrNoText is the error of calls with a key as text, if the keys of the cache have no
// text: Remote.Key and Remote.ParseKey are missing.
var ErrNoText = errors.New("strata: keys of this type need Remote.Key and Remote.ParseKey to be written as text")

// Panel is one cache. All methods may be called at the same time, and after the end of the
// cache.
type Panel interface {
	// Info describes the parts of the cache.
	Info() Info
	// Settings returns the effective options, in the order of their declaration. Functions,
	// codecs and clients are named by their types; no setting has a password or a value.
	Settings() []Setting
	// Events returns the events with a number above after, the oldest first; the last 100
	// are kept.
	Events(after uint64) []Event
	// Watch begins to count the hottest keys. That ends when neither Watch nor Hot has been called
	// for a minute.
	Watch()
	// Hot returns the hottest keys of the last five to ten minutes, up to 20 of each kind, as far as
	// they were watched, and begins to count them.
	Hot() Hot
	// Explain returns the state of the key with this text on every instance: this one first,
	// then the others that answered over the bus, by name, then the known open ones that did not
	// answer within a second (or until ctx ends). Errors: ErrNoText; the error of parsing key; the
	// error of a closed cache.
	Explain(ctx context.Context, key string) ([]Explanation, error)
	// Invalidate makes the key with this text absent everywhere, or stale if soft. It
	// returns the error of Cache.Invalidate, ErrNoText, or the error of parsing key.
	Invalidate(ctx context.Context, key string, soft bool) error
	// InvalidateTags and InvalidateAll are the methods of the cache of these names, or, if
	// soft, its ExpireTags and ExpireAll.
	InvalidateTags(ctx context.Context, tags []string, soft bool) error
	InvalidateAll(ctx context.Context, soft bool) error
}

// Info describes the parts of a cache.
type Info struct {
	// Name is the name of the cache, Service the name of its service, or empty. Instance is
	// the name of this instance: host name, number of the process, and a random number in hexadecimal digits.
	Name, Service, Instance string
	// Version is the version of the module strata in this program, or "unknown". Schema is the
	// name of the codec with the fingerprint of the type of values. L2 and Bus are the Go types of the
	// tier and the bus, or empty.
	Version, Schema, L2, Bus string
	// L2Server is the address of the server of L2, or of all its servers, if it is known.
	L2Server string
	// Partition is "available" or "strict".
	Partition string
	// ShowKeys allows keys to be shown as they are. Else Hot has hashes.
	ShowKeys bool
	// TextKeys says that keys can be given as text.
	TextKeys bool
}

// Setting is one option.
type Setting struct {
	// Name is the name of the option, such as "Stale.OnError".
	Name string
	// Value is its effective value as text: "1m0s", "10000", "none".
	Value string
	// Default says that the value is the one of a program that does not set the option.
	Default bool
	// Tuned says that the value was changed at run time.
	Tuned bool
}

// Event is a change of state, or an invalidation.
type Event struct {
	// Number counts the events of the cache from 1.
	Number uint64
	At     time.Time
	// Level is "info", "warn" or "error".
	Level string
	// Text is one line, without control characters, of 500 bytes at most: the message with its
	// attributes.
	Text string
}

// Hot are the hottest keys of some time.
type Hot struct {
	// Since is the begin of that time. Sampled is the number of reads in the sample: one in Every at
	// present. Reads is the estimated number of all reads since then, LoadTime the duration of all
	// loads.
	Since    time.Time
	Sampled  uint64
	Every    int
	Reads    uint64
	LoadTime time.Duration
	// ByReads are the keys with the most reads, ByLoadTime the keys with the longest
	// loads in sum, the highest first.
	ByReads, ByLoadTime []HotKey
}

// HotKey is one of the hottest keys.
type HotKey struct {
	// Key is the text of the key, of 200 bytes at most, or, without ShowKeys, a hash in
	// hexadecimal digits that begins with "#".
	Key string
	// Reads is the number of reads, estimated from the sample, Loads the number of loads,
	// LoadTime their duration in sum. The true numbers are lower by Over at most (reads, or
	// nanoseconds of loads).
	Reads    uint64
	Loads    uint64
	LoadTime time.Duration
	Over     uint64
}

// Explanation is the state of a key on one instance.
type Explanation struct {
	// Instance is the name of the instance, as Info has it.
	Instance string
	// Here says that this is the asked instance itself. Answered is false if it has not
	// answered in time; then the fields behind Verdict are empty.
	Here, Answered bool
	// Took is the time until the answer, or the time waited for none.
	Took time.Duration
	// Verdict is one sentence about the result of a read of the key, or about an instance without
	// an answer.
	Verdict string
	// L1 and L2 are the states of the key there: "absent", "fresh", "stale", "negative",
	// "suspect", "unknown", or "none" without the tier. L1Fresh and L2Fresh say for how long
	// the value is fresh: not positive if it is stale, math.MaxInt64 if it does not expire.
	L1, L2           string
	L1Fresh, L2Fresh time.Duration
	// L2Size is the length of the value in L2 in bytes. Tags are the tags of the entry, up to
	// ten.
	L2Size int
	Tags   []string
	// Loading says that a load of the key runs there, Waiters how many callers wait for it.
	Loading bool
	Waiters int
	// Failures, RetryIn, Err: loads of the key have failed, and are not tried for RetryIn.
	Failures int
	RetryIn  time.Duration
	Err      string
}

// shownSettings are the settings, in their order on the page: options, and Off of Cache.Tune. The
// options missing here are functions that say nothing, or parts of Info.
const shownSettings = `
	Off TTL IdleTTL Jitter RefreshAt RefreshSpread RefreshEvery Stale.WhileRevalidate Stale.OnError NotFoundTTL ErrorTTL
	Memory.MaxEntries Memory.MaxWeight Memory.Policy Memory.EvictShare Memory.Guard Memory.TTL Memory.Off Memory.Weigh Memory.Clone
	Memory.DetectMutation Memory.Encoded
	Limits.SoftTimeout Limits.HardTimeout Limits.MaxLoads Limits.MaxWaiters Limits.MaxRefreshes Limits.MaxKeyBytes
	Limits.Lease Limits.CancelAbandoned
	Loader ManyLoader BatchWait BatchSize Tags ContextControls ShowKeys Tracer Logger
	Remote.Tier Remote.Bus Remote.Codec Remote.Strict Remote.Timeout Remote.BreakAfter Remote.BreakFor
`

// Settings returns the settings of a cache. given and now are pointers to its options: given as
// the program set them, now with the defaults filled in. tuned has the values in force of
// options that Tune changes; codec is the name of the codec.
func Settings(given, now any, tuned map[string]any, codec string) []Setting {
	before, after := reflect.ValueOf(given).Elem(), reflect.ValueOf(now).Elem()
	names := strings.Fields(shownSettings)
	all := make([]Setting, len(names))
	for i, name := range names {
		s := &all[i]
		switch s.Name = name; name {
		case "Off":
			off := tuned[name] == true
			s.Value, s.Default, s.Tuned = settingText(off), !off, off
			continue
		case "Remote.Codec":
			s.Value, s.Default = codec, true
			continue
		}
		// An option that the program has left out is the default, whatever it was set to since.
		was, is := settingOf(before, name), settingOf(after, name)
		s.Default = was.IsZero()
		switch is.Kind() {
		case reflect.Func, reflect.Pointer:
			s.Value = settingText(!was.IsNil()) // a default may stand for nil
		case reflect.Interface:
			s.Value = settingPart(name, is)
		default:
			v := is.Interface()
			if t, ok := tuned[name]; ok {
				s.Tuned, v = t != v, t
			}
			s.Value = settingText(v)
		}
	}
	return all
}

// settingOf returns the field of a struct with a name such as "Stale.OnError".
func settingOf(of reflect.Value, name string) reflect.Value {
	for field := range strings.SplitSeq(name, ".") {
		of = of.FieldByName(field)
	}
	return of
}

// settingPart is a part of the cache as text: one of Remote by its type.
func settingPart(name string, v reflect.Value) string {
	switch {
	case !strings.HasPrefix(name, "Remote."):
		return settingText(!v.IsNil())
	case v.IsNil():
		return "none"
	}
	return v.Elem().Type().String()
}

// settingText is a value as text.
func settingText(v any) string {
	switch v := v.(type) {
	case time.Duration:
		switch {
		case v == math.MaxInt64:
			return "no end"
		case v <= 0:
			return "none"
		}
		return v.String()
	case bool:
		if v {
			return "yes"
		}
		return "no"
	}
	return fmt.Sprint(v)
}
