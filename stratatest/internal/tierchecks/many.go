package tierchecks

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/strata-cache/strata/remote"
	"github.com/strata-cache/strata/stratatest/internal/checks"
)

// manyChecks are the promises about leases for many keys at once.
func manyChecks() []tierCheck {
	return []tierCheck{
		{"ManyLeasesAreWhatAcquireGives", checkMany},
		{"ManyLeasesLineUpWithKeys", checkManyLineUp},
		{"ManyLeasesAreExclusive", checkManyAreExclusive},
		{"ManyLeasesAreVoidedOneByOne", checkManyAreVoided},
		{"ManyLeasesAreFencedWithTheName", checkManyAreFenced},
		{"ManyLeasesReplaceTheirValues", checkManyReplace},
	}
}

func (v *view) acquireMany(d time.Duration, keys ...string) ([]remote.Held, []remote.Lease) {
	v.Helper()
	acquired, err := v.askMany(v.ctx, keys, d)
	if err != nil {
		v.Fatalf("Acquire(%q): %v", keys, err)
	}
	held, leases := make([]remote.Held, len(keys)), make([]remote.Lease, len(keys))
	for i, a := range acquired {
		held[i], leases[i] = a.Held, a.Lease
	}
	return held, leases
}

// askMany requests leases. The error of any result is an error.
func (v *view) askMany(ctx context.Context, keys []string, d time.Duration) ([]remote.Acquired, error) {
	requests := make([]remote.Request, len(keys))
	for i, key := range keys {
		requests[i].Key = key
	}
	acquired, err := v.Acquire(ctx, requests, d)
	if err == nil && len(acquired) != len(keys) {
		err = fmt.Errorf("%d results for %d requests", len(acquired), len(keys))
	}
	for _, a := range acquired {
		if err == nil {
			err = a.Err
		}
	}
	return acquired, err
}

// putMany stores each key's name under its lease and returns the refused
// indexes.
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

// checkMany requests at once the leases of keys in every state.
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
		if l.Grant != grants[i] || (l.Token != 0) != (l.Grant == remote.Granted) || waits != (l.Wait > 0) || l.Wait > long+apart {
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

// checkManyLineUp: each lease is good for the key at its index, and for no other.
func checkManyLineUp(v *view) {
	keys := checks.HostileKeys()
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
	keys := []string{"a", "b", "c", "d", "e", "f", "g", "h"}
	asked := make([][]string, 20)
	acquired := make([][]remote.Acquired, len(asked))
	errs := make([]error, len(asked))
	var wg sync.WaitGroup
	for c := range asked {
		first := c % len(keys)
		asked[c] = slices.Concat(keys[first:], keys[:first])
		wg.Go(func() { acquired[c], errs[c] = v.askMany(v.ctx, asked[c], long) })
	}
	wg.Wait()
	granted := map[string]int{}
	for c := range asked {
		if errs[c] != nil {
			v.Fatalf("caller %d: %v", c, errs[c])
		}
		for i, a := range acquired[c] {
			l := a.Lease
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
	// All may have asked before the first lease was lost.
	late, err := v.askMany(v.ctx, keys, long)
	if err != nil {
		v.Fatalf("a caller after the others: %v", err)
	}
	for i, a := range late {
		if a.Lease.Grant != remote.Busy {
			v.Errorf("a caller after the others got %+v for %s; want Busy", a.Lease, keys[i])
		}
	}
}

// checkManyAreVoided: leases that came together are lost one by one.
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

// checkManyAreFenced checks the fences of leases against drops of everything
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

// checkManyReplace requests leases for fresh values, to replace some of them.
func checkManyReplace(v *view) {
	keys := []string{"replaced", "kept", "another's", "absent"}
	requests := make([]remote.Request, len(keys))
	for i, key := range keys {
		if requests[i].Key = key; key != "absent" {
			v.fill(key, key)
		}
	}
	requests[0].Replace = v.holdsFresh("replaced", "replaced").ID
	requests[2].Replace = requests[0].Replace
	acquired, err := v.Acquire(v.ctx, requests, long)
	if err != nil || len(acquired) != len(keys) {
		v.Fatalf("Acquire = %d results, %v; want %d", len(acquired), err, len(keys))
	}
	for i, grant := range []remote.Grant{remote.Granted, remote.Free, remote.Free, remote.Granted} {
		a := acquired[i]
		if a.Err != nil || a.Lease.Grant != grant || a.Held.Absent() != (keys[i] == "absent") || !a.Held.Absent() && string(a.Held.Data) != keys[i] {
			v.Errorf("%q: %+v; want grant %d and the value that is held", keys[i], a, grant)
		}
	}
	v.stores("replaced", "new", acquired[0].Lease)
}
