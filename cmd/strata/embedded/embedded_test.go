package embedded_test

import (
	"strings"
	"sync"
	"testing"

	"github.com/strata-cache/strata/cmd/strata/embedded"
	"github.com/strata-cache/strata/redis"
)

// TestServerEndsWhileItIsAskedForItsState ends a server that answers INFO at the moment.
func TestServerEndsWhileItIsAskedForItsState(t *testing.T) {
	for range 20 {
		addr, stop, err := embedded.Start()
		if err != nil {
			t.Fatal(err)
		}
		c, err := redis.New(redis.Options{Addr: addr})
		if err != nil {
			t.Fatal(err)
		}
		if text, err := c.Do(t.Context(), "INFO", "stats").String(); err != nil || !strings.Contains(text, "total_commands_processed:") {
			t.Fatalf("%q, %v", text, err)
		}
		var asking sync.WaitGroup
		for range 4 {
			asking.Go(func() {
				for c.Do(t.Context(), "INFO", "stats").Err() == nil {
				}
			})
		}
		stop()
		asking.Wait()
		c.Close()
	}
}
