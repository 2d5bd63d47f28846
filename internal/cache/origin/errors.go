package origin

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// LoadError is the failure of a load, for its callers.
type LoadError struct {
	// Cache and Key name the place; either may be empty.
	Cache, Key string
	Err        error
}

// Error names the cache, the key if that is allowed, and the cause.
func (e *LoadError) Error() string {
	names := slices.DeleteFunc([]string{"strata: load", e.Cache, e.Key}, func(name string) bool { return name == "" })
	return fmt.Sprintf("%s: %v", strings.Join(names, " "), e.Err)
}

// Unwrap returns the cause.
func (e *LoadError) Unwrap() error { return e.Err }

// IsNotFound reports whether an error of a library says that the origin has no such key: see
// strata.IsNotFound.
func IsNotFound(err error) bool {
	if errors.Is(err, sql.ErrNoRows) {
		return true
	}
	var reply interface {
		error
		RedisError()
	}
	if errors.As(err, &reply) && reply.Error() == "redis: nil" {
		return true
	}
	var missing interface {
		error
		NotFound() bool
	}
	return errors.As(err, &missing) && missing.NotFound()
}

// TimeoutError is the error of a load that has not ended within
// Limits.HardTimeout.
type TimeoutError struct {
	After time.Duration
	// Circular says that the load may have waited for itself.
	Circular bool
}

// Error names the bound.
func (e *TimeoutError) Error() string {
	text := fmt.Sprintf("strata: load took longer than Limits.HardTimeout (%v)", e.After)
	if e.Circular {
		text += "; a Loader that asks the cache for its own key with context.Background, instead of its own context, waits for itself"
	}
	return text
}

// Unwrap returns context.DeadlineExceeded.
func (e *TimeoutError) Unwrap() error { return context.DeadlineExceeded }

// maxPanicText is the number of bytes of a panic's value that an error shows.
const maxPanicText = 512

// PanicText returns the value of a panic as text, 512 bytes of it at most; ok is false if it is no
// error, string, number or fmt.Stringer.
func PanicText(value any) (text string, ok bool) {
	switch v := value.(type) {
	case string:
		text = v[:min(len(v), maxPanicText+1)]
	case error, fmt.Stringer, bool, int, int8, int16, int32, int64, uint, uint8, uint16, uint32, uint64, uintptr, float32, float64:
		text = fmt.Sprint(v)
	default:
		return "", false
	}
	if len(text) > maxPanicText {
		text = strings.ToValidUTF8(text[:maxPanicText], "") + "…"
	}
	return text, true
}
