package origin

import (
	"context"
	"database/sql"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	_ "modernc.org/sqlite" // database/sql driver
)

// dialect holds the differences between the databases.
type dialect struct {
	placeholder string // prefix of numbered parameters
	bigint      string // type of 64-bit integers
	conns       int    // default bound of the pool, 0 for none
}

// rewrite converts a statement for SQLite to this dialect.
func (d dialect) rewrite(statement string) string {
	return strings.NewReplacer("?", d.placeholder, "BIGINT", d.bigint).Replace(statement)
}

// CheckURL returns the error of Open for a URL of anything but a database, and else
// nil. The error wraps ErrURL. CheckURL opens nothing.
func CheckURL(raw string) error {
	_, err := opener(raw)
	return err
}

// opener returns the function that opens the pool of a URL. The pool connects later.
func opener(raw string) (open func() (*Origin, error), err error) {
	scheme, rest, _ := strings.Cut(raw, ":")
	switch {
	case raw == "" || raw == "sqlite":
		return temporarySQLite, nil
	case scheme == "sqlite" && rest != "":
		return func() (*Origin, error) { return openSQLite(strings.TrimPrefix(rest, "//")) }, nil
	case scheme == "postgres" || scheme == "postgresql":
		config, err := parsePostgres(raw)
		if err != nil {
			return nil, err
		}
		return func() (*Origin, error) { return openPostgres(config), nil }, nil
	}
	return nil, fmt.Errorf("%w: want sqlite, sqlite:PATH or postgres://HOST/DATABASE", ErrURL)
}

// temporarySQLite opens a database in a directory of its own, which Close removes.
func temporarySQLite() (*Origin, error) {
	dir, err := os.MkdirTemp("", "strata-origin-")
	if err != nil {
		return nil, fmt.Errorf("origin: %w", err)
	}
	o, err := openSQLite(filepath.Join(dir, "greetings.db"))
	if err != nil {
		os.RemoveAll(dir)
		return nil, err
	}
	// The directory goes with the origin, since the write-ahead log lies beside the file.
	o.cleanup = func() error { return os.RemoveAll(dir) }
	o.name = "SQLite, a temporary file (WAL, synchronous=FULL)"
	return o, nil
}

// openSQLite opens a file with a write-ahead log in which every commit is
// synced, like PostgreSQL by default. A connection waits for up to five seconds
// if another one has locked the file.
func openSQLite(path string) (*Origin, error) {
	pragmas := url.Values{"_pragma": {"busy_timeout(5000)", "journal_mode(WAL)", "synchronous(FULL)"}}
	file := url.URL{Scheme: "file", Opaque: (&url.URL{Path: filepath.ToSlash(path)}).EscapedPath(), RawQuery: pragmas.Encode()}
	db, err := sql.Open("sqlite", file.String())
	if err != nil {
		return nil, fmt.Errorf("origin: sqlite: %w", err)
	}
	// SQLite has one writer at a time, and each greeting is a write: more connections would only
	// wait for the lock of the file.
	return &Origin{db: db, dialect: dialect{"?", "INTEGER", 1}, name: "SQLite, a file (WAL, synchronous=FULL)"}, nil
}

// parsePostgres parses a URL. The parser of net/url is asked first, because the errors
// of pgx may contain the password.
func parsePostgres(raw string) (*pgx.ConnConfig, error) {
	u, err := url.Parse(raw)
	if err != nil || u.Host == "" && u.Query().Get("host") == "" {
		return nil, fmt.Errorf("%w: not a valid postgres:// URL", ErrURL)
	}
	config, err := pgx.ParseConfig(raw)
	if err != nil {
		return nil, fmt.Errorf("%w: not a valid postgres:// URL", ErrURL)
	}
	return config, nil
}

func openPostgres(config *pgx.ConnConfig) *Origin {
	address := net.JoinHostPort(config.Host, strconv.Itoa(int(config.Port)))
	return &Origin{
		db:      stdlib.OpenDB(*config),
		dialect: dialect{"$", "BIGINT", 0},
		name:    "PostgreSQL at " + address,
	}
}

// greetSQL composes a greeting and records the request. Parameters: name,
// locale, language of the locale, now in milliseconds.
const greetSQL = `
INSERT INTO strata_greeting (name, locale, text, asked, since)
SELECT CAST(?1 AS TEXT), CAST(?2 AS TEXT), replace(template, '{name}', CAST(?1 AS TEXT)), 1, CAST(?4 AS BIGINT)
FROM strata_phrase
WHERE locale IN (CAST(?2 AS TEXT), CAST(?3 AS TEXT), 'en')
ORDER BY CASE locale WHEN CAST(?2 AS TEXT) THEN 0 WHEN CAST(?3 AS TEXT) THEN 1 ELSE 2 END
LIMIT 1
ON CONFLICT (name, locale) DO UPDATE SET asked = strata_greeting.asked + 1
RETURNING text, asked, since`

const tablesSQL = `
CREATE TABLE IF NOT EXISTS strata_phrase (locale TEXT PRIMARY KEY, template TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS strata_greeting (
	name TEXT NOT NULL, locale TEXT NOT NULL, text TEXT NOT NULL,
	asked BIGINT NOT NULL, since BIGINT NOT NULL,
	PRIMARY KEY (name, locale)
)`

const phraseSQL = `INSERT INTO strata_phrase (locale, template) VALUES (?1, ?2) ON CONFLICT (locale) DO NOTHING`

// phrases returns the greeting templates, by language or full locale.
func phrases() map[string]string {
	return map[string]string{
		"de":    "Hallo, {name}!",
		"de-CH": "Grüezi, {name}!",
		"en":    "Hello, {name}!",
		"es":    "¡Hola, {name}!",
		"fr":    "Bonjour, {name} !",
		"it":    "Ciao, {name}!",
		"ja":    "こんにちは、{name}さん！",
		"pl":    "Cześć, {name}!",
		"pt":    "Olá, {name}!",
		"ru":    "Привет, {name}!",
		"tr":    "Merhaba, {name}!",
		"uk":    "Привіт, {name}!",
		"zh":    "你好，{name}！",
	}
}

// createTries is more than there are statements that can lose a race.
const createTries = 5

// createTables creates the missing tables. If several programs start at once on an empty
// PostgreSQL, the server refuses the same table to all but one of them, in spite of IF
// NOT EXISTS. The others try again, and find the table.
func (o *Origin) createTables(ctx context.Context) (err error) {
	for range createTries {
		if err = o.createOnce(ctx); err == nil || !createdMeanwhile(err) {
			return err
		}
	}
	return err
}

// createOnce creates all tables and phrases that are missing.
func (o *Origin) createOnce(ctx context.Context) error {
	for statement := range strings.SplitSeq(tablesSQL, ";") {
		if _, err := o.db.ExecContext(ctx, o.dialect.rewrite(statement)); err != nil {
			return err
		}
	}
	for locale, template := range phrases() {
		if _, err := o.db.ExecContext(ctx, o.dialect.rewrite(phraseSQL), locale, template); err != nil {
			return err
		}
	}
	return nil
}
