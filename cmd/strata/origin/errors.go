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
	// ErrURL is wrapped by Open's error when Options.URL names no database.
	ErrURL = errors.New("origin: bad database URL")

	// ErrTooManyConnections is wrapped by Greet's error when the database
	// accepts no more connections.
	ErrTooManyConnections = errors.New("origin: too many connections")

	// ErrLocked is wrapped by Greet's error when a query has waited for other
	// writers for too long.
	ErrLocked = errors.New("origin: database is locked")

	// ErrUnavailable is wrapped by an error when the database did not answer
	// or refused for another reason.
	ErrUnavailable = errors.New("origin: unavailable")
)

// failure is an error whose text is free of credentials and data, which the
// texts of drivers are not. The driver's error can be unwrapped.
type failure struct {
	kind   error
	detail string
	cause  error
}

// Error names the kind and, if it is harmless, the reason.
func (f *failure) Error() string {
	if f.detail == "" {
		return f.kind.Error()
	}
	return f.kind.Error() + ": " + f.detail
}

// Unwrap returns the kind and the driver's error.
func (f *failure) Unwrap() []error { return []error{f.kind, f.cause} }

// fail sorts an error of a driver. The end of ctx is passed on as it is.
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

// networkDetail says what is known of a database that could not be reached.
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
