package snapshot_test

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"time"

	"github.com/strata-cache/strata"
	"github.com/strata-cache/strata/snapshot"
	"github.com/strata-cache/strata/stratatest"
)

// A new instance takes over the entries of one that runs, before it listens.
func ExamplePull() {
	ctx, token := context.Background(), "Bearer secret of the fleet"
	newUsers := func() *strata.Cache[string, int] {
		users, err := strata.New(strata.Options[string, int]{Name: "users", TTL: time.Hour})
		if err != nil {
			log.Fatal(err)
		}
		return users
	}

	running := newUsers()
	_ = running.Set(ctx, "ann", 31)
	mux := http.NewServeMux()
	mux.Handle("/debug/snapshot", snapshot.Handler(snapshot.HandlerOptions{
		Authorize: func(r *http.Request) bool { return r.Header.Get("Authorization") == token },
	}, running))
	server := httptest.NewServer(mux)
	defer server.Close()

	users := newUsers()
	report, err := snapshot.Pull(ctx, server.URL+"/debug/snapshot", snapshot.Options{
		Within: 30 * time.Second,
		Header: http.Header{"Authorization": {token}},
	}, users)
	if err != nil {
		log.Print(err) // and start all the same
	}
	age, _ := users.Get(ctx, "ann")
	fmt.Println(report.Warm(), "entry is warm; ann is", age)
	// Output: 1 entry is warm; ann is 31
}

// An instance saves its hottest keys when it ends, and the next one reads them from L2.
func ExampleWarmKeys() {
	ctx, tier := context.Background(), stratatest.NewTier()
	dir, _ := os.MkdirTemp("", "")
	defer os.RemoveAll(dir)
	newUsers := func() *strata.Cache[string, int] {
		users, err := strata.New(strata.Options[string, int]{Name: "users", TTL: time.Hour, Remote: strata.Remote[string, int]{Tier: tier}})
		if err != nil {
			log.Fatal(err)
		}
		return users
	}
	path := filepath.Join(dir, "users.keys")

	users := newUsers()
	_ = users.Set(ctx, "ann", 31)
	if _, err := snapshot.SaveKeys(ctx, path, snapshot.Options{}, users); err != nil {
		log.Print(err)
	}
	_ = users.Close(ctx)

	users = newUsers()
	report, err := snapshot.WarmKeys(ctx, path, snapshot.Options{KeysPerSecond: 20_000}, users)
	if err != nil {
		log.Print(err) // and start all the same
	}
	fmt.Println(report.Warm(), "entry is warm")
	// Output: 1 entry is warm
}

// A cache without L2 is saved to a file and loaded by the next process.
func ExampleSave() {
	ctx := context.Background()
	dir, _ := os.MkdirTemp("", "")
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "users.snapshot")

	users, _ := strata.New(strata.Options[string, int]{Name: "users", TTL: time.Hour})
	_ = users.Set(ctx, "ann", 31)
	if _, err := snapshot.Save(ctx, path, snapshot.Options{}, users); err != nil {
		log.Print(err)
	}

	users, _ = strata.New(strata.Options[string, int]{Name: "users", TTL: time.Hour})
	report, err := snapshot.Load(ctx, path, snapshot.Options{}, users)
	fmt.Println(report.Warm(), err)
	// Output: 1 <nil>
}

// A cache is filled from its source, before the first callers come.
func Example_warmUp() {
	ctx := context.Background()
	users, _ := strata.New(strata.Options[string, int]{Name: "users", TTL: time.Hour})
	popular := map[string]int{"ann": 31, "bob": 27} // a query for the 1000 most active users, say
	if err := users.SetMany(ctx, popular); err != nil {
		log.Print(err)
	}
	fmt.Println(users.Len())
	// Output: 2
}
