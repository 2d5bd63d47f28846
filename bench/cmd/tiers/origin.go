package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	_ "modernc.org/sqlite" // the driver

	"github.com/strata-cache/strata/bench/internal/rig"
)

// origin is a database with the values of all keys, in a table of its own.
type origin struct {
	db      *sql.DB
	name    string
	table   string
	read    *sql.Stmt
	cleanup func() error
}

// openOrigin opens a temporary SQLite file if url is "sqlite", else the PostgreSQL that a URL
// postgres://… names, and fills the table.
func openOrigin(ctx context.Context, url string, keys []string) (o *origin, err error) {
	if url == "sqlite" {
		o, err = temporarySQLite()
	} else {
		o, err = openPostgres(url)
	}
	if err != nil {
		return nil, err
	}
	if err = o.fill(ctx, keys); err != nil {
		return nil, errors.Join(err, o.close())
	}
	return o, nil
}

func temporarySQLite() (*origin, error) {
	dir, err := os.MkdirTemp("", "strata-tiers-")
	if err != nil {
		return nil, err
	}
	file := url.URL{Scheme: "file", Opaque: filepath.ToSlash(filepath.Join(dir, "tiers.db")), RawQuery: url.Values{"_pragma": {"busy_timeout(5000)", "journal_mode(WAL)"}}.Encode()}
	db, err := sql.Open("sqlite", file.String())
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	return &origin{db: db, name: "SQLite", table: "tiers", cleanup: func() error { return os.RemoveAll(dir) }}, nil
}

// openPostgres parses the URL with net/url first, and hides the errors of pgx, which may
// quote the password.
func openPostgres(raw string) (*origin, error) {
	u, err := url.Parse(raw)
	if err != nil || u.Scheme != "postgres" && u.Scheme != "postgresql" {
		return nil, errors.New("tiers: --origin: want sqlite or postgres://HOST/DATABASE")
	}
	config, err := pgx.ParseConfig(raw)
	if err != nil {
		return nil, errors.New("tiers: --origin: not a valid postgres:// URL")
	}
	o := &origin{db: stdlib.OpenDB(*config), table: "strata_tiers_" + strconv.Itoa(os.Getpid())}
	o.name = "PostgreSQL at " + net.JoinHostPort(config.Host, strconv.Itoa(int(config.Port)))
	o.cleanup = func() error {
		_, err := o.db.ExecContext(context.Background(), "DROP TABLE IF EXISTS "+o.table)
		return err
	}
	return o, nil
}

// fill makes the table, and prepares the query of a read.
func (o *origin) fill(ctx context.Context, keys []string) error {
	// As many idle connections as open ones: by default all but two would be closed after
	// each call, and opened again for the next.
	o.db.SetMaxIdleConns(50)
	o.db.SetMaxOpenConns(50)
	tx, err := o.db.BeginTx(ctx, nil)
	if err != nil {
		return fmt.Errorf("tiers: %s: %w", o.name, err)
	}
	defer func() { _ = tx.Rollback() }() // no effect after Commit
	if _, err = tx.ExecContext(ctx, "CREATE TABLE "+o.table+" (name TEXT PRIMARY KEY, value TEXT NOT NULL)"); err != nil {
		return fmt.Errorf("tiers: %s: %w", o.name, err)
	}
	const rows = 100
	for at := 0; at < len(keys); at += rows {
		var marks []string
		var args []any
		for i := at; i < min(at+rows, len(keys)); i++ {
			b, err := json.Marshal(rig.ProfileOf(i))
			if err != nil {
				return err
			}
			marks = append(marks, fmt.Sprintf("($%d, $%d)", len(args)+1, len(args)+2))
			args = append(args, keys[i], string(b))
		}
		if _, err := tx.ExecContext(ctx, "INSERT INTO "+o.table+" (name, value) VALUES "+strings.Join(marks, ", "), args...); err != nil {
			return fmt.Errorf("tiers: %s: %w", o.name, err)
		}
	}
	if err := tx.Commit(); err != nil {
		return fmt.Errorf("tiers: %s: %w", o.name, err)
	}
	o.read, err = o.db.PrepareContext(ctx, "SELECT value FROM "+o.table+" WHERE name = $1")
	if err != nil {
		return fmt.Errorf("tiers: %s: %w", o.name, err)
	}
	return nil
}

// get reads the value of a key, and does not decode it.
func (o *origin) get(ctx context.Context, key string) error {
	var value string
	return o.read.QueryRowContext(ctx, key).Scan(&value)
}

// close removes the table.
func (o *origin) close() error {
	if o.table == "tiers" { // a file, which must be closed before it is removed
		return errors.Join(o.db.Close(), o.cleanup())
	}
	return errors.Join(o.cleanup(), o.db.Close())
}
