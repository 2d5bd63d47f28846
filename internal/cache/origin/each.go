package origin

import (
	"cmp"
	"context"
	"errors"
)

// mostInARow is the number of failures in a row after which the rest of a batch counts as failed: the origin,
// and not a key, is at fault.
const mostInARow = 5

// EachFailed are the errors of single keys, for a load of keys one after the other.
type EachFailed[K comparable] map[K]error

// Error says that there are errors: [ErrorOf] returns them.
func (EachFailed[K]) Error() string { return "strata: loads of single keys have failed" }

// ErrorOf returns err, or the error of key if err is an EachFailed: absent if it has none of key.
func ErrorOf[K comparable](err error, key K, absent error) error {
	if err == nil {
		return nil // in most cases, and without an allocation for each
	}
	var each EachFailed[K]
	if errors.As(err, &each) {
		return cmp.Or(each[key], absent)
	}
	return err
}

// Of returns what a loader of several keys says about one of them: it has returned values and err. An error
// beside values applies to the keys without a value. absent is the error of a key without a value or an error.
func Of[K comparable, V any](values map[K]V, err error, key K, absent error) (V, error) {
	v, ok := values[key]
	switch {
	case ok:
		return v, nil
	case err == nil:
		return v, absent
	}
	return v, ErrorOf(err, key, absent)
}

// Each loads keys one after the other, and returns the values and an EachFailed of the keys that have failed. absent
// reports whether an error says that the origin has no such key. panicked is the error of a panic.
func Each[K comparable, V any](ctx context.Context, keys []K, load func(K) (V, error), absent func(error) bool, panicked func(any) error) (map[K]V, error) {
	found, failed, inARow := make(map[K]V, len(keys)), EachFailed[K]{}, 0
	for i, k := range keys {
		v, err := contained(load, k, panicked)
		switch {
		case err == nil:
			found[k], inARow = v, 0
			continue
		case absent(err):
			inARow = 0
			continue
		}
		failed[k] = err
		if inARow++; inARow < mostInARow && ctx.Err() == nil {
			continue
		}
		for _, k := range keys[i:] {
			failed[k] = err
		}
		break
	}
	if len(failed) == 0 {
		return found, nil
	}
	return found, failed
}

// contained calls load. A panic is an error.
func contained[K comparable, V any](load func(K) (V, error), key K, panicked func(any) error) (v V, err error) {
	defer func() {
		if p := recover(); p != nil {
			v, err = *new(V), panicked(p)
		}
	}()
	return load(key)
}
