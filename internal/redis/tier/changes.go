// A cheap answer to the question whether anything was dropped, for caches that have
// heard nothing for a while: the counters that servers report of their data.
// Invariant: two equal non-empty texts mean that no drop was executed between their
// requests on any of the asked servers. In a cluster a failover shows a little
// later.

package tier

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/strata-cache/strata/internal/redis/layout"
	"github.com/strata-cache/strata/internal/redis/resp"
	"github.com/strata-cache/strata/remote"
)

// changes is the last answer of Changes, for all namespaces.
type changes struct {
	// moving counts operations in slots on the move to another server. Lane
	// versions read there settle nothing: Changes may not have asked the other
	// server yet.
	moving atomic.Uint64

	mu     sync.Mutex // guards below
	text   string
	asked  time.Time     // when the answer was requested
	asking chan struct{} // closed when the answer has arrived; nil if no request is under way
}

// Changes returns a text that differs after any write. All views of the tier
// share the answer for [remote.ChangesAge]. The text is empty if a server does
// not report its changes.
func (t *Tier) Changes(ctx context.Context) (string, error) {
	c := t.changes
	for {
		c.mu.Lock()
		if time.Since(c.asked) < remote.ChangesAge {
			defer c.mu.Unlock()
			return c.text, nil
		}
		// One caller asks for all caches of the store, and the others wait for its answer. If it
		// fails, one of them asks next.
		wait := c.asking
		if wait == nil {
			c.asking = make(chan struct{})
			c.mu.Unlock()
			text, err := c.answered(t.askChanges(ctx, time.Now()))
			return text, t.explained(err)
		}
		c.mu.Unlock()
		select {
		case <-wait:
		case <-ctx.Done():
			return "", ctx.Err()
		}
	}
}

// answered keeps the answer to a request made at the time at.
func (c *changes) answered(text string, at time.Time, err error) (string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err == nil {
		c.text, c.asked = text, at
	}
	close(c.asking)
	c.asking = nil
	return text, err
}

// askChanges asks the only server, or all servers that serve slots, at once.
func (t *Tier) askChanges(ctx context.Context, now time.Time) (text string, at time.Time, err error) {
	if t.all == nil {
		text, err = t.one.askChanges(ctx)
		return text, now, err
	}
	// Read before the nodes are asked: an operation in a moving slot that comes later changes the
	// next text, not this one.
	moving := t.changes.moving.Load()
	nodes, err := t.all.Serving(ctx)
	if err != nil {
		return "", now, err
	}
	texts, errs := make([]string, len(nodes)), make([]error, len(nodes))
	var wg sync.WaitGroup
	for i, n := range nodes {
		wg.Go(func() { texts[i], errs[i] = (&site{Tier: t, srv: n}).askChanges(ctx) })
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		return "", now, err
	}
	// A server that tells nothing may have had drops. So nothing is known of the whole.
	if slices.Contains(texts, "") {
		return "", now, nil
	}
	// Nodes that disagree about the epoch are in the middle of a failover. The one that knows most
	// tells the present topology.
	if ahead := newest(texts); ahead >= 0 {
		t.all.Refresh(nodes[ahead])
	}
	// Nodes come in any order, which is no change.
	slices.Sort(texts)
	return strings.Join(texts, ", ") + ", " + strconv.FormatUint(moving, 10), now, nil
}

// newest returns the index of the text with the highest epoch of a cluster, or -1 if
// all have the same epoch. A node with an older epoch may have lost its place, and may
// not have heard of the loss.
func newest(texts []string) int {
	at, most, same := -1, int64(-1), true
	for i, text := range texts {
		f := strings.Fields(text)
		if len(f) < 2 {
			return -1
		}
		epoch, err := strconv.ParseInt(f[len(f)-2], 10, 64) // the node's own epoch is the last one
		if err != nil {
			return -1
		}
		same = same && (i == 0 || epoch == most)
		if epoch > most {
			at, most = i, epoch
		}
	}
	if same {
		return -1
	}
	return at
}

// askChanges asks one server. The number of opened connections shows when
// another server may have taken its place.
func (s *site) askChanges(ctx context.Context) (text string, err error) {
	err = s.srv.Together(ctx, true, func(ask layout.Ask) error {
		text, err = s.changesOver(ask)
		return err
	})
	if err != nil || text == "" {
		return "", err
	}
	return layout.Hex(s.srv.Opened()) + " " + text, nil
}

// changesOver asks by a script, which has a short answer. Where scripts do not
// run, or may not call INFO, it reads the whole reply of INFO.
func (s *site) changesOver(ask layout.Ask) (string, error) {
	clustered := s.all != nil
	if s.scripted() {
		v, err := runOver(ask, s.scripts.changes, func(dst []byte, head string) []byte {
			dst = appendCall(dst, head, 1)
			if clustered {
				return appendInt(dst, 1)
			}
			return appendInt(dst, 0)
		})
		if err != nil {
			return "", err
		}
		if text := string(v.Bytes()); v.Kind() == resp.Bulk && text != "" {
			return text, nil
		}
		s.forbids(v)
	}
	var b layout.Batch
	b.Add("INFO", "persistence")
	if clustered {
		b.Add("CLUSTER", "INFO")
	}
	replies, err := ask(&b)
	if err != nil {
		return "", err
	}
	text := layout.DataChanges(replies[0])
	if text != "" && clustered {
		text += " " + layout.ClusterState(replies[1])
	}
	return text, nil
}
