package tier

import (
	"context"
	"sync"
	"time"

	"github.com/strata-cache/strata/internal/redistier/plain"
	"github.com/strata-cache/strata/internal/resp"
	"github.com/strata-cache/strata/remote"
)

// changes is how far the changes of a server have come, for all name spaces.
type changes struct {
	mu     sync.Mutex // guards below
	text   string
	asked  time.Time     // when it was asked for
	asking chan struct{} // closed when an answer is there; nil if nobody asks
}

// Changes returns a text that is another one once anything was written; all parts
// of the tier share the answer for [remote.ChangesAge]. It is empty if the server does not tell, and on a cluster.
func (t *Tier) Changes(ctx context.Context) (string, error) {
	if t.all != nil {
		return "", nil
	}
	c, srv := t.changes, t.one.srv
	for {
		c.mu.Lock()
		if time.Since(c.asked) < remote.ChangesAge {
			defer c.mu.Unlock()
			return c.text, nil
		}
		wait := c.asking
		if wait == nil {
			c.asking = make(chan struct{})
			c.mu.Unlock()
			return c.ask(ctx, srv)
		}
		c.mu.Unlock()
		select {
		case <-wait:
		case <-ctx.Done():
			return "", ctx.Err()
		}
	}
}

// ask asks the server. That it is another one than before shows in its numbers,
// and in what a bus proves.
func (c *changes) ask(ctx context.Context, srv Server) (text string, err error) {
	begun := time.Now()
	err = srv.Together(ctx, true, func(ask plain.Ask) error {
		var b plain.Batch
		b.Add("INFO", "persistence")
		var replies []resp.Value
		if replies, err = ask(&b); err == nil {
			text = plain.Changes(replies[0])
		}
		return err
	})
	c.mu.Lock()
	defer c.mu.Unlock()
	if err == nil {
		c.text, c.asked = text, begun
	}
	close(c.asking)
	c.asking = nil
	return text, err
}
