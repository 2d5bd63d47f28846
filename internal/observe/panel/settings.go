package panel

import (
	"fmt"
	"math"
	"reflect"
	"strings"
	"time"
)

// shown are the settings, in their order on the page: options, and Off of Cache.Tune. The
// options missing here are functions that say nothing, or parts of Info.
const shown = `
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
	names := strings.Fields(shown)
	all := make([]Setting, len(names))
	for i, name := range names {
		s := &all[i]
		switch s.Name = name; name {
		case "Off":
			off := tuned[name] == true
			s.Value, s.Default, s.Tuned = text(off), !off, off
			continue
		case "Remote.Codec":
			s.Value, s.Default = codec, true
			continue
		}
		// An option that the program has left out is the default, whatever it was set to since.
		was, is := option(before, name), option(after, name)
		s.Default = was.IsZero()
		switch is.Kind() {
		case reflect.Func, reflect.Pointer:
			s.Value = text(!was.IsNil()) // a default may stand for nil
		case reflect.Interface:
			s.Value = part(name, is)
		default:
			v := is.Interface()
			if t, ok := tuned[name]; ok {
				s.Tuned, v = t != v, t
			}
			s.Value = text(v)
		}
	}
	return all
}

// option returns the field of a struct with a name such as "Stale.OnError".
func option(of reflect.Value, name string) reflect.Value {
	for field := range strings.SplitSeq(name, ".") {
		of = of.FieldByName(field)
	}
	return of
}

// part is a part of the cache as text: one of Remote by its type.
func part(name string, v reflect.Value) string {
	switch {
	case !strings.HasPrefix(name, "Remote."):
		return text(!v.IsNil())
	case v.IsNil():
		return "none"
	}
	return v.Elem().Type().String()
}

// text is a value as text.
func text(v any) string {
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
