// Package origin is a database that greets: what the demo's cache stands in
// front of. A greeting is composed from a phrase table and every request for
// one is recorded, in a single statement that commits before it returns. The
// database is real, SQLite in a file or PostgreSQL, and is as slow as it is.
package origin

import (
	"context"
	"database/sql"
	"strings"
	"sync/atomic"
	"time"
)

// Greeting is what the origin answers.
type Greeting struct {
	Name   string `json:"name"`
	Locale string `json:"locale"`
	Text   string `json:"text"`
	// Asked is how often the origin was asked for this greeting. Behind a
	// cache it lags behind the number of requests.
	Asked int64 `json:"asked"`
	// Since is when the origin was asked first.
	Since time.Time `json:"since"`
}

// Options configure an Origin.
type Options struct {
	// URL names the database: "sqlite" (a file in a temporary directory that
	// Close removes), "sqlite:PATH" (a file that stays), or a postgres:// URL.
	// Empty means "sqlite". The tables are created if they are missing.
	URL string
	// MaxConns bounds the connection pool. 0 means 1 for SQLite, whose writers
	// take turns anyway and do so best in one queue, and no bound for
	// PostgreSQL, as a service has it that does not think about it: the server
	// refuses more than its max_connections. A negative value means no bound.
	MaxConns int
	// Latency is waited before every query, to stand for a distant origin. 0
	// means that the database is all that takes time.
	Latency time.Duration
}

// Origin greets. Its methods are safe for concurrent use.
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
// ErrURL says that o is at fault, any other that the database is.
func Open(ctx context.Context, o Options) (*Origin, error) {
	or, err := connect(o)
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
	// Idle connections are kept, so that a pool without a bound does not spend
	// its time on handshakes.
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
	err := o.db.QueryRowContext(ctx, o.greet, name, locale, language, time.Now().UnixMilli()).
		Scan(&g.Text, &g.Asked, &since)
	g.Since = time.UnixMilli(since).UTC()
	return g, err
}

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

// Clear forgets all greetings and returns how many there were.
func (o *Origin) Clear(ctx context.Context) (int64, error) {
	res, err := o.db.ExecContext(ctx, "DELETE FROM strata_greeting")
	if err != nil {
		return 0, o.fail(ctx, err)
	}
	return res.RowsAffected()
}

// Queries is how often Greet has asked the database, failed queries included.
func (o *Origin) Queries() int64 { return o.queries.Load() }

// Failures is how many of the queries failed.
func (o *Origin) Failures() int64 { return o.failures.Load() }

// String describes the database in a few words, without credentials.
func (o *Origin) String() string { return o.name }

// Close closes all connections and removes a temporary database.
func (o *Origin) Close() error {
	err := o.db.Close()
	if o.cleanup != nil {
		if e := o.cleanup(); err == nil {
			err = e
		}
	}
	return err
}
