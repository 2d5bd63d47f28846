package castier

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/strata-cache/strata/remote"
)

// The calls of a Store. Each hands the errors of single keys to its caller, bounds the number
// of results before they are believed, and does by other calls the work of an ability that the
// Store does not have.

// errResults means that a Store has returned another number of results than it was asked for.
var errResults = errors.New("castier: the store has returned a wrong number of results")

// keyErrors are the errors of the keys of a call. Nil means that no key has failed.
type keyErrors []error

// at returns the error of key i.
func (e keyErrors) at(i int) error {
	if e == nil {
		return nil
	}
	return e[i]
}

// first returns the first error.
func (e keyErrors) first() error { return cmp.Or(e...) }

// answered takes the number of results of a call, and its err. It returns the errors of the
// keys, or the error of the whole call. asked is how many results there should be.
func answered(asked, results int, err error) (keyErrors, error) {
	some, ok := err.(remote.KeyErrors) //nolint:errorlint // wrapped it is the error of all keys
	switch {
	case err != nil && !ok:
		return nil, err
	case results != asked, ok && len(some) != asked:
		return nil, errResults
	}
	return keyErrors(some), nil
}

// on returns the Store of a server, and the context for its calls.
func (t *Tier) on(ctx context.Context, server int) (context.Context, Store, error) {
	if t.owner != nil {
		ctx = t.owner.Own(ctx)
	}
	s, err := t.servers.On(ctx, server)
	return ctx, s, err
}

// get reads items of a server. The keys differ.
func (t *Tier) get(ctx context.Context, server int, keys []string) ([]Item, keyErrors, error) {
	ctx, s, err := t.on(ctx, server)
	if err != nil {
		return nil, nil, err
	}
	return getFrom(ctx, s, keys)
}

func getFrom(ctx context.Context, s Store, keys []string) ([]Item, keyErrors, error) {
	items, err := s.GetMany(ctx, keys)
	errs, err := answered(len(keys), len(items), err)
	return items, errs, err
}

// spread returns the items for all keys, given the items of the distinct keys among them, as
// distinctOf says. Equal keys get a Value of their own each.
func spread(items []Item, errs keyErrors, at []int) ([]Item, keyErrors) {
	if at == nil {
		return items, errs
	}
	all := make([]Item, len(at))
	var allErrs keyErrors
	if errs != nil {
		allErrs = make(keyErrors, len(at))
	}
	for i, from := range at {
		// The callers change and keep values, so that two must not share one.
		if all[i] = items[from]; slices.Index(at, from) != i {
			all[i].Value = bytes.Clone(all[i].Value)
		}
		if errs != nil {
			allErrs[i] = errs[from]
		}
	}
	return all, allErrs
}

// distinctOf returns each of keys once, and for each key its place among them: nil if no two are
// the same.
func distinctOf(keys []string) (distinct []string, at []int) {
	if differ(keys) {
		return keys, nil
	}
	seen := make(map[string]int, len(keys))
	at = make([]int, len(keys))
	for i, key := range keys {
		place, ok := seen[key]
		if !ok {
			place = len(distinct)
			seen[key], distinct = place, append(distinct, key)
		}
		at[i] = place
	}
	return distinct, at
}

// few is the number of keys up to which each is compared with each.
const few = 8

// differ reports whether no two of keys are the same.
func differ(keys []string) bool {
	if len(keys) > few {
		seen := make(map[string]bool, len(keys))
		for _, key := range keys {
			seen[key] = true
		}
		return len(seen) == len(keys)
	}
	for i := range keys {
		if slices.Contains(keys[:i], keys[i]) {
			return false
		}
	}
	return true
}

// swap writes items of a server.
func (t *Tier) swap(ctx context.Context, server int, swaps []Swap) ([]bool, keyErrors, error) {
	ctx, s, err := t.on(ctx, server)
	if err != nil {
		return nil, nil, err
	}
	return swapIn(ctx, s, swaps)
}

func swapIn(ctx context.Context, s Store, swaps []Swap) ([]bool, keyErrors, error) {
	swapped, err := s.SwapMany(ctx, swaps)
	errs, err := answered(len(swaps), len(swapped), err)
	return swapped, errs, err
}

// touch gives items of a server other lives, and reports which exist.
func (t *Tier) touch(ctx context.Context, server int, touches []Touch) ([]bool, keyErrors, error) {
	ctx, s, err := t.on(ctx, server)
	if err != nil {
		return nil, nil, err
	}
	if toucher, ok := s.(Toucher); ok {
		touched, err := toucher.TouchMany(ctx, touches)
		errs, err := answered(len(touches), len(touched), err)
		return touched, errs, err
	}
	return touchBySwaps(ctx, s, touches)
}

// touchBySwaps writes the items once more. An item changed by another client meanwhile counts
// as missing.
func touchBySwaps(ctx context.Context, s Store, touches []Touch) ([]bool, keyErrors, error) {
	keys := make([]string, len(touches))
	for i := range touches {
		keys[i] = touches[i].Key
	}
	items, errs, err := getFrom(ctx, s, keys)
	if err != nil {
		return nil, nil, err
	}
	touched := make([]bool, len(touches))
	var swaps []Swap
	var of []int
	for i, it := range items {
		// Writing an item once more is the only way to another life. It needs the version, so that
		// it cannot undo the write of another client.
		if errs.at(i) == nil && it.Version != (Version{}) {
			swaps, of = append(swaps, Swap{Key: keys[i], Value: it.Value, Version: it.Version, Life: touches[i].Life}), append(of, i)
		}
	}
	if len(swaps) == 0 {
		return touched, errs, nil
	}
	swapped, lost, err := swapIn(ctx, s, swaps)
	if err != nil {
		return nil, nil, err
	}
	for k, i := range of {
		touched[i] = swapped[k] && lost.at(k) == nil
	}
	if err := lost.first(); err != nil {
		return nil, nil, err
	}
	return touched, errs, nil
}

// add adds to counters of a server. The first error of a counter is the error of all. If
// the caller tries again, counters without an error count twice, which drops more than
// necessary.
func (t *Tier) add(ctx context.Context, server int, adds []Add) ([]uint64, error) {
	ctx, s, err := t.on(ctx, server)
	if err != nil {
		return nil, err
	}
	counter, ok := s.(Counter)
	if !ok {
		return addBySwaps(ctx, s, adds)
	}
	sums, err := counter.AddMany(ctx, adds)
	errs, err := answered(len(adds), len(sums), err)
	if err == nil {
		err = errs.first()
	}
	return sums, err
}

// addBySwaps counts in turns. In each, the counters that other clients have changed begin again.
func addBySwaps(ctx context.Context, s Store, adds []Add) ([]uint64, error) {
	sums := make([]uint64, len(adds))
	left := make([]int, len(adds))
	for i := range left {
		left[i] = i
	}
	// Other clients count at the same time, and may win every turn: hence the limit.
	for range maxTurns {
		keys := make([]string, len(left))
		for k, i := range left {
			keys[k] = adds[i].Key
		}
		items, errs, err := getFrom(ctx, s, keys)
		if err = errors.Join(err, errs.first()); err != nil {
			return nil, err
		}
		var swaps []Swap
		var of []int
		for k, i := range left {
			sum, changes := adds[i].to(items[k])
			if sums[i] = sum; changes {
				swaps = append(swaps, Swap{Key: keys[k], Value: strconv.AppendUint(nil, sum, 10), Version: items[k].Version})
				of = append(of, i)
			}
		}
		if len(swaps) == 0 {
			return sums, nil
		}
		swapped, errs, err := swapIn(ctx, s, swaps)
		if err = errors.Join(err, errs.first()); err != nil {
			return nil, err
		}
		left = left[:0]
		for k, i := range of {
			if !swapped[k] {
				left = append(left, i)
			}
		}
		if len(left) == 0 {
			return sums, nil
		}
	}
	return nil, errContended
}

// to returns the sum of a on a counter, and whether that differs from the present number.
func (a Add) to(is Item) (sum uint64, changes bool) {
	n, ok := number(is)
	switch {
	case ok:
		return n + a.Delta, a.Delta != 0
	case a.First == 0:
		return 0, false
	}
	return a.First, true
}

// number returns the number in the item of a counter, if there is one.
func number(is Item) (n uint64, ok bool) {
	if n, err := strconv.ParseUint(string(is.Value), 10, 64); err == nil && is.Version != (Version{}) {
		return n, true
	}
	return 0, false
}

const (
	// apart is how much the clocks of two instances may differ if a Store has no Clock.
	apart = 500 * time.Millisecond
	// maxStep is the longest step of a Clock. Holds reckon with it.
	maxStep = 2 * time.Second
)

// askTime asks a Store for its time: it is between t and t+step.
func askTime(ctx context.Context, s Store) (t time.Time, step time.Duration, err error) {
	c, ok := s.(Clock)
	if !ok {
		return time.Now().Add(-apart), 2 * apart, nil
	}
	t, step, err = c.Now(ctx)
	if err == nil && (step < 0 || step > maxStep) {
		err = fmt.Errorf("castier: the store's clock has steps of %v, at most %v", step, maxStep)
	}
	return t, step, err
}
