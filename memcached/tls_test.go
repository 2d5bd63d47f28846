package memcached_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"sync"
	"testing"

	"github.com/strata-cache/strata/internal/memcached/meta"
	"github.com/strata-cache/strata/internal/testing/fakes"
	"github.com/strata-cache/strata/internal/testing/netsim"
	"github.com/strata-cache/strata/memcached"
)

// behindTLS changes a client to reach its server by TLS, with certificates that it
// checks if roots is not nil.
func behindTLS(t *testing.T, wg *sync.WaitGroup, roots *x509.CertPool) func(*fakes.Memcached, *memcached.Options) {
	t.Helper()
	config, err := fakes.TLS()
	if err != nil {
		t.Fatal(err)
	}
	return func(s *fakes.Memcached, o *memcached.Options) {
		o.TLS = &tls.Config{InsecureSkipVerify: roots == nil, RootCAs: roots, ServerName: "cache.example"}
		o.DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
			behind, err := s.Dial(ctx, network, addr)
			if err != nil {
				return nil, err
			}
			client, server := netsim.Pair(4 << 10)
			tc := tls.Server(server, config)
			pass := func(dst, src net.Conn) {
				_, _ = io.Copy(dst, src)
				server.Close()
				behind.Close()
			}
			wg.Go(func() { pass(tc, behind) })
			wg.Go(func() { pass(behind, tc) })
			return client, nil
		}
	}
}

func TestEveryCallGoesOverTLS(t *testing.T) {
	for _, name := range []string{"1.6.18", "1.6.40", "old"} {
		g := generations[name]
		t.Run(name, func(t *testing.T) {
			var wg sync.WaitGroup
			change := behindTLS(t, &wg, nil)
			fake(t, func(s *fakes.Memcached, o *memcached.Options) {
				s.Generation = g
				change(s, o)
			}, func(t *testing.T, s *fakes.Memcached, c *memcached.Client) {
				keep(t, s, "own")
				for name, call := range calls {
					if v, err := call(t.Context(), c); v != "own" || err != nil {
						t.Errorf("%s: %q, %v", name, v, err)
					}
				}
				c.Close()
				s.Close()
				wg.Wait()
			})
		})
	}
}

func TestServerWithTheWrongCertificateGetsNoCommand(t *testing.T) {
	var wg sync.WaitGroup
	fake(t, behindTLS(t, &wg, x509.NewCertPool()), func(t *testing.T, s *fakes.Memcached, c *memcached.Client) {
		s.SetGate(func(_ *fakes.MemcachedSession, cmd *meta.Command) bool {
			t.Errorf("the server got %s", cmd.Name)
			return false
		})
		_, err := c.Get(t.Context(), "k")
		var ce *memcached.ConnError
		var unknown *tls.CertificateVerificationError
		if !errors.As(err, &ce) || !errors.As(err, &unknown) {
			t.Errorf("%v", err)
		}
		c.Close()
		s.Close()
		wg.Wait()
	})
}
