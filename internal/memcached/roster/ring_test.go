package roster

import (
	"bufio"
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// lines returns the lines of a file of testdata, without comments.
func lines(t *testing.T, name string) []string {
	t.Helper()
	f, err := os.Open("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var all []string
	for in := bufio.NewScanner(f); in.Scan(); {
		if line := in.Text(); line != "" && !strings.HasPrefix(line, "# ") {
			all = append(all, line)
		}
	}
	return all
}

func mustNew(t *testing.T, mode Mode, servers []Server) *Ring {
	t.Helper()
	r, err := NewRing(mode, servers)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestKetamaPlacesKeysAsTheTestsOfLibmemcached compares with the tables that
// libmemcached is tested with.
func TestKetamaPlacesKeysAsTheTestsOfLibmemcached(t *testing.T) {
	var servers []Server
	for i, weight := range []int{600, 300, 200, 350, 1000, 800, 950, 100} {
		servers = append(servers, Server{fmt.Sprintf("10.0.1.%d:11211", i+1), weight})
	}
	weighted, spy := mustNew(t, Ketama, servers), mustNew(t, KetamaSpyLibmemcached, servers)
	rows := lines(t, "libmemcached.txt")
	if len(rows) != 99 {
		t.Fatalf("%d rows", len(rows))
	}
	for _, row := range rows {
		parts := strings.Fields(row)
		key := parts[0]
		if got := strconv.FormatUint(uint64(keyPoint(key)), 10); got != parts[1] {
			t.Errorf("place of %q is %s, not %s", key, got, parts[1])
		}
		if got := servers[weighted.Pick(key)].Address; got != parts[2]+":11211" {
			t.Errorf("ketama: %q on %s, not %s", key, got, parts[2])
		}
		if got := servers[spy.Pick(key)].Address; got != parts[3]+":11211" {
			t.Errorf("ketama-spy-libmemcached: %q on %s, not %s", key, got, parts[3])
		}
	}
}

// TestKetamaSpyPlacesKeysAsTheTestOfSpymemcached compares with the table that spymemcached
// is tested with.
func TestKetamaSpyPlacesKeysAsTheTestOfSpymemcached(t *testing.T) {
	var servers []Server
	for i := range 8 {
		servers = append(servers, Server{Address: fmt.Sprintf("10.0.1.%d:11211", i+1)})
	}
	spy, lib := mustNew(t, KetamaSpy, servers), mustNew(t, KetamaSpyLibmemcached, servers)
	rows, other := lines(t, "spymemcached.txt"), 0
	if len(rows) != 400 {
		t.Fatalf("%d rows", len(rows))
	}
	for _, row := range rows {
		key, want, _ := strings.Cut(row, " ")
		if got := servers[spy.Pick(key)].Address; got != want+":11211" {
			t.Errorf("%q on %s, not %s", key, got, want)
		}
		if servers[lib.Pick(key)].Address != want+":11211" {
			other++
		}
	}
	if other < len(rows)/2 {
		t.Errorf("the variant of libmemcached differs for %d of %d keys only", other, len(rows))
	}
}

// TestKetamaSpyWantsAddressesThatNeedNoResolving: spymemcached places a server by its name
// and by its address.
func TestKetamaSpyWantsAddressesThatNeedNoResolving(t *testing.T) {
	for _, address := range []string{"cache-1:11211", "localhost:11211", "[::1]:11211", "/run/memcached.sock", "10.0.0.1"} {
		if _, err := NewRing(KetamaSpy, []Server{{Address: address}}); err == nil || !strings.Contains(err.Error(), "IPv4") {
			t.Errorf("%s: %v", address, err)
		}
		if _, err := NewRing(KetamaSpyLibmemcached, []Server{{Address: address}}); err != nil {
			t.Errorf("%s: %v", address, err)
		}
	}
}

// TestKeysBehindTheLastPointBelongToTheFirst has a key that libmemcached's tests use
// for it.
func TestKeysBehindTheLastPointBelongToTheFirst(t *testing.T) {
	r := mustNew(t, Ketama, []Server{{Address: "a"}, {Address: "b"}, {Address: "c"}})
	last, first := r.points[len(r.points)-1], r.points[0]
	if last.server == first.server {
		t.Fatal("the fleet is badly chosen: first and last point are of one server")
	}
	if got := r.at(last.place); got != last.server {
		t.Errorf("the place of the last point is of server %d", got)
	}
	if got := r.at(last.place + 1); got != first.server {
		t.Errorf("the place behind the last point is of server %d, not %d", got, first.server)
	}
	if got := r.at(math.MaxUint32); got != first.server {
		t.Errorf("the last place is of server %d, not %d", got, first.server)
	}
}

// TestKeysAreWhereOtherClientsPutThem compares 10 000 keys of each block.
func TestKeysAreWhereOtherClientsPutThem(t *testing.T) {
	rows := lines(t, "picks.txt")
	blocks := 0
	for ; len(rows) > 0; blocks++ {
		name, by, _ := strings.Cut(rows[0], " ")
		var servers []Server
		for parts := range slices.Chunk(strings.Fields(rows[1]), 2) {
			weight, err := strconv.Atoi(parts[1])
			if err != nil {
				t.Fatal(err)
			}
			servers = append(servers, Server{parts[0], weight})
		}
		picks := strings.Join(rows[2:102], "")
		rows = rows[102:]
		t.Run(fmt.Sprint(name, "/", blocks), func(t *testing.T) {
			r := mustNew(t, modeOf(t, name), servers)
			for i := range picks {
				key := fmt.Sprintf("key:%d", i)
				if i%100 == 0 && strings.HasPrefix(by, "github.com/") {
					key += "/a longer key, of more than the 32 bytes of a stripe, " + key
				}
				if got, want := r.Pick(key), int(picks[i]-'a'); got != want {
					t.Fatalf("%q is on %s; %s puts it on %s", key, servers[got].Address, by, servers[want].Address)
				}
			}
		})
	}
	if blocks != 6 {
		t.Errorf("%d blocks", blocks)
	}
}

func modeOf(t *testing.T, name string) Mode {
	t.Helper()
	for m := Ketama; m <= Jump; m++ {
		if m.String() == name {
			return m
		}
	}
	t.Fatalf("no mode %q", name)
	return 0
}

// TestServersHaveThePointsThatCouchbaseLists compares with the list that Couchbase's
// clients are tested with. They write an address as it is.
func TestServersHaveThePointsThatCouchbaseLists(t *testing.T) {
	var servers []Server
	for i := range 4 {
		servers = append(servers, Server{Address: fmt.Sprintf("192.168.1.10%d:11210", i+1)})
	}
	points, err := pointsOf(servers, Ketama, func(address string) string { return address })
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, p := range points {
		got = append(got, fmt.Sprintf("%d/%d", p.place, p.server+1))
	}
	want := strings.Fields(strings.Join(lines(t, "couchbase.txt"), " "))
	if len(want) != 640 || !slices.Equal(got, want) {
		t.Errorf("%d points, not the %d of the list: %v", len(got), len(want), got)
	}
}

// TestALostServerMovesOnlyItsKeys checks that the rings of ketama are consistent.
// Servers keep most of their points: their share grows, so some points are new.
func TestALostServerMovesOnlyItsKeys(t *testing.T) {
	var servers []Server
	for i := range 10 {
		servers = append(servers, Server{Address: fmt.Sprintf("10.1.0.%d:11211", i)})
	}
	for _, mode := range []Mode{Ketama, KetamaSpy, KetamaSpyLibmemcached} {
		whole, less := mustNew(t, mode, servers), mustNew(t, mode, servers[:9])
		for i := range 10_000 {
			key := fmt.Sprint("user:", i)
			was, is := whole.Pick(key), less.Pick(key)
			if was != 9 && was != is {
				t.Fatalf("%v: %q moved from %d to %d", mode, key, was, is)
			}
		}
	}
	// Jump is consistent where the end of the order is lost.
	whole, less := mustNew(t, Jump, servers), mustNew(t, Jump, servers[:9])
	for i := range 10_000 {
		key := fmt.Sprint("user:", i)
		if was, is := whole.Pick(key), less.Pick(key); was != 9 && was != is {
			t.Fatalf("jump: %q moved from %d to %d", key, was, is)
		}
	}
}

func TestBadFleetsAreRefused(t *testing.T) {
	many := make([]Server, MaxServers+1)
	for i := range many {
		many[i].Address = strconv.Itoa(i)
	}
	for name, c := range map[string]struct {
		mode    Mode
		servers []Server
	}{
		"no mode":         {Jump + 1, []Server{{Address: "a"}}},
		"no servers":      {Ketama, nil},
		"many":            {Ketama, many},
		"no address":      {Ketama, []Server{{Address: "a"}, {}}},
		"twice":           {Modula, []Server{{Address: "a"}, {Address: "a"}}},
		"negative weight": {Ketama, []Server{{Address: "a", Weight: -1}}},
		"huge weight":     {Ketama, []Server{{Address: "a", Weight: math.MaxInt}}},
		"weight, modula":  {Modula, []Server{{Address: "a", Weight: 2}}},
		"weight, jump":    {Jump, []Server{{Address: "a", Weight: 2}}},
		// Of two servers, the lighter would have less than a digest.
		"no point": {Ketama, []Server{{Address: "a", Weight: 1}, {Address: "b", Weight: maxWeight}}},
	} {
		if r, err := NewRing(c.mode, c.servers); err == nil || r != nil {
			t.Errorf("%s: %v, %v", name, r, err)
		}
	}
}

func TestNumbersInAddressesAreSortedAsNumbers(t *testing.T) {
	want := []string{"", "1", "2", "10", "a", "a1", "a01b", "a2", "a10", "a10.1", "a10.a", "a99999999999999999998", "a99999999999999999999", "b1"}
	for i, a := range want {
		for j, b := range want {
			got := natural(a, b)
			if i < j && got >= 0 || i > j && got <= 0 || i == j && got != 0 {
				t.Errorf("%q against %q: %d", a, b, got)
			}
		}
	}
}

func TestPickAllocatesNothing(t *testing.T) {
	servers := []Server{{Address: "10.0.0.1:11211"}, {Address: "10.0.0.2:11211"}, {Address: "10.0.0.3:11211"}}
	for mode := Ketama; mode <= Jump; mode++ {
		r := mustNew(t, mode, servers)
		for _, key := range []string{"k", strings.Repeat("long", 60)} {
			if n := testing.AllocsPerRun(100, func() { r.Pick(key) }); n != 0 {
				t.Errorf("%v: %v allocations for %d bytes", mode, n, len(key))
			}
		}
	}
}

func TestModesHaveNames(t *testing.T) {
	got := fmt.Sprint(Ketama, KetamaSpy, KetamaSpyLibmemcached, Modula, Jump, Mode(9))
	if want := "ketama ketama-spy ketama-spy-libmemcached modula jump Mode(9)"; got != want {
		t.Errorf("%q", got)
	}
}

// TestKeysOfAServerThatIsOutGoToTheOthers looks at every set of servers out of
// service: each of their keys goes to a server in service, and no other key moves.
func TestKeysOfAServerThatIsOutGoToTheOthers(t *testing.T) {
	const n = 4
	var servers []Server
	for i := range n {
		servers = append(servers, Server{Address: fmt.Sprintf("10.1.0.%d:11211", i)})
	}
	for mode := Ketama; mode <= Jump; mode++ {
		r := mustNew(t, mode, servers)
		for set := range 1 << n {
			out := func(i int) bool { return set>>i&1 == 1 }
			share := make([]int, n)
			for i := range 2000 {
				key := fmt.Sprint("user:", i)
				home, got := r.Pick(key), r.PickFrom(key, out)
				share[got]++
				if all := set == 1<<n-1; got != home && (!out(home) || all) || out(got) && !all {
					t.Fatalf("%v, out %04b: %q of %d is on %d", mode, set, key, home, got)
				}
			}
			for i, k := range share {
				if !out(i) && k < 200 {
					t.Errorf("%v, out %04b: server %d has %d of 2000 keys", mode, set, i, k)
				}
			}
		}
	}
}

// TestAServerThatIsOutIsAsOneThatIsGone compares with a circle without the server, where
// all have the same number of points.
func TestAServerThatIsOutIsAsOneThatIsGone(t *testing.T) {
	var servers []Server
	for i := range 5 {
		servers = append(servers, Server{Address: fmt.Sprintf("10.1.0.%d:11211", i)})
	}
	for _, mode := range []Mode{Ketama, KetamaSpy, KetamaSpyLibmemcached} {
		whole, less := mustNew(t, mode, servers), mustNew(t, mode, servers[:4])
		for i := range 10_000 {
			key := fmt.Sprint("user:", i)
			if got, want := whole.PickFrom(key, func(s int) bool { return s == 4 }), less.Pick(key); got != want {
				t.Fatalf("%v: %q on %d, not %d", mode, key, got, want)
			}
		}
	}
}

// TestDigestsAreReckonedWith32Bits as libmemcached does: with 64 bits some fleets have one more for each server.
func TestDigestsAreReckonedWith32Bits(t *testing.T) {
	for _, c := range [][4]int{{1, 25, 25, 39}, {6, 25, 5, 47}, {1, 25, 5, 7}, {1, 100, 100, 39}, {1, 8, 8, 40}, {1, 3, 3, 40}} {
		if n := digestsOf(c[0], c[1], c[2]); n != c[3] {
			t.Errorf("weight %d of %d, %d servers: %d digests, want %d", c[0], c[1], c[2], n, c[3])
		}
	}
}
