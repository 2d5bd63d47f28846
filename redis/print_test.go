package redis_test

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/strata-cache/strata/internal/testing/fakes"
	"github.com/strata-cache/strata/redis"
	"github.com/strata-cache/strata/remote"
)

// TestNothingPrintsCredentials: neither by a verb of fmt, right or wrong, nor in
// a log, nor as a part of something else.
func TestNothingPrintsCredentials(t *testing.T) {
	change := func(s *fakes.Redis, o *redis.Options) {
		keep(s)
		s.Username, s.Password = "hidden-user", "hidden-password"
		o.Username, o.Password = s.Username, s.Password
	}
	fake(t, change, func(t *testing.T, s *fakes.Redis, c *redis.Client) {
		sub, err := c.Subscribe(t.Context(), "a")
		if err != nil {
			t.Fatal(err)
		}
		p := c.Pipeline()
		p.Get("k")
		stream, err := c.Stream(t.Context(), "GET", "k")
		if err != nil {
			t.Fatal(err)
		}
		defer stream.Close()
		o := redis.Options{Username: "hidden-user", Password: "hidden-password"}
		tier := redis.NewTier(c)
		for _, v := range []any{c, redis.NewBus(c), tier, tier.Bind(remote.Space{Name: "n"}), sub, p, stream, c.Stats()} {
			noSecret(t, v)
			if s := fmt.Sprintf("%+v %#v", holder{v}, &holder{v}); strings.Contains(s, "hidden") {
				t.Errorf("%T in another struct: %.300s", v, s)
			}
		}
		noSecret(t, o)
		noSecret(t, &o)
		noSecret(t, redis.Options{Addr: "user:hidden@localhost:6379"}) // which New refuses
		noSecret(t, redis.Options{Addr: "redis://user:hidden@localhost:6379"})
		_, err = c.Watch(t.Context(), []string{"k"}, func(tx *redis.Tx) error {
			noSecret(t, tx)
			return errors.New("mine")
		})
		noSecret(t, err)
		if text := fmt.Sprint(c, redis.NewBus(c)); !strings.Contains(text, "redis.Client[network=tcp addr=localhost:6379 db=0") || !strings.Contains(text, "redis.Bus[") {
			t.Error(text)
		}
	})
}

// holder has something as a part, where fmt calls no methods.
type holder struct{ part any }

func noSecret(t *testing.T, v any) {
	t.Helper()
	var log bytes.Buffer
	slog.New(slog.NewTextHandler(&log, nil)).Info("it", "v", v, "list", []any{v})
	slog.New(slog.NewJSONHandler(&log, nil)).Info("it", "v", v)
	texts := []string{log.String(), fmt.Sprint(v), fmt.Sprintln(v)}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%t", "%T", "%10.3v", "%!"} {
		texts = append(texts, fmt.Sprintf(verb, v), fmt.Sprintf(verb, []any{v}))
	}
	for _, text := range texts {
		if strings.Contains(text, "hidden") || strings.Contains(text, fmt.Sprintf("%x", "hidden")) || strings.Contains(text, fmt.Sprintf("%X", "hidden")) {
			t.Errorf("%T: %.300s", v, text)
		}
	}
}
