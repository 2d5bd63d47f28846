package test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/strata-cache/strata"
	"github.com/strata-cache/strata/cmd/strata/origin"
	"github.com/strata-cache/strata/internal/testing/servers"
	"github.com/strata-cache/strata/test/internal/postgres"
)

// TestStampedeOnARealDatabase asks a PostgreSQL that accepts few connections
// for the same few greetings, many callers at once: it refuses some of them,
// but no caller that asks through a cache.
func TestStampedeOnARealDatabase(t *testing.T) {
	if testing.Short() {
		t.Skip("-short")
	}
	const conns, callers, names = 10, 300, 5
	pg := postgres.Start(t, conns)
	r := servers.StartRedis(t)

	open := func() (*origin.Origin, error) { return origin.Open(t.Context(), origin.Options{URL: pg.URL}) }
	ask := func(get func(caller int, name string) error) (refused int64) {
		var errs atomic.Int64
		var wg sync.WaitGroup
		start := make(chan struct{})
		for i := range callers {
			wg.Go(func() {
				<-start
				err := get(i, fmt.Sprint("name", i%names))
				if errors.Is(err, origin.ErrTooManyConnections) {
					errs.Add(1)
				} else if err != nil {
					t.Errorf("caller %d: %v", i, err)
				}
			})
		}
		close(start)
		wg.Wait()
		return errs.Load()
	}

	direct, err := open()
	if err != nil {
		t.Fatal(err)
	}
	refused := ask(func(_ int, name string) error {
		_, err := direct.Greet(t.Context(), name, "en")
		return err
	})
	if refused == 0 {
		t.Errorf("PostgreSQL with %d connections refused none of %d callers: the test proves nothing", conns, callers)
	}
	if err := direct.Close(); err != nil {
		t.Fatal(err)
	}

	// Closed connections may take a moment to be free again.
	var cached *origin.Origin
	eventually(t, "the database has connections again", func() bool {
		var err error
		cached, err = open()
		return err == nil
	})
	defer cached.Close()
	load := func(ctx context.Context, name string) (origin.Greeting, error) { return cached.Greet(ctx, name, "en") }
	var caches []*strata.Cache[string, origin.Greeting]
	for range 3 {
		c, _ := instance[string, origin.Greeting](t, r, func(o *strata.Options[string, origin.Greeting]) { o.TTL = time.Minute })
		caches = append(caches, c)
	}
	joined(t, "warm", caches[0], caches[1:]...)
	if n := ask(func(i int, name string) error {
		_, err := caches[i%3].GetOrLoad(t.Context(), name, load)
		return err
	}); n != 0 {
		t.Errorf("%d of %d callers were refused through strata; want none", n, callers)
	}
	if n := cached.Queries(); n != names {
		t.Errorf("%d queries for %d greetings", n, names)
	}
	t.Logf("%d callers, %d connections: %d refused without a cache, 0 with strata and %d queries", callers, conns, refused, names)
}

// TestProgramsThatStartAtOnceOnAnEmptyDatabaseShareItsTables: PostgreSQL refuses all but one of
// the programs that create a table at the same time.
func TestProgramsThatStartAtOnceOnAnEmptyDatabaseShareItsTables(t *testing.T) {
	if testing.Short() {
		t.Skip("-short")
	}
	const programs = 12
	pg := postgres.Start(t, 2*programs)
	admin, err := sql.Open("pgx", pg.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer admin.Close()
	for range 10 {
		if _, err := admin.ExecContext(t.Context(), "DROP TABLE IF EXISTS strata_phrase, strata_greeting"); err != nil {
			t.Fatal(err)
		}
		var all sync.WaitGroup
		start := make(chan struct{})
		for range programs {
			all.Go(func() {
				<-start
				o, err := origin.Open(t.Context(), origin.Options{URL: pg.URL})
				if err != nil {
					t.Error(err)
					return
				}
				if g, err := o.Greet(t.Context(), "Ann", "ru"); err != nil || g.Text != "Привет, Ann!" {
					t.Errorf("%q, %v", g.Text, err)
				}
				o.Close()
			})
		}
		close(start)
		all.Wait()
	}
}
