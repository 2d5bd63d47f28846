package redis_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/strata-cache/strata/internal/redis/slots"
	"github.com/strata-cache/strata/internal/testing/fakes"
	"github.com/strata-cache/strata/redis"
)

func TestTypedCallsReachTheNodesOfTheirKeys(t *testing.T) {
	cluster(t, 0, nil, func(t *testing.T, k *fakes.RedisCluster, c *redis.Client) {
		ctx := t.Context()
		keys := keysOf(k)
		large := strings.Repeat("v", 5000)
		p := c.Pipeline()
		for i, key := range keys {
			if err := c.Set(ctx, key, []byte(fmt.Sprint(i)), 0); err != nil {
				t.Error(err)
			}
			p.Set("x{"+key+"}", []byte(large+key), 0)
			p.Get(key)
			p.Get("x{" + key + "}")
		}
		next := 0
		if err := p.Each(ctx, func(i int, r redis.Reply) error {
			want := []string{"OK", fmt.Sprint(i / 3), large + keys[i/3]}[i%3]
			if v, err := r.String(); i != next || v != want || err != nil {
				t.Errorf("%d: %d bytes, %v", i, len(v), err)
			}
			next++
			return nil
		}); err != nil || next != 9 {
			t.Errorf("%v after %d replies", err, next)
		}
		got := ""
		if err := c.MGet(ctx, []string{keys[2], "none", keys[0], keys[1]}, func(i int, v []byte, found bool) error {
			got += fmt.Sprintf("%d %s %v;", i, v, found)
			return nil
		}); err != nil || got != "0 2 true;1  false;2 0 true;3 1 true;" {
			t.Errorf("%s %v", got, err)
		}
		own := errors.New("own")
		calls := 0
		if err := c.MGet(ctx, keys[:], func(int, []byte, bool) error { calls++; return own }); err != own || calls != 1 {
			t.Errorf("%v after %d calls", err, calls)
		}
	})
}

// moved has the client know where a key is served, and then lets it be served
// elsewhere: at node 2, or only after ASKING.
func moved(t *testing.T, k *fakes.RedisCluster, c *redis.Client, key string, ask bool) {
	t.Helper()
	mustSet(t, c, key, "0")
	if ask {
		k.Migrate(key, 2)
		k.Carry(key)
		return
	}
	k.Change(map[int]int{slots.Of(key): 2})
}

func TestTypedCallsFollowASlotThatMoves(t *testing.T) {
	for _, ask := range []bool{false, true} {
		for name, call := range map[string]func(ctx context.Context, c *redis.Client, key string) error{
			"Set": func(ctx context.Context, c *redis.Client, key string) error { return c.Set(ctx, key, []byte("1"), 0) },
			"Pipeline": func(ctx context.Context, c *redis.Client, key string) error {
				p := c.Pipeline()
				p.Set(key, []byte("1"), 0)
				return p.Each(ctx, func(_ int, r redis.Reply) error { return r.Ok() })
			},
			"Multi": func(ctx context.Context, c *redis.Client, key string) error {
				tx := c.Multi()
				tx.Set(key, []byte("1"), 0)
				tx.Get(key)
				replies, err := tx.Do(ctx)
				if err == nil && texts(replies) != "OK;1;" {
					err = errors.New(texts(replies))
				}
				return err
			},
			"Watch": func(ctx context.Context, c *redis.Client, key string) error {
				_, err := c.Watch(ctx, []string{key}, func(tx *redis.Tx) error {
					if v, err := tx.Do("GET", key).String(); v != "0" || err != nil {
						t.Errorf("%q, %v", v, err)
					}
					tx.Queue().Set(key, []byte("1"), 0)
					return nil
				})
				return err
			},
			"Body": func(ctx context.Context, c *redis.Client, key string) error {
				return c.Do(ctx, "SET", key, redis.Body{Reader: strings.NewReader("1"), Size: 1}).Ok()
			},
			"large Body": func(ctx context.Context, c *redis.Client, key string) error {
				large := strings.Repeat("1", 100_000)
				if err := c.Do(ctx, "SET", key, redis.Body{Reader: strings.NewReader(large), Size: 100_000}).Ok(); err != nil {
					return err
				}
				if v, err := get(ctx, c, key); v != large || err != nil {
					return fmt.Errorf("%d bytes, %w", len(v), err)
				}
				return c.Set(ctx, key, []byte("1"), 0)
			},
			"body of unknown size": func(ctx context.Context, c *redis.Client, key string) error {
				return c.SetFrom(ctx, key, strings.NewReader("1"), -1, 0)
			},
		} {
			t.Run(fmt.Sprintf("%s,ask=%v", name, ask), func(t *testing.T) {
				cluster(t, 0, nil, func(t *testing.T, k *fakes.RedisCluster, c *redis.Client) {
					key := keysOf(k)[0]
					moved(t, k, c, key, ask)
					if err := call(t.Context(), c, key); err != nil {
						t.Error(err)
					}
					mustGet(t, c, key, "1")
				})
			})
		}
	}
}

func TestTransactionInSeveralSlotsIsRefusedBeforeAnythingIsSent(t *testing.T) {
	cluster(t, 0, nil, func(t *testing.T, k *fakes.RedisCluster, c *redis.Client) {
		ctx := t.Context()
		keys := keysOf(k)
		tx := c.Multi()
		tx.Set(keys[0], nil, 0)
		tx.Get(keys[1])
		if replies, err := tx.Do(ctx); err != redis.ErrCrossSlot || replies != nil {
			t.Errorf("%v, %v", replies, err)
		}
		tx.Add("GET", keys[0])
		tx.Add("DEL", keys[2])
		if err := tx.Each(ctx, nil); err != redis.ErrCrossSlot {
			t.Error(err)
		}
		if _, err := c.Watch(ctx, keys[:2], nil); err != redis.ErrCrossSlot {
			t.Error(err)
		}
		if n := calls(k, "MULTI") + calls(k, "WATCH"); n != 0 {
			t.Errorf("%d commands were sent", n)
		}
		for _, other := range keys[1:] {
			if _, err := c.Watch(ctx, keys[:1], func(tx *redis.Tx) error { tx.Queue().Get(other); return nil }); err != redis.ErrCrossSlot {
				t.Error(err)
			}
		}
		if n := calls(k, "MULTI"); n != 0 || calls(k, "UNWATCH") != 2 {
			t.Errorf("%d MULTI, %d UNWATCH", n, calls(k, "UNWATCH"))
		}
		tx.Add("PING") // has no slot
		tx.Set("{a}1", []byte("x"), 0)
		tx.Get("{a}1")
		if replies, err := tx.Do(ctx); err != nil || texts(replies) != "PONG;OK;x;" {
			t.Errorf("%s, %v", texts(replies), err)
		}
	})
}
