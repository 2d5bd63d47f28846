package fakes_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/strata-cache/strata/internal/testing/fakes"
)

// talk sends commands in one write, with words separated by spaces, and returns
// the bytes that arrive within a second.
func talk(t *testing.T, c net.Conn, commands ...string) string {
	t.Helper()
	wire := ""
	for _, cmd := range commands {
		words := strings.Fields(cmd)
		wire += fmt.Sprintf("*%d\r\n", len(words))
		for _, w := range words {
			wire += fmt.Sprintf("$%d\r\n%s\r\n", len(w), w)
		}
	}
	if _, err := c.Write([]byte(wire)); err != nil {
		t.Fatal(err)
	}
	c.SetReadDeadline(time.Now().Add(time.Second))
	got, _ := io.ReadAll(c)
	return strings.ReplaceAll(string(got), "\r\n", "|")
}

func TestModelAnswersLikeRedis(t *testing.T) {
	tests := []struct{ name, commands, want string }{
		{"ping", "PING", "+PONG|"},
		{"missing", "GET k", "$-1|"},
		{"missing in RESP3", "HELLO 3;GET k", "%2|$6|server|$5|redis|$5|proto|:3|_|"},
		{"set and get", "SET k v;GET k;MGET k x", "+OK|$1|v|*2|$1|v|$-1|"},
		{"set if absent", "SET k v NX;SET k w NX;GET k", "+OK|$-1|$1|v|"},
		{"lives", "SET k v PX 100;PTTL k;SET j v;PTTL j;PTTL none", "+OK|:100|+OK|:-1|:-2|"},
		{"delete", "SET k v;DEL k j;GET k", "+OK|:1|$-1|"},
		{"count", "INCR n;INCR n;SET k x;INCR k", ":1|:2|+OK|-ERR value is not an integer or out of range|"},
		{"databases", "SET k v;SELECT 1;GET k;SELECT 99", "+OK|+OK|$-1|-ERR DB index is out of range|"},
		{"names", "CLIENT SETNAME me;CLIENT GETNAME", "+OK|$2|me|"},
		{"subscribe", "SUBSCRIBE a b;PING", "*3|$9|subscribe|$1|a|:1|*3|$9|subscribe|$1|b|:2|*2|$4|pong|$0||"},
		{"script", "EVALSHA x 0", "-NOSCRIPT No matching script. Please use EVAL.|"},
		{"transaction", "MULTI;SET k v;INCR k;EXEC", "+OK|+QUEUED|+QUEUED|*2|+OK|-ERR value is not an integer or out of range|"},
		{"aborted transaction", "MULTI;NOSUCH;SET k v;EXEC;GET k", "+OK|-ERR unknown command 'NOSUCH', with args beginning with:|+QUEUED|-EXECABORT Transaction discarded because of previous errors.|$-1|"},
		{"discarded transaction", "MULTI;SET k v;DISCARD;GET k;DISCARD", "+OK|+QUEUED|+OK|$-1|-ERR DISCARD without MULTI|"},
		{"no transaction", "EXEC", "-ERR EXEC without MULTI|"},
		{"watched key", "WATCH k j;GET k;MULTI;SET k v;EXEC", "+OK|$-1|+OK|+QUEUED|*1|+OK|"},
		{"watched key changed", "WATCH k;SET k v;MULTI;SET k w;EXEC;GET k", "+OK|+OK|+OK|+QUEUED|$-1|$1|v|"},
		{"unwatched key changed", "WATCH k;SET k v;UNWATCH;MULTI;SET k w;EXEC", "+OK|+OK|+OK|+OK|+QUEUED|*1|+OK|"},
		{"unknown", "NOSUCH a b", "-ERR unknown command 'NOSUCH', with args beginning with: 'a' 'b'|"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := fakes.NewRedis()
				defer s.Close()
				c, err := s.Dial(t.Context(), "", "")
				if err != nil {
					t.Fatal(err)
				}
				if got := talk(t, c, strings.Split(tc.commands, ";")...); got != tc.want {
					t.Errorf("got  %s\nwant %s", got, tc.want)
				}
			})
		})
	}
}

func TestModelForgetsExpiredKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := fakes.NewRedis()
		defer s.Close()
		c, _ := s.Dial(t.Context(), "", "")
		talk(t, c, "SET k v PX 100") // talk takes a second
		if got := talk(t, c, "GET k"); got != "$-1|" {
			t.Error(got)
		}
	})
}

func TestStoppedServerRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := fakes.NewRedis()
		defer s.Close()
		c, _ := s.Dial(t.Context(), "", "")
		s.Stop()
		if _, err := c.Read(make([]byte, 1)); err == nil || err == io.EOF {
			t.Errorf("an open connection: %v", err)
		}
		if _, err := s.Dial(t.Context(), "", ""); !errors.Is(err, fakes.ErrRefused) {
			t.Error(err)
		}
		s.Start()
		if _, err := s.Dial(t.Context(), "", ""); err != nil || s.Dials() != 3 {
			t.Error(err, s.Dials())
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := s.Dial(ctx, "", ""); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
}

func TestModelPublishesToSubscribers(t *testing.T) {
	tests := []struct{ subscribe, publish, want string }{
		{"SUBSCRIBE a", "PUBLISH a x", "*3|$7|message|$1|a|$1|x|:1|"},
		{"SUBSCRIBE a", "SPUBLISH a x", ":0|"},
		{"PSUBSCRIBE a* b", "PUBLISH abc x", "*4|$8|pmessage|$2|a*|$3|abc|$1|x|:1|"},
		{"PSUBSCRIBE a*", "PUBLISH b x", ":0|"},
		{"SSUBSCRIBE a", "SPUBLISH a x", "*3|$8|smessage|$1|a|$1|x|:1|"},
		{"SSUBSCRIBE a", "PUBLISH a x", ":0|"},
	}
	for _, tc := range tests {
		synctest.Test(t, func(t *testing.T) {
			s := fakes.NewRedis()
			defer s.Close()
			c, _ := s.Dial(t.Context(), "", "")
			talk(t, c, tc.subscribe)
			if got := talk(t, c, tc.publish); got != tc.want {
				t.Errorf("%s, %s: got %s, want %s", tc.subscribe, tc.publish, got, tc.want)
			}
		})
	}
}
