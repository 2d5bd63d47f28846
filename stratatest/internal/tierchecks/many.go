package tierchecks

import (
	"slices"
	"sync"
	"time"

	"github.com/strata-cache/strata/remote"
	"github.com/strata-cache/strata/stratatest/internal/hostile"
)

// manyChecks are the promises about leases for many keys at once.
func manyChecks() []tierCheck {
	return []tierCheck{
		{"ManyLeasesAreWhatAcquireGives", checkMany},
		{"ManyLeasesLineUpWithKeys", checkManyLineUp},
		{"ManyLeasesAreExclusive", checkManyAreExclusive},
		{"ManyLeasesAreVoidedOneByOne", checkManyAreVoided},
		{"ManyLeasesAreFencedWithTheName", checkManyAreFenced},
	}
}

func (v *view) acquireMany(d time.Duration, keys ...string) ([]remote.Held, []remote.Lease) {
	v.Helper()
	held, leases, err := ability[remote.ManyAcquirer](v).AcquireMany(v.ctx, keys, d)
	if err != nil || len(held) != len(keys) || len(leases) != len(keys) {
		v.Fatalf("AcquireMany(%q) = %d held, %d leases, %v; want one each", keys, len(held), len(leases), err)
	}
	return held, leases
}

// putMany stores each key's name under its lease and returns what was refused.
func (v *view) putMany(keys []string, leases []remote.Lease) (refused []int) {
	v.Helper()
	puts := make([]remote.Put, len(keys))
	for i, key := range keys {
		puts[i] = remote.Put{Key: key, Data: []byte(key), Fresh: long, Left: 2 * long, Lease: leases[i]}
	}
	refused, err := v.Put(v.ctx, puts)
	if err != nil {
		v.Fatalf("Put: %v", err)
	}
	slices.Sort(refused)
	return refused
}

// checkMany asks at once for keys about which Acquire says all that it can.
func checkMany(v *view) {
	v.acquireMany(long) // none
	v.fill("fresh", "f")
	for _, key := range []string{"stale", "refreshed"} {
		v.fill(key, key)
		v.drop(remote.Drop{Key: key, Soft: true})
	}
	v.granted("refreshed", long)
	v.granted("busy", long)
	v.drop(remote.Drop{Key: "held", Hold: long})
	data := map[string]string{"fresh": "f", "stale": "stale", "refreshed": "refreshed"}
	keys := []string{"absent", "fresh", "stale", "refreshed", "busy", "held", "absent", "fresh"}
	grants := []remote.Grant{remote.Granted, remote.Free, remote.Granted, remote.Busy, remote.Busy, remote.OnHold, remote.Busy, remote.Free}
	held, leases := v.acquireMany(long, keys...)
	for i, key := range keys {
		h, l, is := held[i], leases[i], v.held(key)
		waits := grants[i] == remote.Busy || grants[i] == remote.OnHold
		if l.Grant != grants[i] || (l.Token != 0) != (l.Grant == remote.Granted) || waits != (l.Wait > 0) || l.Wait > long {
			v.Errorf("%q, key %d: lease %+v; want grant %d, a token only if it is Granted, a wait only if Busy or OnHold", key, i, l, grants[i])
		}
		if h.ID != is.ID || h.Soft != is.Soft || (h.Fresh > 0) != (is.Fresh > 0) || (h.Left > 0) != (is.Left > 0) {
			v.Errorf("%q, key %d: held %+v; want the state of %+v", key, i, h, is)
		}
		if string(h.Data) != data[key] && (h.Data != nil || !waits) {
			v.Errorf("%q, key %d: Data %q; want %q", key, i, h.Data, data[key])
		}
	}
	clear(held[1].Data)
	if string(held[7].Data) != "f" {
		v.Errorf("a result is %q after a write to another; want %q", held[7].Data, "f")
	}
	v.holdsFresh("fresh", "f")
	v.stores("absent", "value", leases[0])
	v.stores("stale", "value", leases[2])
}

func checkManyLineUp(v *view) {
	keys := hostile.Keys()
	_, leases := v.acquireMany(long, keys...)
	others := append(slices.Clone(leases[1:]), leases[0])
	if refused := v.putMany(keys, others); len(refused) != len(keys) {
		v.Fatalf("under the next key's lease %d of %d were refused; want all", len(refused), len(keys))
	}
	if refused := v.putMany(keys, leases); len(refused) > 0 {
		v.Fatalf("under their own leases %v were refused", refused)
	}
	slices.Reverse(keys)
	held, leases := v.acquireMany(long, keys...)
	for i, key := range keys {
		if string(held[i].Data) != key || leases[i].Grant != remote.Free {
			v.Errorf("key %q: held %q, grant %d; want its own value, Free", key, held[i].Data, leases[i].Grant)
		}
	}
}

// checkManyAreExclusive has callers ask for the same keys at once, each in
// another order.
func checkManyAreExclusive(v *view) {
	many := ability[remote.ManyAcquirer](v)
	keys := []string{"a", "b", "c", "d", "e", "f", "g", "h"}
	asked := make([][]string, 20)
	leases := make([][]remote.Lease, len(asked))
	errs := make([]error, len(asked))
	var wg sync.WaitGroup
	for c := range asked {
		first := c % len(keys)
		asked[c] = slices.Concat(keys[first:], keys[:first])
		wg.Go(func() { _, leases[c], errs[c] = many.AcquireMany(v.ctx, asked[c], long) })
	}
	wg.Wait()
	granted := map[string]int{}
	for c := range asked {
		if errs[c] != nil || len(leases[c]) != len(keys) {
			v.Fatalf("caller %d got %d leases, %v", c, len(leases[c]), errs[c])
		}
		for i, l := range leases[c] {
			if l.Grant == remote.Granted {
				granted[asked[c][i]]++
			} else if l.Grant != remote.Busy {
				v.Errorf("a caller without the lease got %+v; want Busy", l)
			}
		}
	}
	for _, key := range keys {
		if granted[key] != 1 {
			v.Errorf("%d of %d concurrent callers were granted the lease of %s; want 1", granted[key], len(asked), key)
		}
	}
}

func checkManyAreVoided(v *view) {
	keys := []string{"a", "b", "c", "d", "e"}
	_, leases := v.acquireMany(long, keys...)
	v.drop(remote.Drop{Key: "a"})
	v.drop(remote.Drop{Key: "c", Soft: true})
	v.drop(remote.Drop{Key: "e", Token: long})
	if refused := v.putMany(keys, leases); !slices.Equal(refused, []int{0, 2, 4}) {
		v.Errorf("after drops of keys 0, 2 and 4 %v were refused", refused)
	}
	_, leases = v.acquireMany(short, "late", "also late")
	v.sleep(past)
	next := v.granted("late", long)
	v.refuses("late", "old", leases[0])
	v.stores("late", "new", next)
}

// checkManyAreFenced looks for what fences leases against drops of everything
// and of tags.
func checkManyAreFenced(v *view) {
	keys := []string{"a", "b"}
	_, leases := v.acquireMany(long, keys...)
	v.dropAll(false)
	v.putMany(keys, leases)
	v.isAbsent("a")
	v.isAbsent("b")

	v.tags("t")
	_, before := v.acquireMany(long, "c", "d")
	v.dropTags(false, "t")
	dropped := v.tags("t")[0].Dropped
	_, after := v.acquireMany(long, "e", "f")
	for i := range before {
		if before[i].Clock >= dropped || after[i].Clock < dropped {
			v.Errorf("leases have clocks %d and %d before and after a drop of a tag at %d", before[i].Clock, after[i].Clock, dropped)
		}
	}
}
