package castier_test

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/strata-cache/strata"
	"github.com/strata-cache/strata/remote/castier"
)

// table is a castier.Store in a map, as it might be in a database.
type table struct {
	mu   sync.Mutex // guards below
	rows map[string]row
	last uint64 // the number of the last write: each row has the number of its own
}

type row struct {
	value []byte
	ends  time.Time // zero for never
	write uint64
}

// row returns the row of key, or the zero row if its life is over. t.mu is locked.
func (t *table) row(key string) row {
	r := t.rows[key]
	if !r.ends.IsZero() && !time.Now().Before(r.ends) {
		return row{}
	}
	return r
}

// GetMany implements castier.Store.
func (t *table) GetMany(ctx context.Context, keys []string) ([]castier.Item, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	items := make([]castier.Item, len(keys))
	for i, key := range keys {
		r := t.row(key)
		items[i] = castier.Item{Value: append([]byte{}, r.value...), Version: castier.Version{Number: r.write}}
	}
	return items, ctx.Err()
}

// SwapMany implements castier.Store.
func (t *table) SwapMany(ctx context.Context, swaps []castier.Swap) ([]bool, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	swapped := make([]bool, len(swaps))
	for i, s := range swaps {
		if swapped[i] = t.row(s.Key).write == s.Version.Number; !swapped[i] {
			continue // another process has written the row since
		}
		t.last++
		r := row{value: append([]byte{}, s.Value...), write: t.last}
		if s.Life > 0 {
			r.ends = time.Now().Add(s.Life)
		}
		t.rows[s.Key] = r
	}
	return swapped, nil
}

// Now implements castier.Clock.
func (t *table) Now(context.Context) (time.Time, time.Duration, error) {
	return time.Now(), time.Millisecond, nil
}

// Two instances share values by a table. Without a bus, an instance notices a change by another
// one when its own entry ends, so Memory.TTL is short.
func ExampleNew() {
	shared := castier.New(&table{rows: map[string]row{}})
	load := func(_ context.Context, key string) (string, error) {
		fmt.Println("load", key)
		return "Ann", nil
	}
	for range 2 {
		users, err := strata.New(strata.Options[string, string]{
			Name: "users", TTL: time.Minute, Memory: strata.Memory[string, string]{TTL: time.Second},
			Remote: strata.Remote[string, string]{Tier: shared}, Loader: load,
		})
		if err != nil {
			fmt.Println(err)
			return
		}
		name, err := users.GetOrLoad(context.Background(), "7", nil)
		fmt.Println(name, err)
		users.Close(context.Background())
	}
	// Output:
	// load 7
	// Ann <nil>
	// Ann <nil>
}
