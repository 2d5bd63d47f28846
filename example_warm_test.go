package strata_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/strata-cache/strata"
)

// A new service warms its cache from the database. The keys come from the primary key of a
// table, page by page: each page begins behind the last key of the one before, which an index
// answers, however far the iteration is.
func ExampleCache_Warm_source() {
	ctx := context.Background()
	users, err := strata.New(strata.Options[int, string]{
		TTL:        time.Hour,
		ManyLoader: loadUsers, // SELECT id, name FROM users WHERE id = ANY($1)
	})
	if err != nil {
		log.Fatal(err)
	}
	defer users.Close(ctx)

	var failed error
	ids := func(yield func(int) bool) {
		for last := 0; ; {
			// SELECT id FROM users WHERE id > $1 ORDER BY id LIMIT 1000
			page, err := pageOfUsers(ctx, last, 1000)
			if failed = err; err != nil || len(page) == 0 {
				return
			}
			for _, id := range page {
				if !yield(id) {
					return
				}
			}
			last = page[len(page)-1]
		}
	}
	warmed, err := users.Warm(ctx, ids, strata.WarmOptions{
		Load:      true,
		PerSecond: 100_000, // spare the database
		Progress: func(w strata.Warmed) {
			if w.Keys%1000 == 0 {
				fmt.Println(w.Loaded, "loaded,", w.Failed, "failed")
			}
		},
	})
	fmt.Println(warmed.Loaded, "of", warmed.Keys, err, failed)
	// Output:
	// 1000 loaded, 0 failed
	// 2000 loaded, 0 failed
	// 2500 of 2500 <nil> <nil>
}

// tableSize is the number of users in the table.
const tableSize = 2500

func pageOfUsers(_ context.Context, after, limit int) (ids []int, err error) {
	for id := after + 1; id <= tableSize && len(ids) < limit; id++ {
		ids = append(ids, id)
	}
	return ids, nil
}

func loadUsers(_ context.Context, ids []int) (map[int]string, error) {
	found := make(map[int]string, len(ids))
	for _, id := range ids {
		found[id] = fmt.Sprint("user ", id)
	}
	return found, nil
}
