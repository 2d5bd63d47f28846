package test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/strata-cache/strata/internal/testing/servers"
)

// TestFleetOfMemcachedIsUpgradedWithoutOldValues rolls a program from the earlier version to
// this one on a fleet of memcached, and on a single one: instances of both run side by side,
// and one begins late. In a fleet they keep values for themselves, but drops reach all.
func TestFleetOfMemcachedIsUpgradedWithoutOldValues(t *testing.T) {
	if testing.Short() {
		t.Skip("builds two programs")
	}
	before, now := versions(t, false)
	for _, n := range []int{1, 3} {
		t.Run(fmt.Sprint(n, " servers"), func(t *testing.T) {
			t.Parallel()
			u := &upgrade{t: t, now: now, single: n == 1}
			for range n {
				u.fleet = append(u.fleet, servers.StartMemcached(t).Addr)
			}
			u.instances = []*process{run(t, before, "", "", u.fleet...), run(t, now, "", "", u.fleet...)}
			u.roll()
		})
	}
}

// upgrade is a fleet with an instance of an earlier version and one of this one.
type upgrade struct {
	t         *testing.T
	now       string // the program
	fleet     []string
	single    bool
	instances []*process
	values    int
}

func (u *upgrade) roll() {
	for range 2 { // the first counts of an earlier version drop everything once
		for i := range 12 {
			for _, p := range u.instances {
				p.do(fmt.Sprint("set warm", i, " v t")) // an earlier version knows no tag at first
				p.do(fmt.Sprint("get warm", i))
			}
		}
		<-time.After(notice)
	}
	for by, one := range u.instances {
		other := u.instances[1-by]
		drops := map[string]bool{ // whether other instances notice at once
			"invalidate": true, "invalidatetags t": true, "invalidateall": false, "expireall": false,
		}
		for line, atOnce := range drops {
			for _, stored := range u.instances {
				u.drops(one, stored, other, line, atOnce)
			}
		}
	}
	for i, one := range u.instances { // the last write wins
		for k := range 12 {
			key := fmt.Sprintf("last%d-%d", i, k)
			one.wants("set "+key+" older", "<nil>")
			u.instances[1-i].wants("set "+key+" newer", "<nil>")
			for _, reader := range append(u.instances, run(u.t, u.now, "", "", u.fleet...))[:2+k%2] {
				if v := reader.do("get " + key); v != "newer <nil>" && (u.single || v != "loaded <nil>") {
					u.t.Errorf("instance %d has set %s, the other one has set it later: %s", i, key, v)
				}
			}
		}
	}
	for _, p := range u.instances {
		if s := p.do("stats"); !strings.HasPrefix(s, "0 0 ") {
			u.t.Errorf("foreign values, errors: %s", s)
		}
	}
}

// notice is how long other instances may take without a bus.
const notice = 1100 * time.Millisecond

// drops has one instance drop values that another one, or itself, has stored.
func (u *upgrade) drops(one, stored, other *process, line string, atOnce bool) {
	u.values++
	<-time.After(notice) // the clock of tags
	var keys []string
	for i := range 12 {
		keys = append(keys, fmt.Sprintf("k%d-%d", u.values, i))
	}
	value := fmt.Sprint("old", u.values)
	for _, key := range keys {
		stored.wants("set "+key+" "+value+" t", "<nil>")
		stored.wants("get "+key, value+" <nil>")
	}
	for i := range 2 * len(keys) { // in a fleet, reads of the other version would replace the values
		if p := []*process{one, other}[i%2]; u.single {
			p.wants("get "+keys[i/2], value+" <nil>")
		}
	}
	if line == "invalidate" {
		for _, key := range keys {
			one.wants("invalidate "+key, "<nil>")
		}
	} else {
		one.wants(line, "<nil>")
	}
	if !atOnce {
		<-time.After(notice)
	}
	readers := []*process{one, other}
	if !atOnce {
		readers = append(readers, run(u.t, u.now, "", "", u.fleet...))
	}
	for i, key := range keys { // each reader has its own, since a load replaces the value
		p := readers[i%len(readers)]
		if v := p.do("get " + key); v != "loaded <nil>" {
			u.t.Errorf("%s: reader %d has %s", line, i%len(readers), v)
		}
	}
}

// TestLargeValuesOfMemcachedAreUpgradedWithoutOldValues has both versions side by side with values
// that are items of their own in this one. Each may load such a value of the other again, and none
// gets an older one.
func TestLargeValuesOfMemcachedAreUpgradedWithoutOldValues(t *testing.T) {
	if testing.Short() {
		t.Skip("builds two programs")
	}
	before, now := versions(t, false)
	fleet := []string{servers.StartMemcached(t).Addr}
	both := []*process{run(t, before, "", "", fleet...), run(t, now, "", "", fleet...)}
	large := func(what string, n int) string { return what + strings.Repeat("v", n) }
	for i, one := range both {
		other := both[1-i]
		for k := range 12 {
			key := fmt.Sprintf("large%d-%d", i, k)
			newer := large("newer", 40_000*(k%2))
			one.wants("set "+key+" "+large("older", 40_000), "<nil>")
			one.wants("get "+key, large("older", 40_000)+" <nil>")
			other.wants("set "+key+" "+newer, "<nil>")
			for _, reader := range append(both, run(t, now, "", "", fleet...)) {
				if v := reader.do("get " + key); v != newer+" <nil>" && v != "loaded <nil>" {
					t.Errorf("instance %d has set %s, the other one has set it later: %.20s", i, key, v)
				}
			}
			one.wants("set "+key+" "+large("last", 40_000), "<nil>")
			other.wants("invalidate "+key, "<nil>")
			for _, reader := range both {
				reader.wants("get "+key, "loaded <nil>")
			}
		}
	}
}
