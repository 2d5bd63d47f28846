package tier_test

import (
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/strata-cache/strata/internal/redis/tier"
	"github.com/strata-cache/strata/remote"
)

// failing returns a tier on three servers, one of which hangs up at each command about keys,
// with or without scripts. A key is served by the server of its last digit, modulo 3. The
// server thought has the key "moved", as far as is known.
func failing(down, thought int, scripts bool) *tier.Tier {
	c := newNodes(3, func(at int, command string) string {
		switch name, _, _ := strings.Cut(command, " "); {
		case at == down:
			return ""
		case strings.Contains(command, "moved"):
			return "-MOVED " + strconv.Itoa(down) + "\r\n"
		case strings.HasPrefix(name, "EVAL") && !scripts:
			return "-NOPERM this user has no permissions to run the 'evalsha' command\r\n"
		case name == "HMGET":
			return value("run" + strconv.Itoa(at))
		case name == "EXEC":
			return "*1\r\n+OK\r\n"
		}
		return ok
	})
	c.thought = func(key string) int {
		if i, err := strconv.Atoi(key[len(key)-1:]); err == nil {
			return i % 3
		}
		if strings.HasSuffix(key, "moved") {
			return thought
		}
		return 0
	}
	return tier.NewOnCluster(c, nil).Bind(remote.Space{Name: "n", Schema: 1})
}

// partly checks that err is about the keys of the server that is down, and about no others.
func partly(t *testing.T, what string, err error, keys []string, down int) {
	t.Helper()
	some, ok := err.(remote.KeyErrors) //nolint:errorlint // wrapped it is the error of all keys
	if !ok || len(some) != len(keys) {
		t.Fatalf("%s: %v; want KeyErrors", what, err)
	}
	for i, k := range keys {
		dead := k == "moved" || int(k[0]-'0')%3 == down
		if dead != (some[i] != nil) || dead && !errors.Is(some[i], errEnd) {
			t.Errorf("%s: key %s: %v; want an error: %t", what, k, some[i], dead)
		}
	}
}

// TestBatchFailsForTheKeysOfTheDeadServerOnly reads, stores and drops keys of three servers,
// one of which is dead. The slot of one key has moved to it since the topology was read.
func TestBatchFailsForTheKeysOfTheDeadServerOnly(t *testing.T) {
	keys := []string{"0", "1", "2", "moved", "3", "4", "5"}
	for down := range 3 {
		tr := failing(down, (down+1)%3, true)
		what := "down " + strconv.Itoa(down) + ", "
		held, err := tr.Get(t.Context(), keys)
		partly(t, what+"Get", err, keys, down)
		for i, k := range keys {
			if living := k != "moved" && int(k[0]-'0')%3 != down; living != (string(held[i].Data) == "v run"+strconv.Itoa(int(k[0]-'0')%3)) {
				t.Errorf("%skey %s holds %q", what, k, held[i].Data)
			}
		}
		puts := make([]remote.Put, len(keys))
		drops := make([]remote.Drop, len(keys))
		for i, k := range keys {
			puts[i] = remote.Put{Key: k, Left: time.Minute, Lease: remote.Lease{Token: 7}}
			drops[i] = remote.Drop{Key: k, Token: time.Minute}
		}
		refused, err := tr.Put(t.Context(), puts)
		partly(t, what+"Put", err, keys, down)
		if len(refused) != 0 {
			t.Errorf("%sPut has refused %v: these keys have failed", what, refused)
		}
		leases, err := tr.Drop(t.Context(), drops)
		partly(t, what+"Drop", err, keys, down)
		for i, l := range leases {
			if (l.Token == 0) != (remote.ErrorOf(err, i) != nil) {
				t.Errorf("%skey %s: lease %+v, error %v", what, keys[i], l, remote.ErrorOf(err, i))
			}
		}
		dead := []string{strconv.Itoa(down), strconv.Itoa(down + 3)}
		if _, err := tr.Get(t.Context(), dead); !errors.Is(err, errEnd) || errors.As(err, new(remote.KeyErrors)) {
			t.Errorf("%sGet of its keys alone: %v; want one error", what, err)
		}
	}
}

// TestBatchWithoutScriptsFailsForTheKeysOfTheDeadServerOnly drops keys one by one.
func TestBatchWithoutScriptsFailsForTheKeysOfTheDeadServerOnly(t *testing.T) {
	keys := []string{"0", "1", "2", "3", "4", "5"}
	drops := make([]remote.Drop, len(keys))
	for i, k := range keys {
		drops[i] = remote.Drop{Key: k}
	}
	for down := range 3 {
		_, err := failing(down, 0, false).Drop(t.Context(), drops)
		partly(t, "down "+strconv.Itoa(down)+", Drop", err, keys, down)
	}
}
