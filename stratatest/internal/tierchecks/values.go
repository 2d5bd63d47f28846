package tierchecks

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/strata-cache/strata/remote"
	"github.com/strata-cache/strata/stratatest/internal/checks"
)

// valueChecks are the promises about bytes, keys, lives and batches.
func valueChecks() []tierCheck {
	return []tierCheck{
		{"NothingIsAbsent", checkNothingIsAbsent},
		{"PutIsReadBack", checkPutIsReadBack},
		{"PayloadsAreKeptByteForByte", checkPayloads},
		{"HostileKeysAreJustKeys", checkHostileKeys},
		{"LongKeysWorkOrAreRefused", checkLongKeys},
		{"ResultsLineUpWithArguments", checkLineUp},
		{"EmptyBatchesAreFine", checkEmptyBatches},
		{"RefusalsArePartial", checkPartialRefusals},
		{"SlicesAreNotShared", checkSlicesAreNotShared},
		{"EveryValueHasItsID", checkIDs},
		{"LivesRunOut", checkLivesRunOut},
		{"ValueWithoutLifeIsAbsent", checkNoLife},
		{"CancelledContextIsAnError", checkCancelled},
		{"SchemasLiveSideBySide", checkSchemas},
		{"SchemasHaveTheirOwnLives", checkSchemaLives},
		{"SchemasHaveTheirOwnState", checkSchemaState},
		{"NamesAreSeparate", checkNames},
	}
}

// checkNothingIsAbsent: a key that was never stored is absent, also after a lease was given for it.
func checkNothingIsAbsent(v *view) {
	v.isAbsent("k")
	held, lease := v.acquire("k", long)
	if !held.Absent() || lease.Grant != remote.Granted {
		v.Fatalf("Acquire of nothing = %+v, grant %d; want absent, Granted", held, lease.Grant)
	}
	v.isAbsent("k")
}

// checkPutIsReadBack: a value has the lives that it was stored with. Keys differ by their case.
func checkPutIsReadBack(v *view) {
	v.fill("k", "value")
	h := v.holdsFresh("k", "value")
	v.lives(h, long, 2*long)
	v.isAbsent("K")
}

// checkPayloads: values are bytes, among them those that end a line or a value in protocols of
// stores.
func checkPayloads(v *view) {
	all := make([]byte, 256)
	for i := range all {
		all[i] = byte(i)
	}
	for _, data := range []string{
		"", "\x00", "\r\n", "END\r\n", "$-1\r\n", "\xff\xfe", string(all), strings.Repeat("0123456789abcde\n", 6000),
	} {
		key := fmt.Sprintf("payload-%d-%.4x", len(data), data)
		v.fill(key, data)
		v.holds(key, data)
	}
}

// checkHostileKeys: keys are bytes, too. A key with a separator, a line end or a pattern must not
// reach the entry of another.
func checkHostileKeys(v *view) {
	keys := checks.HostileKeys()
	for i, key := range keys {
		v.fill(key, fmt.Sprint(i))
	}
	held, err := v.Get(v.ctx, keys)
	if err != nil {
		v.Fatalf("Get: %v", err)
	}
	if len(held) != len(keys) {
		v.Fatalf("Get of %d keys returned %d", len(keys), len(held))
	}
	for i, key := range keys {
		if got := string(held[i].Data); got != fmt.Sprint(i) {
			v.Errorf("key %d %q: held %q; want its own value", i, key, got)
		}
	}
	for i, key := range keys {
		v.drop(remote.Drop{Key: key})
		v.isAbsent(key)
		if i+1 < len(keys) {
			v.holds(keys[i+1], fmt.Sprint(i+1))
		}
	}
}

// checkLongKeys: a long key works, or every method refuses it with the same error. Two long keys
// that differ at their ends are two keys.
func checkLongKeys(v *view) {
	for _, n := range []int{199, 200, 249, 250, 251, 252, 1024, 1 << 16, 1 << 20} {
		a, b := strings.Repeat("k", n-1)+"a", strings.Repeat("k", n-1)+"b"
		_, lease, err := v.ask(v.ctx, a, 0, long)
		if err == nil {
			v.stores(a, "a", lease)
			v.fill(b, "b")
			v.holds(a, "a")
			v.drop(remote.Drop{Key: a})
			v.isAbsent(a)
			v.holds(b, "b")
			continue
		}
		if n < 200 {
			v.Errorf("Acquire with a key of %d bytes: %v", n, err)
		}
		_, getErr := v.Get(v.ctx, []string{a})
		_, putErr := v.Put(v.ctx, []remote.Put{{Key: a, Fresh: long, Left: long, Lease: remote.Lease{Token: 1}}})
		_, dropErr := v.Drop(v.ctx, []remote.Drop{{Key: a}})
		_, extendErr := v.Extend(v.ctx, a, long, long, remote.Lease{Token: 1}, 1)
		_, manyErr := v.askMany(v.ctx, []string{"short", a}, long)
		_, _, refreshErr := v.ask(v.ctx, a, 1, long)
		releaseErr := v.Release(v.ctx, a, remote.Lease{Token: 1})
		_, renewErr := v.Renew(v.ctx, a, remote.Lease{Token: 1}, long)
		for _, err := range []error{err, getErr, putErr, dropErr, extendErr, manyErr, refreshErr, releaseErr, renewErr} {
			if !errors.Is(err, remote.ErrKeyTooLong) {
				v.Errorf("key of %d bytes: error %v; want ErrKeyTooLong from every method", n, err)
			}
		}
	}
}

// checkLineUp: results have the indexes of their arguments, also with keys that are absent or named
// twice.
func checkLineUp(v *view) {
	v.fill("a", "1")
	v.fill("c", "3")
	held, err := v.Get(v.ctx, []string{"c", "b", "a", "c"})
	if err != nil || len(held) != 4 {
		v.Fatalf("Get of 4 = %d results, %v", len(held), err)
	}
	for i, want := range []string{"3", "", "1", "3"} {
		if got := string(held[i].Data); got != want || held[i].Absent() != (want == "") {
			v.Errorf("result %d = %q, absent %t; want %q", i, got, held[i].Absent(), want)
		}
	}
	leases, err := v.Drop(v.ctx, []remote.Drop{{Key: "a", Token: long}, {Key: "b"}, {Key: "c", Soft: true, Token: long}})
	if err != nil || len(leases) != 3 {
		v.Fatalf("Drop of 3 = %d leases, %v", len(leases), err)
	}
	for i, want := range []bool{true, false, true} {
		if (leases[i].Token != 0) != want {
			v.Errorf("lease %d has token %d; want one: %t", i, leases[i].Token, want)
		}
	}
	v.isAbsent("a")
	v.holdsStale("c", "3")
	v.refuses("a", "x", leases[2])
	v.stores("a", "4", leases[0])
	v.stores("c", "5", leases[2])
}

// checkEmptyBatches: callers do not look whether a batch is empty.
func checkEmptyBatches(v *view) {
	held, getErr := v.Get(v.ctx, nil)
	refused, putErr := v.Put(v.ctx, nil)
	leases, dropErr := v.Drop(v.ctx, nil)
	if err := errors.Join(getErr, putErr, dropErr); err != nil || len(held)+len(refused)+len(leases) != 0 {
		v.Errorf("empty Get, Put, Drop = %v, %v, %v, %v", held, refused, leases, err)
	}
}

// checkPartialRefusals: one refused value of a batch does not cost the others.
func checkPartialRefusals(v *view) {
	puts := make([]remote.Put, 6)
	for i := range puts {
		key := fmt.Sprint("k", i)
		puts[i] = remote.Put{Key: key, Data: []byte(key), Fresh: long, Left: long, Lease: v.granted(key, long)}
	}
	v.drop(remote.Drop{Key: "k1"})
	puts[3].Lease = remote.Lease{}
	v.drop(remote.Drop{Key: "k5", Soft: true})
	refused, err := v.Put(v.ctx, puts)
	slices.Sort(refused)
	if err != nil || !slices.Equal(refused, []int{1, 3, 5}) {
		v.Fatalf("Put refused %v, %v; want [1 3 5]", refused, err)
	}
	for i, p := range puts {
		if i%2 == 0 {
			v.holdsFresh(p.Key, p.Key)
		} else {
			v.isAbsent(p.Key)
		}
	}
}

// checkSlicesAreNotShared: a caller may change the bytes that it has stored, or has got, and append
// to them.
func checkSlicesAreNotShared(v *view) {
	data := []byte("value")
	_, err := v.Put(v.ctx, []remote.Put{{Key: "k", Data: data, Fresh: long, Left: long, Lease: v.granted("k", long)}})
	if err != nil {
		v.Fatalf("Put: %v", err)
	}
	clear(data)
	held, err := v.Get(v.ctx, []string{"k", "k"})
	if err != nil || len(held) != 2 {
		v.Fatalf("Get: %d results, %v", len(held), err)
	}
	clear(held[0].Data)
	_ = append(held[0].Data, "more"...)
	if !bytes.Equal(held[1].Data, []byte("value")) {
		v.Errorf("second result is %q after a write to the first; want %q", held[1].Data, "value")
	}
	v.holds("k", "value")
}

// checkIDs: an ID names one value of a key for ever, also among equal bytes: caches compare IDs to
// see whether a value is still the one that they have.
func checkIDs(v *view) {
	seen := map[remote.ID]bool{}
	for i := range 5 {
		if i%2 == 0 {
			v.drop(remote.Drop{Key: "k"})
		} else {
			v.drop(remote.Drop{Key: "k", Soft: true})
		}
		right := v.granted("k", long)
		if i%3 == 2 {
			right = v.drop(remote.Drop{Key: "k", Token: long})
		}
		v.stores("k", "same", right)
		id := v.holds("k", "same").ID
		if seen[id] || id != remote.ID(right.Token) {
			v.Fatalf("value %d has ID %d; want its token %d, which no earlier value had", i, id, right.Token)
		}
		seen[id] = true
	}
	first, second := v.holds("k", "same").ID, v.holds("k", "same").ID
	if first != second {
		v.Errorf("ID changed from %d to %d between two reads", first, second)
	}
}

// checkLivesRunOut: a value becomes stale, and then absent, without a call. A value that has aged
// is not Soft: no caller has dropped it.
func checkLivesRunOut(v *view) {
	v.storesFor("k", "value", short, short+2*past)
	v.fill("other", "value")
	before := v.holdsFresh("other", "value")
	v.sleep(past)
	h := v.holdsStale("k", "value")
	if h.Soft || h.Left > short+past+time.Second {
		v.Errorf("Soft %t, Left %v after %v; want a value that aged by itself", h.Soft, h.Left, past)
	}
	after := v.holdsFresh("other", "value")
	if fresh, left := before.Fresh-after.Fresh, before.Left-after.Left; fresh < short || left < short {
		v.Errorf("in %v Fresh shrank by %v and Left by %v", past, fresh, left)
	}
	v.sleep(2 * past)
	v.isAbsent("k")
	if held, lease := v.acquire("k", long); !held.Absent() || lease.Grant != remote.Granted {
		v.Errorf("Acquire after the end = %+v, grant %d; want absent, Granted", held, lease.Grant)
	}
}

// checkNoLife: the result of a load may be that nothing shall be stored. The old value must not
// stay in its place.
func checkNoLife(v *view) {
	v.fill("k", "old")
	v.drop(remote.Drop{Key: "k", Soft: true})
	v.putLives("k", "new", 0, 0, v.granted("k", long))
	v.isAbsent("k")
}

// checkCancelled: a call that was not carried out is an error, never an empty result.
func checkCancelled(v *view) {
	v.fill("k", "value")
	id := v.holds("k", "value").ID
	ctx, cancel := context.WithCancel(v.ctx)
	cancel()
	_, getErr := v.Get(ctx, []string{"k"})
	_, _, acquireErr := v.ask(ctx, "k", 0, long)
	_, putErr := v.Put(ctx, []remote.Put{{Key: "k", Fresh: long, Left: long, Lease: remote.Lease{Token: 1}}})
	_, dropErr := v.Drop(ctx, []remote.Drop{{Key: "other"}})
	_, extendErr := v.Extend(ctx, "k", long, long, remote.Lease{Token: 1}, id)
	for op, err := range map[string]error{"Get": getErr, "Acquire": acquireErr, "Put": putErr, "Drop": dropErr, "Extend": extendErr} {
		if err == nil {
			v.Errorf("%s with a cancelled context returned no error", op)
		}
	}
	v.holds("k", "value")
}

// checkSchemas: programs with different types of values share keys, and neither reads the bytes of
// the other.
func checkSchemas(v *view) {
	other := v.sibling()
	mine, theirs := v.granted("k", long), other.granted("k", long)
	v.stores("k", "mine", mine)
	other.isAbsent("k")
	other.refuses("k", "mine", mine)
	other.stores("k", "theirs", theirs)
	v.holdsFresh("k", "mine")
	other.holdsFresh("k", "theirs")
}

// checkSchemaLives: the end of one value is not the end of the key.
func checkSchemaLives(v *view) {
	other := v.sibling()
	v.storesFor("k", "mine", short/2, short)
	other.fill("k", "theirs")
	v.sleep(past)
	v.isAbsent("k")
	v.lives(other.holdsFresh("k", "theirs"), long, 2*long)
	v.storesFor("k", "mine", short/2, short)
	v.sleep(past)
	other.holdsFresh("k", "theirs")
}

// checkSchemaState lets values of two types under one key expire, by a caller
// and by time, and be refreshed in turns.
func checkSchemaState(v *view) {
	other := v.sibling()
	v.fill("k", "mine 1")
	other.fill("k", "theirs 1")
	other.drop(remote.Drop{Key: "k", Soft: true})
	theirs := other.granted("k", long)
	v.storesFor("k", "mine 2", short, long)
	other.waits("k", remote.Busy, long)
	other.holdsStale("k", "theirs 1")
	other.stores("k", "theirs 2", theirs)
	mine := v.holdsFresh("k", "mine 2")
	if them := other.holdsFresh("k", "theirs 2"); them.ID == mine.ID {
		v.Errorf("values of two types have the same ID %d", them.ID)
	}
	v.sleep(past)
	if h := v.holdsStale("k", "mine 2"); h.Soft {
		v.Errorf("a value that aged is %+v; want it not Soft", h)
	}
	v.lives(other.holdsFresh("k", "theirs 2"), long, 2*long)
	if !v.extend("k", v.granted("k", long), mine.ID) {
		v.Fatalf("Extend was refused; its lease and ID were good")
	}
	v.lives(v.holdsFresh("k", "mine 2"), 3*long, 4*long)
	v.lives(other.holdsFresh("k", "theirs 2"), long, 2*long)
}

// checkNames: caches with different names share a store, and nothing else.
func checkNames(v *view) {
	other := v.stranger()
	lease := v.granted("k", long)
	other.isAbsent("k")
	other.refuses("k", "value", lease)
	other.fill("k", "theirs")
	v.stores("k", "mine", lease)
	other.drop(remote.Drop{Key: "k"})
	v.holdsFresh("k", "mine")
	other.isAbsent("k")
}
