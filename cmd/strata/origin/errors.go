package origin

import (
	"context"
	"errors"
	"net"
	"syscall"

	"github.com/jackc/pgx/v5/pgconn"
	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

var (
	// ErrURL is wrapped by the error of Open if Options.URL is not the URL of a
	// database.
	ErrURL = errors.New("origin: bad database URL")

	// ErrTooManyConnections is wrapped by the error of Greet if the database
	// accepts no more connections.
	ErrTooManyConnections = errors.New("origin: too many connections")

	// ErrLocked is wrapped by the error of Greet if a query has waited too long
	// for other writers.
	ErrLocked = errors.New("origin: database is locked")

	// ErrUnavailable is wrapped by an error if the database did not answer, or
	// refused for another reason.
	ErrUnavailable = errors.New("origin: unavailable")
)

// failure is an error with a text without credentials and data. The error of
// the driver, which may contain them, can be unwrapped.
type failure struct {
	kind   error
	detail string
	cause  error
}

// Error returns the kind and, if it contains no data, the reason.
func (f *failure) Error() string {
	if f.detail == "" {
		return f.kind.Error()
	}
	return f.kind.Error() + ": " + f.detail
}

// Unwrap returns the kind and the driver's error.
func (f *failure) Unwrap() []error { return []error{f.kind, f.cause} }

// fail converts an error of a driver. It returns the error of an ended ctx
// unchanged.
func (o *Origin) fail(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	f := &failure{kind: ErrUnavailable, cause: err}
	if pg, ok := errors.AsType[*pgconn.PgError](err); ok {
		f.detail = pg.Message
		if pg.Code == "53300" {
			f.kind, f.detail = ErrTooManyConnections, ""
		}
		return f
	}
	if lite, ok := errors.AsType[*sqlite.Error](err); ok {
		switch lite.Code() & 0xff { // without the extended code
		case sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED:
			f.kind = ErrLocked
		case sqlite3.SQLITE_CANTOPEN:
			f.detail = "cannot open the file"
		case sqlite3.SQLITE_NOTADB:
			f.detail = "the file is not a database"
		default:
			f.detail = sqlite.ErrorCodeString[lite.Code()]
		}
		return f
	}
	f.detail = networkDetail(o.name, err)
	return f
}

// networkDetail returns the reason why a database could not be reached, or an
// empty string.
func networkDetail(name string, err error) string {
	if _, ok := errors.AsType[*net.DNSError](err); ok {
		return name + ": host not found"
	}
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return name + ": connection refused"
	case errors.Is(err, syscall.ECONNRESET):
		return name + ": connection reset"
	case errors.Is(err, context.DeadlineExceeded):
		return name + ": timeout"
	}
	return name
}

// createdMeanwhile reports whether err says that another program has created the same table
// at the same time. PostgreSQL finds that in its own catalogue, or before that.
func createdMeanwhile(err error) bool {
	pg, ok := errors.AsType[*pgconn.PgError](err)
	return ok && (pg.Code == "23505" || pg.Code == "42P07" || pg.Code == "42710")
}
