package goredis_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/strata-cache/strata/contrib/goredis"
	"github.com/strata-cache/strata/internal/testing/fakes"
	"github.com/strata-cache/strata/remote"
)

// TestNothingPrintsCredentials prints and logs the types of the package, their copies
// and their errors, by right and wrong verbs of fmt, and as parts of other values.
func TestNothingPrintsCredentials(t *testing.T) {
	change := func(s *fakes.Redis, o *redis.Options) {
		s.Username, s.Password = "hidden-user", "hidden-password"
		o.Username, o.Password = s.Username, s.Password
	}
	fake(t, change, func(t *testing.T, s *fakes.Redis, rdb *redis.Client) {
		tier, err := goredis.NewTier(rdb)
		if err != nil {
			t.Fatal(err)
		}
		bus, err := goredis.NewBus(rdb)
		if err != nil {
			t.Fatal(err)
		}
		bound := tier.Bind(remote.Space{Name: "n", Schema: 1, Instance: 1}).(*goredis.Tier)
		if err := drop(t.Context(), bound, "k"); err != nil {
			t.Fatal(err)
		}
		stop := bus.Follow("n", func(remote.Event) {})
		defer stop()
		wrong := redis.NewClient(&redis.Options{Addr: "127.0.0.1:6379", Dialer: s.Dial, DialerRetries: 1, Username: "hidden-user", Password: "hidden-wrong"})
		defer wrong.Close()
		refused := drop(t.Context(), bind(t, wrong), "k")
		if refused == nil {
			t.Fatal("no error, though the password is wrong")
		}
		for _, v := range []any{tier, bound, bus, refused} {
			noSecret(t, v)
			if s := fmt.Sprintf("%+v %#v", holder{v}, &holder{v}); strings.Contains(s, "hidden") {
				t.Errorf("%T in another struct: %.300s", v, s)
			}
		}
		noSecret(t, *tier)
		noSecret(t, *bus)
		for text, want := range map[string]string{
			fmt.Sprint(bus):         "goredis.Bus[addr=127.0.0.1:6379 db=0]",
			fmt.Sprint(tier):        "goredis.Tier[addr=127.0.0.1:6379 db=0]",
			fmt.Sprintf("%#v", bus): "goredis.Bus[addr=127.0.0.1:6379 db=0]",
		} {
			if text != want {
				t.Errorf("%q, want %q", text, want)
			}
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
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%t", "%10.3v", "%!"} {
		texts = append(texts, fmt.Sprintf(verb, v), fmt.Sprintf(verb, []any{v}))
	}
	for _, text := range texts {
		if strings.Contains(text, "hidden") || strings.Contains(text, fmt.Sprintf("%x", "hidden")) || strings.Contains(text, fmt.Sprintf("%X", "hidden")) {
			t.Errorf("%T: %.300s", v, text)
		}
	}
}
