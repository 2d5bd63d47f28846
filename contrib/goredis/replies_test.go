package goredis_test

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/strata-cache/strata/contrib/goredis"
	"github.com/strata-cache/strata/internal/redis/layout"
	"github.com/strata-cache/strata/internal/redis/resp"
	"github.com/strata-cache/strata/internal/testing/fakes"
	"github.com/strata-cache/strata/internal/testing/kit"
	"github.com/strata-cache/strata/remote"
)

// TestHostileReplyIsOneErrorAndCostsItsConnection gives replies that cost other
// clients their process or gigabytes.
func TestHostileReplyIsOneErrorAndCostsItsConnection(t *testing.T) {
	for name, reply := range map[string]string{
		"negative length":       "$-5\r\n",
		"length near 2^62":      "*2\r\n$4611686018427387904\r\n",
		"length overflows":      "$99999999999999999999999\r\n",
		"4 GiB and three bytes": "*2\r\n$4294967296\r\nabc",
		"a billion elements":    "*1000000000\r\n",
		"nested for ever":       strings.Repeat("*1\r\n", 1<<20),
		"no CRLF":               "*2\r\n$6\r\nsecretXX$6\r\nsecretXX",
		"no type":               "secret\r\n",
		"a line without CR":     "+secret\n",
		"ends in the middle":    "*2\r\n$6\r\nsec",
	} {
		fake(t, nil, func(t *testing.T, s *fakes.Redis, rdb *redis.Client) {
			tier := bind(t, rdb)
			warm(t, tier)
			dials := s.Dials()
			bad := reply
			s.Handle("HMGET", func(ss *fakes.RedisSession, _ [][]byte) {
				ss.Out = append(ss.Out, bad...)
				ss.Hangup()
			})
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, err := get(kit.Within(t, time.Second), tier, "k")
			runtime.ReadMemStats(&after)
			if err == nil || strings.Contains(err.Error(), "secret") {
				t.Errorf("%s: error %v", name, err)
			}
			if took, most := after.TotalAlloc-before.TotalAlloc, uint64(10*len(reply)+1<<20); took > most {
				t.Errorf("%s: %d bytes were allocated; want at most %d", name, took, most)
			}
			bad = "*2\r\n$5\r\nvalue\r\n$37\r\n99999999999999 99999999999999 7 e.0.0\r\n"
			mustGet(t, tier)
			if n := s.Dials() - dials; n != 1 {
				t.Errorf("%s: %d connections were opened; want 1", name, n)
			}
		})
	}
}

func TestReplyTooManyCostsItsConnection(t *testing.T) {
	fake(t, nil, func(t *testing.T, s *fakes.Redis, rdb *redis.Client) {
		tier := bind(t, rdb)
		warm(t, tier)
		dials := s.Dials()
		s.Handle("HMGET", func(ss *fakes.RedisSession, _ [][]byte) {
			ss.Out = append(ss.Out, "*2\r\n$5\r\nvalue\r\n$37\r\n99999999999999 99999999999999 7 e.0.0\r\n*2\r\n$5\r\nother\r\n"...)
		})
		mustGet(t, tier)
		mustGet(t, tier)
		if s.Dials() == dials {
			t.Error("the connection was used again")
		}
	})
}

func TestRefusalIsAnErrorOfGoRedis(t *testing.T) {
	fake(t, nil, func(t *testing.T, s *fakes.Redis, rdb *redis.Client) {
		tier := bind(t, rdb)
		warm(t, tier)
		dials := s.Dials()
		for _, rest := range []string{", with args beginning with: 'secret' ", strings.Repeat("x", 2000) + "secret"} {
			s.Handle("EVALSHA", func(ss *fakes.RedisSession, _ [][]byte) { ss.Error("OOM command not allowed" + rest) })
			err := drop(t.Context(), tier, "k")
			var refused redis.Error
			if !errors.As(err, &refused) || !redis.HasErrorPrefix(err, "OOM ") || !strings.HasPrefix(err.Error(), "goredis: OOM") {
				t.Errorf("error %v", err)
			}
			if strings.Contains(err.Error(), "secret") {
				t.Errorf("the error repeats too much: %v", err)
			}
		}
		if n := s.Dials() - dials; n != 0 {
			t.Errorf("%d connections were opened: an answer costs none", n)
		}
	})
}

func TestReplicaLosesItsConnections(t *testing.T) {
	fake(t, nil, func(t *testing.T, s *fakes.Redis, rdb *redis.Client) {
		tier := bind(t, rdb)
		if err := drop(t.Context(), tier, "k"); err != nil {
			t.Fatal(err)
		}
		dials := s.Dials()
		s.Handle("EVALSHA", func(ss *fakes.RedisSession, _ [][]byte) {
			ss.Error("READONLY You can't write against a read only replica.")
		})
		for range 2 {
			if err := drop(t.Context(), tier, "k"); err == nil || !strings.Contains(err.Error(), "READONLY") {
				t.Errorf("error %v", err)
			}
		}
		if n := s.Dials() - dials; n != 1 {
			t.Errorf("%d connections were opened for the second of two refusals; want 1", n)
		}
	})
}

func TestRefusalOfADemotedServerIsARefusal(t *testing.T) {
	for _, text := range []string{
		"READONLY You can't write against a read only replica.",
		"NOREPLICAS Not enough good replicas to write.",
	} {
		fake(t, nil, func(t *testing.T, s *fakes.Redis, rdb *redis.Client) {
			tier := bind(t, rdb)
			if err := drop(t.Context(), tier, "k"); err != nil {
				t.Fatal(err)
			}
			s.Handle("EVALSHA", func(ss *fakes.RedisSession, _ [][]byte) { ss.Error(text) })
			for _, keys := range [][]string{{"k"}, {"k", "l"}} { // a command, and a pipeline
				err := drop(t.Context(), tier, keys...)
				var refused redis.Error
				if !errors.As(err, &refused) || !errors.Is(err, remote.ErrRefused) {
					t.Errorf("%v; want an error of go-redis and ErrRefused", err)
				}
				if moved := strings.HasPrefix(text, "READONLY"); errors.Is(err, remote.ErrMoved) != moved {
					t.Errorf("%v: ErrMoved is %v; want %v", err, !moved, moved)
				}
			}
		})
	}
}

func TestCredentialsAreInNoError(t *testing.T) {
	fake(t, func(s *fakes.Redis, o *redis.Options) {
		s.Username, s.Password = "user", "right"
		o.Username, o.Password = "user", "hunter2"
	}, func(t *testing.T, _ *fakes.Redis, rdb *redis.Client) {
		_, err := get(t.Context(), bind(t, rdb), "k")
		if err == nil || strings.Contains(err.Error(), "hunter2") || !strings.Contains(err.Error(), "WRONGPASS") {
			t.Errorf("error %v", err)
		}
	})
}

func TestHostileGreetingIsAnErrorWithoutItsBytes(t *testing.T) {
	for _, reply := range []string{"+secret\r\n", "@secret\r\n", "$3\r\nsecret", "%secret\r\n", "%1\r\n+secret\r\n@secret\r\n", "$4611686018427387904\r\n"} {
		fake(t, nil, func(t *testing.T, s *fakes.Redis, rdb *redis.Client) {
			s.Handle("HELLO", func(ss *fakes.RedisSession, _ [][]byte) {
				ss.Out = append(ss.Out, reply...)
				ss.Hangup()
			})
			_, err := get(kit.Within(t, time.Second), bind(t, rdb), "k")
			if err == nil || strings.Contains(err.Error(), "secret") {
				t.Errorf("%q: error %v", reply, err)
			}
		})
	}
}

func TestValuesOfManyKeysShareNoMemory(t *testing.T) {
	fake(t, nil, func(t *testing.T, _ *fakes.Redis, rdb *redis.Client) {
		tier := bind(t, rdb)
		held, err := tier.Get(t.Context(), []string{"a", "b"})
		if err != nil {
			t.Fatal(err)
		}
		_ = append(held[0].Data, "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"...)
		if string(held[0].Data) != "value" || string(held[1].Data) != "value" {
			t.Errorf("%q, %q", held[0].Data, held[1].Data)
		}
	})
}

// TestNewConnectionsAreCounted checks that the namespace state is read again after each
// new connection, because it may lead to the successor of the server.
func TestNewConnectionsAreCounted(t *testing.T) {
	fake(t, nil, func(t *testing.T, s *fakes.Redis, rdb *redis.Client) {
		tier := bind(t, rdb)
		states := 0
		s.Script(layout.Namespace(), func(ss *fakes.RedisSession, args [][]byte) {
			states++
			namespaceState(ss, args)
		})
		warm(t, tier)
		states = 0
		mustGet(t, tier)
		if states != 0 {
			t.Fatalf("%d requests for the state on an old connection", states)
		}
		s.Drop()
		time.Sleep(time.Millisecond)
		mustGet(t, tier)
		if states == 0 {
			t.Error("no request for the state on a new connection")
		}
	})
}

func TestClientWithUnseenConnectionsIsReported(t *testing.T) {
	for _, derived := range []bool{false, true} {
		fake(t, nil, func(t *testing.T, s *fakes.Redis, rdb *redis.Client) {
			for _, name := range []string{"INFO", "CONFIG"} {
				s.Handle(name, func(ss *fakes.RedisSession, _ [][]byte) { ss.Bulk("") })
			}
			s.Script("return 1", func(ss *fakes.RedisSession, _ [][]byte) { ss.Int(1) })
			if derived {
				rdb = rdb.WithTimeout(time.Second)
			}
			warnings, err := bind(t, rdb).Probe(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if got := strings.Contains(strings.Join(warnings, "\n"), "WithTimeout"); got != derived {
				t.Errorf("made by WithTimeout: %v; warnings %q", derived, warnings)
			}
		})
	}
}

func TestOtherClientsAreRefused(t *testing.T) {
	cluster := redis.NewClusterClient(&redis.ClusterOptions{})
	defer cluster.Close()
	ring := redis.NewRing(&redis.RingOptions{})
	defer ring.Close()
	for _, rdb := range []redis.UniversalClient{nil, (*redis.Client)(nil), cluster, ring} {
		if _, err := goredis.NewTier(rdb); err == nil || !strings.Contains(err.Error(), "*redis.Client") {
			t.Errorf("a tier of a %T: %v", rdb, err)
		}
		if _, err := goredis.NewBus(rdb); err == nil {
			t.Errorf("a bus of a %T: no error", rdb)
		}
	}
}

func TestEndedContextSendsNothing(t *testing.T) {
	fake(t, nil, func(t *testing.T, s *fakes.Redis, rdb *redis.Client) {
		tier := bind(t, rdb)
		asked := counts{new(int)}
		rdb.AddHook(asked)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := get(ctx, tier, "k"); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		if _, err := tier.Put(ctx, []remote.Put{{Key: "k", Left: 1, Lease: remote.Lease{Token: 7}}}); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		for range 20 {
			if err := drop(ctx, tier, "k", "l"); !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		}
		if n := s.Dials(); n != 0 || *asked.n != 0 {
			t.Errorf("%d connections, go-redis was asked %d times; want 0, 0", n, *asked.n)
		}
	})
}

// counts is a hook that counts the commands of go-redis.
type counts struct{ n *int }

func (counts) DialHook(next redis.DialHook) redis.DialHook { return next }

func (c counts) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error { *c.n++; return next(ctx, cmd) }
}

func (c counts) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error { *c.n++; return next(ctx, cmds) }
}

// TestServerWithoutAnEngineForScriptsIsUsedByTransactions has a server that answers the digest of a
// script as if it did not know the script. Only to the text of the script it answers that it runs
// none.
func TestServerWithoutAnEngineForScriptsIsUsedByTransactions(t *testing.T) {
	fake(t, nil, func(t *testing.T, s *fakes.Redis, rdb *redis.Client) {
		s.Handle("EVALSHA", func(ss *fakes.RedisSession, _ [][]byte) {
			ss.Error("NOSCRIPT No matching script. Please use EVAL.")
		})
		s.Handle("EVAL", func(ss *fakes.RedisSession, _ [][]byte) {
			ss.Error("ERR Could not find scripting engine 'lua'")
		})
		s.Handle("HGET", func(ss *fakes.RedisSession, _ [][]byte) { ss.Null() })
		s.Handle("TIME", func(ss *fakes.RedisSession, _ [][]byte) {
			ss.Out = resp.AppendArray(ss.Out, 2)
			ss.Bulk("1")
			ss.Bulk("0")
		})
		tier := bind(t, rdb)
		for range 3 {
			if err := drop(t.Context(), tier, "k", "l"); err != nil {
				t.Fatal(err)
			}
		}
		if tried, done := s.Calls("EVAL"), s.Calls("EXEC"); tried != 1 || done != 7 {
			t.Errorf("%d scripts were sent, %d transactions; want 1, 7: one reads the namespace state, because a connection was opened", tried, done)
		}
	})
}

func TestServerOfAClusterIsNamedAsTheCause(t *testing.T) {
	fake(t, nil, func(t *testing.T, s *fakes.Redis, rdb *redis.Client) {
		for _, name := range []string{"EVAL", "EVALSHA"} {
			s.Handle(name, func(ss *fakes.RedisSession, _ [][]byte) { ss.Error("MOVED 3999 127.0.0.1:6381") })
		}
		err := drop(t.Context(), bind(t, rdb), "k")
		var answer redis.Error
		if !errors.As(err, &answer) || !strings.Contains(err.Error(), "part of a Redis Cluster") {
			t.Errorf("%v: does not name the cause", err)
		}
	})
}
