package redis_test

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/strata-cache/strata/redis"
)

func TestParseURL(t *testing.T) {
	tests := []struct {
		name, url string
		want      redis.Options
		tls       string
		err       string
	}{
		{name: "bare", url: "redis://", want: redis.Options{Network: "tcp", Addr: "localhost:6379"}},
		{name: "host", url: "redis://cache", want: redis.Options{Network: "tcp", Addr: "cache:6379"}},
		{name: "host and port", url: "redis://cache:7000", want: redis.Options{Network: "tcp", Addr: "cache:7000"}},
		{name: "IPv6", url: "redis://[::1]:7000", want: redis.Options{Network: "tcp", Addr: "[::1]:7000"}},
		{name: "IPv6 without port", url: "redis://[::1]", want: redis.Options{Network: "tcp", Addr: "[::1]:6379"}},
		{name: "password", url: "redis://:pw@h", want: redis.Options{Network: "tcp", Addr: "h:6379", Password: "pw"}},
		{name: "user", url: "redis://me:p%40%2Fw@h/3", want: redis.Options{Network: "tcp", Addr: "h:6379", Username: "me", Password: "p@/w", DB: 3}},
		{name: "db by parameter", url: "redis://h?db=4", want: redis.Options{Network: "tcp", Addr: "h:6379", DB: 4}},
		{name: "parameters", url: "redis://h?protocol=2&client_name=me&timeout=1500ms&dial_timeout=2&pool_size=5&max_idle_conns=4&conn_max_idle_time=1m&conn_max_lifetime=1h", want: redis.Options{
			Network: "tcp", Addr: "h:6379", Protocol: 2, ClientName: "me", Timeout: 1500 * time.Millisecond, DialTimeout: 2 * time.Second,
			MaxConns: 5, MaxIdle: 4, IdleTimeout: time.Minute, MaxLifetime: time.Hour,
		}},
		{name: "empty path", url: "redis://h/", want: redis.Options{Network: "tcp", Addr: "h:6379"}},
		{name: "tls", url: "rediss://h:1", want: redis.Options{Network: "tcp", Addr: "h:1"}, tls: "h"},
		{name: "unix", url: "unix:///run/r.sock", want: redis.Options{Network: "unix", Addr: "/run/r.sock"}},
		{name: "unix with all", url: "unix://me:pw@/run/r.sock?db=2", want: redis.Options{Network: "unix", Addr: "/run/r.sock", Username: "me", Password: "pw", DB: 2}},

		{name: "cluster", url: "redis://me:p%2Cw@a:1,b:2,[::1]/?cluster=true", want: redis.Options{Network: "tcp", Addr: "a:1", Username: "me", Password: "p,w", Cluster: true, Addrs: []string{"b:2", "[::1]:6379"}}},
		{name: "cluster of one", url: "redis://a?cluster=true", want: redis.Options{Network: "tcp", Addr: "a:6379", Cluster: true}},
		{name: "cluster with TLS", url: "rediss://a,b?cluster=true", want: redis.Options{Network: "tcp", Addr: "a:6379", Cluster: true, Addrs: []string{"b:6379"}}, tls: " "},
		{name: "no cluster", url: "redis://a?cluster=false", want: redis.Options{Network: "tcp", Addr: "a:6379"}},
		{name: "commas in the path", url: "redis://a/?cluster=true,secret", err: "bad value of cluster"},

		{name: "sentinels", url: "redis://me:pw@a:1,b,[::1]/2?sentinel=mymaster&sentinel_username=su&sentinel_password=sp", want: redis.Options{
			Network: "tcp", Addr: "a:1", Addrs: []string{"b:26379", "[::1]:26379"}, Username: "me", Password: "pw", DB: 2,
			Sentinel: redis.Sentinel{Primary: "mymaster", Username: "su", Password: "sp"},
		}},
		{name: "sentinels with TLS", url: "rediss://a?sentinel=m", want: redis.Options{Network: "tcp", Addr: "a:26379", Sentinel: redis.Sentinel{Primary: "m"}}, tls: " "},
		{name: "one sentinel", url: "redis://a?sentinel=mymaster", want: redis.Options{Network: "tcp", Addr: "a:26379", Sentinel: redis.Sentinel{Primary: "mymaster"}}},
		{name: "sentinel without a name", url: "redis://a?sentinel=", err: "bad value of sentinel"},
		{name: "sentinel password empty", url: "redis://a?sentinel=m&sentinel_password=", err: "bad value of sentinel_password"},

		{name: "hosts without cluster", url: "redis://a,secret", err: "without cluster"},
		{name: "empty host in a list", url: "redis://a,,b?cluster=true", err: "list of hosts"},
		{name: "bad port in a list", url: "redis://a,secret:0?cluster=true", err: "port"},
		{name: "bad host in a list", url: "redis://a,secret:x?cluster=true", err: "list of hosts"},
		{name: "cluster maybe", url: "redis://h?cluster=secret", err: "bad value of cluster"},
		{name: "hosts of a socket", url: "unix:///a,b?db=1", want: redis.Options{Network: "unix", Addr: "/a,b", DB: 1}},
		{name: "no scheme", url: "localhost:6379", err: "scheme"},
		{name: "other scheme", url: "http://secret:secret@h", err: "scheme"},
		{name: "empty", url: "", err: "scheme"},
		{name: "no slashes", url: "redis:secret:6379", err: "cannot be parsed"},
		{name: "port out of range", url: "redis://u:secret@h:65536", err: "port"},
		{name: "port zero", url: "redis://h:0", err: "port"},
		{name: "bad port", url: "redis://u:secret@h:port", err: "cannot be parsed"},
		{name: "slash in password", url: "redis://u:secret/x@h", err: "cannot be parsed"},
		{name: "bad escape", url: "redis://u:secret%zz@h", err: "cannot be parsed"},
		{name: "control character", url: "redis://u:secret\n@h", err: "cannot be parsed"},
		{name: "user alone", url: "redis://secret@h", err: "user without password"},
		{name: "user with an empty password", url: "redis://u:@h", want: redis.Options{Network: "tcp", Addr: "h:6379", Username: "u"}},
		{name: "db is text", url: "redis://:secret@h/zero", err: "bad value of db"},
		{name: "db is negative", url: "redis://h/-1", err: "bad value of db"},
		{name: "db is empty", url: "redis://h?db=", err: "bad value of db"},
		{name: "db overflows", url: "redis://h/99999999999999999999", err: "bad value of db"},
		{name: "db twice", url: "redis://h/1?db=2", err: "twice"},
		{name: "db thrice", url: "redis://h?db=1&db=2", err: "twice"},
		{name: "other parameter", url: "redis://h?colour=secret", err: "unknown parameter colour"},
		{name: "other parameter, of strange characters", url: "redis://h?sec%0aret=1", err: "unknown parameter"},
		{name: "part of a password", url: "redis://h?secret@word=1", err: "unknown parameter"},
		{name: "very long parameter", url: "redis://h?" + strings.Repeat("secret", 10), err: "unknown parameter"},
		{name: "protocol", url: "redis://h?protocol=4", err: "bad value of protocol"},
		{name: "timeout without unit and number", url: "redis://h?timeout=soon", err: "bad value of timeout"},
		{name: "negative timeout", url: "redis://h?dial_timeout=-1", err: "bad value of dial_timeout"},
		{name: "pool of none", url: "redis://h?pool_size=0", err: "bad value of pool_size"},
		{name: "timeout twice", url: "redis://h?timeout=1s&timeout=2s", err: "timeout given twice"},
		{name: "bad query", url: "redis://h?db=%zz", err: "query"},
		{name: "fragment", url: "redis://h#x", err: "query"},
		{name: "relative socket", url: "unix://run/r.sock", err: "absolute"},
		{name: "no socket", url: "unix://", err: "absolute"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			got, err := redis.ParseURL(tc.url)
			if tc.err != "" {
				if err == nil || !strings.Contains(err.Error(), tc.err) || !strings.HasPrefix(err.Error(), "redis: ") ||
					strings.Contains(err.Error(), "secret") || strings.Contains(err.Error(), "\n") {
					t.Fatalf("error %v, want one line about %q", err, tc.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			name := ""
			if got.TLS != nil {
				name = cmp.Or(got.TLS.ServerName, " ")
			}
			if name != tc.tls {
				t.Errorf("TLS for %q, want %q", name, tc.tls)
			}
			if (got.TLS != nil && got.Sentinel.Primary != "") != (got.Sentinel.TLS != nil) {
				t.Error("TLS to all, or to none")
			}
			rest := got
			if rest.TLS, rest.Sentinel.TLS = nil, nil; !reflect.DeepEqual(rest, tc.want) {
				t.Errorf("got %+v, want %+v", got, tc.want)
			}
			if _, err := redis.New(got); err != nil {
				t.Error(err)
			}
		})
	}
}

func FuzzParseURL(f *testing.F) {
	for _, s := range []string{"redis://u:p@h:1/2?db=3", "unix:///a", "rediss://[::1]", "redis://:%zz@", "redis://u:p@a:1,b:2/?cluster=true"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		o, err := redis.ParseURL(s)
		if err == nil && (o.Addr == "" || o.DB < 0) {
			t.Fatalf("%q became %v", s, o)
		}
	})
}

func TestNewNamesEveryBadField(t *testing.T) {
	_, err := redis.New(redis.Options{
		Network: "udp", Username: "u", DB: -1, ClientName: "a b", DialTimeout: -1, Timeout: -1,
		MaxConns: -1, MaxIdle: -1, IdleTimeout: -1, MaxLifetime: -1, MaxValue: -1, MaxReply: -1,
		Protocol: 1, Credentials: func(context.Context) (string, string, error) { return "", "", nil },
	})
	if err == nil {
		t.Fatal("accepted")
	}
	for _, field := range []string{
		"Network", "DB", "ClientName", "DialTimeout", "Timeout", "MaxConns", "MaxIdle",
		"IdleTimeout", "MaxLifetime", "MaxValue", "MaxReply", "Protocol", "Credentials",
	} {
		if !strings.Contains(err.Error(), "Options."+field+":") {
			t.Errorf("%s is not named in: %v", field, err)
		}
	}
	for _, o := range []redis.Options{
		{Addr: "h"},
		{Addr: "h:"},
		{Network: "unix"},
		{MaxConns: 2, MaxIdle: 3},
		{Addrs: []string{"h:1"}},
		{Sentinel: redis.Sentinel{Primary: "m"}, Cluster: true},
		{Sentinel: redis.Sentinel{Primary: "m"}, Network: "unix", Addr: "/s"},
		{Sentinel: redis.Sentinel{Primary: "a b"}},
		{Sentinel: redis.Sentinel{Password: "p"}},
		{Sentinel: redis.Sentinel{Primary: "m"}, Addrs: []string{"h"}},
	} {
		if _, err := redis.New(o); err == nil {
			t.Errorf("%v accepted", o)
		}
	}
	c, err := redis.New(redis.Options{})
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
}

func TestOptionsPrintWithoutCredentials(t *testing.T) {
	o := redis.Options{Addr: "h:1", Username: "secretuser", Password: "secretword", TLS: &tls.Config{}, Timeout: time.Second}
	o.Sentinel = redis.Sentinel{Primary: "main", Username: "secretwatcher", Password: "secretword"}
	if text := fmt.Sprintf("%v %+v %#v %s", o.Sentinel, o.Sentinel, &o.Sentinel, o.Sentinel); strings.Contains(text, "secret") || !strings.Contains(text, "main") {
		t.Errorf("printed as %s", text)
	}
	var log bytes.Buffer
	slog.New(slog.NewJSONHandler(&log, nil)).Info("options", "o", o)
	slog.New(slog.NewTextHandler(&log, nil)).Info("options", "o", &o)
	for _, text := range []string{fmt.Sprint(o), fmt.Sprintf("%v %+v %#v %s", o, o, o, o), fmt.Sprintf("%+v %#v", &o, &o), log.String()} {
		if strings.Contains(text, "secret") || !strings.Contains(text, "h:1") {
			t.Errorf("printed as %s", text)
		}
	}
}
