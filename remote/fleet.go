package remote

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Fleet is a Tier over several servers, each of which has the entries of some keys.
// A server that does not answer costs its own keys the shared store, and no others: an
// error of a server is a [*ServerError], and a call that fails for some of its keys
// returns [KeyErrors]. With a Fleet, a cache has a circuit breaker for each server, and
// its errors name the failing server.
//
// Without it, the Tier counts as one server.
type Fleet interface {
	// Servers returns the names of the servers, which hold no credentials. With one
	// server or none there is nothing to tell apart. The list may change.
	Servers() []string
	// ServerOf returns the name of the server that holds the entries of a key. It sends no request.
	ServerOf(key string) string
	// DropAllOf is DropAll for the keys of one server, by its name: it completes a
	// DropAll that returned a [*NotToldError]. If one operation drops the keys of all
	// servers, DropAllOf is DropAll. For a server no longer in the list there is nothing
	// to drop.
	DropAllOf(ctx context.Context, server string, soft bool) error
}

// ServerError is the error of one server of a [Fleet].
type ServerError struct {
	// Server is the name of the server.
	Server string
	// Err is the error, such as one that matches [ErrRefused].
	Err error
}

// Error names the server.
func (e *ServerError) Error() string { return fmt.Sprintf("server %s: %v", e.Server, e.Err) }

// Unwrap returns the error without the name.
func (e *ServerError) Unwrap() error { return e.Err }

// FailedServer returns the name of the server in the chain of err, and "" if there is none.
func FailedServer(err error) string {
	var of *ServerError
	if errors.As(err, &of) {
		return of.Server
	}
	return ""
}

// NotToldError is the error of a DropAll that some servers of a [Fleet] have not
// confirmed. It has taken effect on the others.
type NotToldError struct {
	// Servers are the names of the servers without a confirmation.
	Servers []string
	// Err has their errors.
	Err error
}

// Error names the servers.
func (e *NotToldError) Error() string {
	return fmt.Sprintf("not told to %s: %v", strings.Join(e.Servers, ", "), e.Err)
}

// Unwrap returns the errors of the servers.
func (e *NotToldError) Unwrap() error { return e.Err }

// KeyErrors is the error of a call for several keys of which at least one has succeeded
// and at least one has failed. Error i belongs to argument i, and is nil if the call has
// succeeded for that argument.
type KeyErrors []error

// Error gives the number of failures, and the first error.
func (e KeyErrors) Error() string {
	n := 0
	for _, err := range e {
		if err != nil {
			n++
		}
	}
	return fmt.Sprintf("%d of %d failed, one of them: %v", n, len(e), e[max(0, slices.IndexFunc(e, failed))])
}

// Unwrap returns the errors.
func (e KeyErrors) Unwrap() []error { return slices.DeleteFunc(slices.Clone(e), succeeded) }

func failed(err error) bool    { return err != nil }
func succeeded(err error) bool { return err == nil }

// JoinKeys returns the error of a call with the errors of its arguments: nil if there is
// none, KeyErrors if some have succeeded, else all errors as one, each only once.
func JoinKeys(errs []error) error {
	switch {
	case !slices.ContainsFunc(errs, failed):
		return nil
	case slices.ContainsFunc(errs, succeeded):
		return KeyErrors(errs)
	}
	var distinct []error
	for _, err := range errs {
		if !slices.ContainsFunc(distinct, func(other error) bool { return same(err, other) }) {
			distinct = append(distinct, err)
		}
	}
	if len(distinct) == 1 {
		return distinct[0]
	}
	return errors.Join(distinct...)
}

// same reports whether two errors have the same text: the same failure of the same server.
func same(a, b error) bool { return a.Error() == b.Error() }

// ErrorOf returns the error for argument i of a call, and nil if there is none. err is the error of
// the whole call.
func ErrorOf(err error, i int) error {
	if all, ok := err.(KeyErrors); ok { //nolint:errorlint // wrapped it is the error of all keys
		return all[i]
	}
	return err
}
