package memcached_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/strata-cache/strata/internal/testing/fakes"
	"github.com/strata-cache/strata/memcached"
)

func TestURLsBecomeOptions(t *testing.T) {
	for s, want := range map[string]memcached.Options{
		"memcached://":                      {Servers: []string{"localhost:11211"}},
		"memcached://user:p%40ss@[::1]:22/": {Servers: []string{"[::1]:22"}, Username: "user", Password: "p@ss"},
		"memcached://u:p@a,[::1]:1,b:2?placement=modula": {
			Servers: []string{"a:11211", "[::1]:1", "b:2"}, Username: "u", Password: "p", Fleet: memcached.Fleet{Placement: memcached.Modula},
		},
		"unix:///run/s?pool_size=3&max_idle_conns=2": {Servers: []string{"/run/s"}, MaxConns: 3, MaxIdle: 2},
		"memcached://h?timeout=1500ms&dial_timeout=2&conn_max_idle_time=3s&conn_max_lifetime=4m": {
			Servers: []string{"h:11211"}, Timeout: 1500 * time.Millisecond, DialTimeout: 2 * time.Second, IdleTimeout: 3 * time.Second, MaxLifetime: 4 * time.Minute,
		},
	} {
		if o, err := memcached.ParseURL(s); err != nil || !reflect.DeepEqual(o, want) {
			t.Errorf("%s: %#v, %v", s, o.Servers, err)
		}
	}
	if o, err := memcached.ParseURL("memcacheds://cache.example"); err != nil || o.TLS == nil || o.TLS.ServerName != "" {
		t.Errorf("%v, %v", o, err)
	}
	for _, s := range []string{
		"", "localhost", "redis://h", "memcached:h", "memcached://h/1", "memcached://h:0", "memcached://h:x", "memcached://user@h", "unix://h", "unix://h/p",
		"memcached://h?S3cret=1", "memcached://h?timeout=S3cret", "memcached://h?timeout=1&timeout=2", "memcached://h#S3cret", "memcached://h,", "memcached://a,b:x", "memcached://h?placement=S3cret", "memcached://u:S3cret%zz@h",
	} {
		if o, err := memcached.ParseURL(s); err == nil || strings.Contains(err.Error(), "S3cret") {
			t.Errorf("%s: %v, %v", s, o, err)
		}
	}
}

func FuzzParseURL(f *testing.F) {
	for _, s := range []string{"memcached://u:S3cret@h:1?pool_size=2", "unix:///S3cret", "memcacheds://h?timeout=S3cret"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		o, err := memcached.ParseURL(s)
		if err != nil {
			if strings.Contains(s, "S3cret") && strings.Contains(err.Error(), "S3cret") {
				t.Errorf("%q: the error holds a part of it: %v", s, err)
			}
			return
		}
		if len(o.Servers) == 0 || slices.Contains(o.Servers, "") || (o.Username != "") && o.Password == "" {
			t.Errorf("%q is %+v", s, o.Servers)
		}
	})
}

func TestEveryWrongOptionIsNamed(t *testing.T) {
	_, err := memcached.New(memcached.Options{
		Servers: []string{"a", "b:1"}, Fleet: memcached.Fleet{Placement: 9, Weights: []int{1}, Dead: 9, EjectAfter: -1}, Username: "u", Protocol: 9, Keys: 9, DialTimeout: -1, Timeout: -1, MaxConns: 1, MaxIdle: 2, IdleTimeout: -1, MaxLifetime: -1, MaxValue: -1,
	})
	for _, field := range []string{"Servers: server 1 of 2 is neither", "Fleet.Weights: 1 weights for 2 servers", "Fleet.Placement", "Fleet.Dead", "Fleet.EjectAfter", "Username", "Protocol", "Keys", "DialTimeout", "Timeout", "MaxIdle", "IdleTimeout", "MaxLifetime", "MaxValue"} {
		if err == nil || !strings.Contains(err.Error(), "Options."+field) {
			t.Errorf("%s is not named: %v", field, err)
		}
	}
	for _, o := range []memcached.Options{
		{Username: "a b", Password: "c"}, {Username: "a", Password: "b\r\nflush_all"}, {Keys: memcached.KeysBase64, Protocol: memcached.Classic}, {MaxConns: -1}, {MaxIdle: -1},
	} {
		if c, err := memcached.New(o); err == nil {
			c.Close()
			t.Errorf("%+v was accepted", o)
		}
	}
}

func TestNothingPrintsCredentials(t *testing.T) {
	o := memcached.Options{Username: "S3cret", Password: "S3cret"}
	c, err := memcached.New(o)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	var b bytes.Buffer
	log := slog.New(slog.NewJSONHandler(&b, nil))
	for _, v := range []any{o, &o, c, []memcached.Options{o}, map[string]any{"c": c}, memcached.Options{Servers: []string{"a:1", "u:S3cret@b:1"}}} {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%d", "%x"} {
			fmt.Fprintf(&b, verb+"\n", v)
		}
		log.Info("x", "v", v)
	}
	if strings.Contains(b.String(), "S3cret") || strings.Contains(b.String(), fmt.Sprintf("%x", "S3cret")) {
		t.Errorf("%s", b.String())
	}
}

func TestWrongCredentialsAreAnErrorWithoutThem(t *testing.T) {
	for _, g := range []fakes.Generation{fakes.V1618, fakes.Old} {
		for password, ok := range map[string]bool{"S3cret": true, "S3cret2": false, "": false} {
			change := func(s *fakes.Memcached, o *memcached.Options) {
				s.Generation, s.Password = g, "user S3cret"
				if o.Password = password; password != "" {
					o.Username = "user"
				}
			}
			fake(t, change, func(t *testing.T, s *fakes.Memcached, c *memcached.Client) {
				err := c.Set(t.Context(), memcached.Item{Key: "k"})
				if (err == nil) != ok || err != nil && strings.Contains(err.Error(), "S3cret") {
					t.Errorf("%q: %v", password, err)
				}
			})
		}
	}
}
