package redis_test

import (
	"errors"
	"testing"
	"time"

	"github.com/strata-cache/strata/internal/testing/fakeredis"
	"github.com/strata-cache/strata/internal/testing/kit"
	"github.com/strata-cache/strata/redis"
)

// Calls about several nodes of a cluster, some of which are dead or hang.

func TestEachGetsTheRepliesOfLivingNodesAndThenReturnsTheErrorOfADeadOne(t *testing.T) {
	cluster(t, 0, nil, func(t *testing.T, k *fakeredis.Cluster, c *redis.Client) {
		keys := keysOf(k)
		for _, key := range keys {
			mustSet(t, c, key, "v")
		}
		k.Servers[1].Stop()
		p := c.Pipeline()
		queue := func() {
			for _, key := range keys {
				p.Get(key)
			}
		}
		queue()
		got := ""
		var dead error
		err := p.Each(kit.Within(t, time.Second), func(i int, r redis.Reply) error {
			v, err := r.String()
			if got += v + ";"; i == 1 {
				dead = err
			} else if err != nil {
				t.Errorf("reply %d of a living node: %v", i, err)
			}
			return nil
		})
		if got != "v;;v;" || dead == nil || !errors.Is(err, dead) {
			t.Errorf("replies %s with the error %v, and then %v", got, dead, err)
		}
		queue()
		own, calls := errors.New("own"), 0
		if err := p.Each(kit.Within(t, time.Second), func(int, redis.Reply) error { calls++; return own }); err != own || calls != 1 {
			t.Errorf("%v after %d calls; want the error of the function", err, calls)
		}
	})
}
