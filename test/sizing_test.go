package test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/strata-cache/strata"
	"github.com/strata-cache/strata/codec"
	"github.com/strata-cache/strata/internal/testing/kit"
	"github.com/strata-cache/strata/internal/testing/servers"
	"github.com/strata-cache/strata/redis"
)

// usedMemory is the memory of a server, in bytes.
func usedMemory(t *testing.T, c *redis.Client) int {
	t.Helper()
	text, err := mustDo(t, c, "INFO", "memory").String()
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile(`used_memory:(\d+)`).FindStringSubmatch(text)
	if m == nil {
		t.Fatalf("no used_memory in %q", text)
	}
	n, err := strconv.Atoi(m[1])
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// TestEntriesTakeTheMemoryOfTheGuide measures an entry of L2, an entry on a server that packs
// the fields of a hash up to 2 KiB, and a plain SET with the same key and value, by used_memory
// of a server with 20,000 of them, and compares them with the table of docs/guide/production.md.
func TestEntriesTakeTheMemoryOfTheGuide(t *testing.T) {
	page, err := os.ReadFile("../docs/guide/production.md")
	if err != nil {
		t.Fatal(err)
	}
	const batch = 500
	entries := kit.Rounds(20_000)
	for _, size := range []int{16, 256, 1024} {
		row := regexp.MustCompile(fmt.Sprintf(`(?m)^\| %s B \| ([\d,]+) B \| ([\d,]+) B \| ([\d,]+) B \|$`, written(size))).FindStringSubmatch(string(page))
		if row == nil {
			t.Fatalf("production.md has no row for values of %d B", size)
		}
		value := bytes.Repeat([]byte{'x'}, size)
		perEntry := func(packed int, fill func(c *redis.Client, from, to int)) int {
			c := servers.StartRedis(t).Client(t)
			mustDo(t, c, "CONFIG", "SET", "hash-max-ziplist-value", packed) // the name before Redis 7, too
			fill(c, 0, batch)                                               // connections, the buffers of the server, and the keys of the name
			before := usedMemory(t, c)
			fill(c, batch, batch+entries)
			return (usedMemory(t, c) - before) / entries
		}
		store := func(c *redis.Client, from, to int) {
			cache, err := strata.New(strata.Options[string, []byte]{
				Name: "users", TTL: time.Hour,
				Remote: strata.Remote[string, []byte]{Tier: redis.NewTier(c), Codec: codec.Bytes(), Timeout: time.Minute},
			})
			if err != nil {
				t.Fatal(err)
			}
			defer cache.Close(context.Background())
			for ; from < to; from += batch {
				values := map[string][]byte{}
				for i := range batch {
					values[fmt.Sprintf("user:%08d", from+i)] = value
				}
				if err := cache.SetMany(t.Context(), values); err != nil {
					t.Fatal(err)
				}
			}
		}
		entry, packed := perEntry(64, store), perEntry(2048, store)
		plain := perEntry(64, func(c *redis.Client, from, to int) {
			for i := from; i < to; i++ {
				mustDo(t, c, "SET", fmt.Sprintf("users:user:%08d", i), value, "PX", "3600000")
			}
		})
		t.Logf("%d B: entry %d, packed %d, plain %d", size, entry, packed, plain)
		for i, got := range []int{entry, packed, plain} {
			want, err := strconv.Atoi(strings.ReplaceAll(row[i+1], ",", ""))
			if err != nil {
				t.Fatal(err)
			}
			if got*100 < want*85 || got*100 > want*115 {
				t.Errorf("values of %d B take %d B, the page says %d", size, got, want)
			}
		}
	}
}

// written is a number with a comma for thousands, as pages have it.
func written(n int) string {
	if n < 1000 {
		return strconv.Itoa(n)
	}
	return fmt.Sprintf("%d,%03d", n/1000, n%1000)
}
