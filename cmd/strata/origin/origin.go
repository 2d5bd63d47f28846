// Package origin is a database of greetings, the origin of the demo's cache.
// One statement composes a greeting from a phrase table and records the
// request; it commits before it returns. The database is real, SQLite in a file
// or PostgreSQL, with its real latency.
package origin

import (
	"cmp"
	"context"
	"database/sql"
	"strings"
	"sync/atomic"
	"time"
)

// Greeting is an answer of the origin.
type Greeting struct {
	Name   string `json:"name"`
	Locale string `json:"locale"`
	Text   string `json:"text"`
	// Asked is the number of queries for this greeting. With a cache it is
	// smaller than the number of requests.
	Asked int64 `json:"asked"`
	// Since is the time of the first query for this greeting.
	Since time.Time `json:"since"`
}

// Options configure an Origin.
type Options struct {
	// URL is the URL of the database: "sqlite" (a file in a temporary directory
	// that Close removes), "sqlite:PATH" (a permanent file), or a postgres://
	// URL. Empty means "sqlite". The tables are created if they are missing.
	URL string
	// MaxConns bounds the connection pool. 0 means 1 for SQLite, because its
	// writers run one after the other, best in one queue. For PostgreSQL 0
	// means no bound, the default of database/sql: the server refuses more than
	// its max_connections. A negative value means no bound.
	MaxConns int
	// Latency is a pause before every query that simulates a distant origin. 0
	// means no pause.
	Latency time.Duration
}

// Origin is a database of greetings. Its methods are safe for concurrent use.
type Origin struct {
	db       *sql.DB
	dialect  dialect
	name     string
	latency  time.Duration
	cleanup  func() error
	greet    string
	queries  atomic.Int64
	failures atomic.Int64
}

// Open connects to a database and creates its tables. An error that wraps
// ErrURL is caused by o, any other error by the database.
func Open(ctx context.Context, o Options) (*Origin, error) {
	open, err := opener(o.URL)
	if err != nil {
		return nil, err
	}
	or, err := open()
	if err != nil {
		return nil, err
	}
	or.latency = o.Latency
	or.greet = or.dialect.rewrite(greetSQL)
	conns := o.MaxConns
	if conns == 0 {
		conns = or.dialect.conns
	}
	or.db.SetMaxOpenConns(conns)
	// Idle connections are kept, so that a pool without a bound does not repeat
	// handshakes.
	or.db.SetMaxIdleConns(maxIdle)
	if err := or.createTables(ctx); err != nil {
		or.Close()
		return nil, or.fail(ctx, err)
	}
	return or, nil
}

const maxIdle = 1000

// Greet returns the greeting for a name, composed and recorded by one query.
// The locale is a language tag such as "ru-RU"; an unknown one is greeted in
// English.
func (o *Origin) Greet(ctx context.Context, name, locale string) (Greeting, error) {
	o.queries.Add(1)
	g, err := o.query(ctx, name, locale)
	if err != nil {
		o.failures.Add(1)
		return Greeting{}, o.fail(ctx, err)
	}
	return g, nil
}

func (o *Origin) query(ctx context.Context, name, locale string) (Greeting, error) {
	if err := o.wait(ctx); err != nil {
		return Greeting{}, err
	}
	g := Greeting{Name: name, Locale: locale}
	language, _, _ := strings.Cut(locale, "-")
	var since int64
	// One statement, so that a greeting is one round trip, and parallel queries for one greeting
	// count each other.
	err := o.db.QueryRowContext(ctx, o.greet, name, locale, language, time.Now().UnixMilli()).
		Scan(&g.Text, &g.Asked, &since)
	g.Since = time.UnixMilli(since).UTC()
	return g, err
}

// wait is the latency of a distant origin. It comes before the query, so that the database is not
// locked meanwhile.
func (o *Origin) wait(ctx context.Context) error {
	if o.latency <= 0 {
		return nil
	}
	t := time.NewTimer(o.latency)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Clear deletes all greetings and returns their number.
func (o *Origin) Clear(ctx context.Context) (int64, error) {
	res, err := o.db.ExecContext(ctx, "DELETE FROM strata_greeting")
	if err != nil {
		return 0, o.fail(ctx, err)
	}
	return res.RowsAffected()
}

// Queries returns the number of queries by Greet, including failed ones.
func (o *Origin) Queries() int64 { return o.queries.Load() }

// Failures returns the number of failed queries.
func (o *Origin) Failures() int64 { return o.failures.Load() }

// String returns a short description of the database, without credentials.
func (o *Origin) String() string { return o.name }

// Close closes all connections and removes a temporary database.
func (o *Origin) Close() error {
	err := o.db.Close()
	if o.cleanup != nil {
		err = cmp.Or(err, o.cleanup())
	}
	return err
}
