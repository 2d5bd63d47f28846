package metrics

import (
	"testing"

	"github.com/strata-cache/strata"
)

// following is a cache that may be made anew under the same name.
type following struct{ now strata.Stats }

func (f *following) Stats() strata.Stats { return f.now }

// TestCacheThatIsMadeAnewCountsItsMissesFromZero has a source that follows a restart, as the one of the
// demo does.
func TestCacheThatIsMadeAnewCountsItsMissesFromZero(t *testing.T) {
	source := &following{}
	read := Of(source)
	for _, c := range []struct {
		instance        string
		misses, foreign uint64
	}{{"host/1/a", 1000, 10}, {"host/1/a", 1001, 11}, {"host/1/b", 2, 1}, {"host/1/b", 5, 1}, {"host/1/c", 0, 0}} {
		source.now.Parts.Instance = c.instance
		source.now.L2.Misses, source.now.L2.Foreign = c.misses, c.foreign
		if r := read.Read(); r.remoteMisses != c.misses-c.foreign || r.remoteForeign != c.foreign {
			t.Errorf("%s: %d misses and %d foreign values, want %d and %d", c.instance, r.remoteMisses, r.remoteForeign, c.misses-c.foreign, c.foreign)
		}
	}
}

// TestOneNameInTwoServicesIsNoMistake: both are labels.
func TestOneNameInTwoServicesIsNoMistake(t *testing.T) {
	ours, theirs := &following{strata.Stats{Name: "users"}}, &following{strata.Stats{Name: "users", Parts: strata.Parts{Service: "lib"}}}
	if valid, err := Check("pkg", "F", "label", []*following{ours, theirs}); err != nil || len(valid) != 2 {
		t.Errorf("%d of two caches, %v", len(valid), err)
	}
	if valid, err := Check("pkg", "F", "label", []*following{ours, theirs, theirs}); err == nil || len(valid) != 2 {
		t.Errorf("%d of two caches and one again, %v", len(valid), err)
	}
}
