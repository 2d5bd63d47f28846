package agreement_test

import (
	"context"
	"errors"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/strata-cache/strata"
	"github.com/strata-cache/strata/codec"
	"github.com/strata-cache/strata/codec/gob"
	"github.com/strata-cache/strata/internal/testing/coherence/lab"
)

type (
	chain  struct{ Next *chain }
	record struct {
		Name string
		Size *int
		Any  any
		In   *chain
	}
)

// TestValueThatDoesNotSurviveIsServedAndLoadedByEachInstance loads values that the codec
// would give to other instances as other values, on two instances.
func TestValueThatDoesNotSurviveIsServedAndLoadedByEachInstance(t *testing.T) {
	lab.Plain(t, "it keeps no such value")
	zero := 0
	var long *chain
	for range 10_001 {
		long = &chain{long}
	}
	loop := &chain{}
	loop.Next = loop
	for _, x := range []struct {
		name  string
		codec codec.Codec[record]
		value record
		kept  bool
	}{
		{"text", nil, record{Name: "hunter2\xff"}, false},
		{"number in an interface", nil, record{Any: 1}, false},
		{"deep", nil, record{In: long}, false},
		{"in itself", nil, record{In: loop}, false},
		{"all well", nil, record{"ü", &zero, "a", &chain{}}, true},
		{"text, gob", gob.New[record](), record{Name: "hunter2\xff"}, true},
		{"pointer to zero, gob", gob.New[record](), record{Size: &zero}, false},
		{"in itself, gob", gob.New[record](), record{In: loop}, false},
	} {
		t.Run(x.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := lab.NewShared()
				first := loadsOn(t, s, x.codec, x.value, x.kept)
				second := loadsOn(t, s, x.codec, x.value, x.kept)
				if first != 2 || (second == 0) != x.kept || second > 2 {
					t.Errorf("%d and %d loads of two keys", first, second)
				}
			})
		})
	}
}

// loadsOn reads two keys of one value three times on a new instance, and returns the number
// of loads.
func loadsOn(t *testing.T, s *lab.Shared, c codec.Codec[record], value record, kept bool) (loads int) {
	t.Helper()
	log := &lab.LogText{}
	one := lab.NewCache(t, func(o *strata.Options[string, record]) {
		o.Remote.Tier, o.Remote.Codec, o.Logger, o.TTL = s.Tier, c, lab.TextLogger(log), time.Hour
	})
	for i := range 6 {
		v, err := one.GetOrLoad(t.Context(), []string{"a", "b"}[i%2], func(context.Context, string) (record, error) {
			loads++
			return value, nil
		})
		same := v == value || kept && reflect.DeepEqual(v, value)
		if err != nil || !same {
			t.Errorf("%+v is served, %v", v, err)
		}
	}
	errs, lines := 2, 1
	if kept {
		errs, lines = 0, 0
	}
	if n := one.Stats().EncodeErrors; n != uint64(errs) {
		t.Errorf("%d encode errors, want %d", n, errs)
	}
	if n := strings.Count(log.String(), "is served but not stored"); n != lines || strings.Contains(log.String(), "hunter2") {
		t.Errorf("%d lines, want %d, in %s", n, lines, log)
	}
	var e *codec.Error
	if err := one.Set(t.Context(), "c", value); kept != (err == nil) || err != nil && !errors.As(err, &e) {
		t.Errorf("Set returns %v", err)
	}
	return loads
}
