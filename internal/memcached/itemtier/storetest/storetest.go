// Package storetest checks a Store of package itemtier: the model of a fleet that the tests
// of the tier run on, and the real ones, behave alike.
package storetest

import (
	"fmt"
	"testing"
	"time"

	"github.com/strata-cache/strata/internal/memcached/itemtier"
)

// Fleet is a Store over three servers, for tests.
type Fleet struct {
	Store itemtier.Store
	// Damage replaces an item of a server behind the Store's back.
	Damage func(server int, key, text string)
	// Stop makes a server fail.
	Stop func(server int)
}

// Run checks the Stores that open hands to check, each in a bubble of its own.
func Run(t *testing.T, open func(t *testing.T, check func(*testing.T, Fleet))) {
	for name, check := range map[string]func(*testing.T, Fleet){
		"EachServerHasItemsOfItsOwn":         eachServer,
		"ServerThatFailsIsAnErrorOfItsOwn":   oneFails,
		"WritesNeedTheVersion":               versions,
		"SetsNeedNoVersion":                  sets,
		"TouchedItemsHaveANewLife":           touches,
		"CountersBeginWhereTheyAreToldTo":    counters,
		"CountersThatAreDamagedAreReplaced":  damaged,
		"ManyOperationsAreOneCall":           many,
		"OneThingIsDoneBesideCallsAtOneTime": beside,
	} {
		t.Run(name, func(t *testing.T) { open(t, check) })
	}
}

// do executes one operation on a server.
func do(t *testing.T, f Fleet, server int, op itemtier.Op) itemtier.Result {
	t.Helper()
	r, err := f.Store.Do(t.Context(), server, []itemtier.Op{op})
	if err != nil || r[0].Err != nil {
		t.Fatalf("server %d, %+v: %v, %+v", server, op, err, r)
	}
	return r[0]
}

// write writes an item that is not there, or has a version.
func write(t *testing.T, f Fleet, server int, key, text string, v itemtier.Version) bool {
	t.Helper()
	return do(t, f, server, itemtier.Op{Kind: itemtier.Write, Key: key, Data: []byte(text), Version: v}).Done
}

// count returns the number of servers.
func count(s itemtier.Store) int {
	_, n := s.Servers()
	return n
}

// eachServer uses keys on all servers, wherever their homes are.
func eachServer(t *testing.T, f Fleet) {
	names := map[string]bool{}
	for server := range count(f.Store) {
		names[f.Store.Name(server)] = true
	}
	if len(names) != 3 {
		t.Fatalf("names: %v", names)
	}
	for i := range 10 {
		key := fmt.Sprint("item", i)
		for server := range 3 {
			if !write(t, f, server, key, fmt.Sprint(server), itemtier.Version{}) {
				t.Fatalf("%s is on server %d already", key, server)
			}
			do(t, f, server, itemtier.Op{Kind: itemtier.Count, Key: key + "n", First: uint64(100 * server), Delta: 1})
		}
		for server := range 3 {
			for _, kind := range []itemtier.Kind{itemtier.Look, itemtier.Read} {
				if r := do(t, f, server, itemtier.Op{Kind: kind, Key: key}); string(r.Data) != fmt.Sprint(server) {
					t.Errorf("%s of server %d is %q", key, server, r.Data)
				}
			}
			r := do(t, f, server, itemtier.Op{Kind: itemtier.Count, Key: key + "n", First: 7, Delta: 1})
			if want := uint64(100*server + 1); server > 0 && r.Count != want {
				t.Errorf("the counter of server %d is %d, not %d", server, r.Count, want)
			}
		}
	}
}

// oneFails stops each server in turn.
func oneFails(t *testing.T, f Fleet) {
	f.Stop(1)
	for server := range 3 {
		for i := range 20 {
			key := fmt.Sprint("item", i)
			_, err := f.Store.Do(t.Context(), server, []itemtier.Op{{Kind: itemtier.Read, Key: key}, {Kind: itemtier.Count, Key: key + "n", First: 1}})
			if (err != nil) != (server == 1) {
				t.Errorf("%s on server %d, home %d: %v", key, server, f.Store.Home(key), err)
			}
		}
		if _, err := f.Store.Seconds(t.Context(), server); (err != nil) != (server == 1) {
			t.Errorf("the time of server %d: %v", server, err)
		}
	}
}

func versions(t *testing.T, f Fleet) {
	read := func() itemtier.Result { return do(t, f, 2, itemtier.Op{Kind: itemtier.Read, Key: "k"}) }
	if r := read(); r.Done || r.Version != (itemtier.Version{}) {
		t.Errorf("an item that is not there: %+v", r)
	}
	first := write(t, f, 2, "k", "one", itemtier.Version{})
	again := write(t, f, 2, "k", "two", itemtier.Version{})
	one := read()
	changed := write(t, f, 2, "k", "three", one.Version)
	late := write(t, f, 2, "k", "four", one.Version)
	if r := read(); !first || again || string(one.Data) != "one" || !changed || late || string(r.Data) != "three" {
		t.Errorf("%v, %v, %q, %v, %v, %q", first, again, one.Data, changed, late, r.Data)
	}
	if r := do(t, f, 2, itemtier.Op{Kind: itemtier.Write, Key: "short", Data: []byte("v"), Life: 1}); !r.Done {
		t.Error("an item with a life is not written")
	}
	time.Sleep(3 * time.Second) // in a bubble
	if r := do(t, f, 2, itemtier.Op{Kind: itemtier.Look, Key: "short"}); r.Done {
		t.Error("an item outlives its life")
	}
}

func sets(t *testing.T, f Fleet) {
	for _, text := range []string{"one", "two", ""} {
		if r := do(t, f, 1, itemtier.Op{Kind: itemtier.Set, Key: "k", Data: []byte(text)}); !r.Done {
			t.Errorf("%q is not stored: %+v", text, r)
		}
		r := do(t, f, 1, itemtier.Op{Kind: itemtier.Read, Key: "k"})
		if !r.Done || string(r.Data) != text {
			t.Errorf("%+v, want %q", r, text)
		}
		if !write(t, f, 1, "k", "v", r.Version) {
			t.Error("an item that was set has another version than the one that is read")
		}
		if do(t, f, 1, itemtier.Op{Kind: itemtier.Set, Key: "k", Data: []byte("w")}); write(t, f, 1, "k", "v", r.Version) {
			t.Error("a Set leaves the version")
		}
	}
}

func touches(t *testing.T, f Fleet) {
	touch := func(key string, life int64) bool {
		return do(t, f, 1, itemtier.Op{Kind: itemtier.Touch, Key: key, Life: life}).Done
	}
	there := func(key string) bool {
		r := do(t, f, 1, itemtier.Op{Kind: itemtier.Look, Key: key})
		return r.Done && string(r.Data) == key
	}
	if touch("none", 5) || there("none") {
		t.Error("an item that is not there is touched")
	}
	for key, life := range map[string]int64{"longer": 2, "shorter": 0} {
		if r := do(t, f, 1, itemtier.Op{Kind: itemtier.Set, Key: key, Data: []byte(key), Life: life}); !r.Done {
			t.Errorf("%s: %+v", key, r)
		}
	}
	if !touch("longer", 10) || !touch("shorter", 1) || !there("longer") || !there("shorter") {
		t.Error("an item that is there is not touched, or is gone")
	}
	time.Sleep(4 * time.Second) // in a bubble
	if !there("longer") || there("shorter") || touch("shorter", 5) {
		t.Errorf("after 4 s the item touched for 10 s is there: %v, the one touched for 1 s: %v", there("longer"), there("shorter"))
	}
	if !touch("longer", 0) {
		t.Error("an item is gone")
	}
	time.Sleep(time.Hour) // in a bubble
	if !there("longer") {
		t.Error("an item that was touched for ever is gone")
	}
}

func counters(t *testing.T, f Fleet) {
	count := func(first, delta uint64) itemtier.Result {
		return do(t, f, 0, itemtier.Op{Kind: itemtier.Count, Key: "n", First: first, Delta: delta})
	}
	if r := count(0, 5); r.Done || r.Count != 0 {
		t.Errorf("a counter that is not to be made: %+v", r)
	}
	if r := count(40, 5); !r.Done || r.Count != 40 {
		t.Errorf("a counter that is made: %+v", r)
	}
	if r := count(0, 5); !r.Done || r.Count != 45 {
		t.Errorf("a counter that is there: %+v", r)
	}
	if r := do(t, f, 0, itemtier.Op{Kind: itemtier.Look, Key: "n"}); string(r.Data) != "45" {
		t.Errorf("it is %q", r.Data)
	}
}

func damaged(t *testing.T, f Fleet) {
	for _, text := range []string{"", "x", "12x", "99999999999999999999999"} {
		do(t, f, 0, itemtier.Op{Kind: itemtier.Count, Key: "n", First: 1})
		f.Damage(0, "n", text)
		if r := do(t, f, 0, itemtier.Op{Kind: itemtier.Count, Key: "n", Delta: 1}); r.Done {
			t.Errorf("%.10q is replaced without a number: %+v", text, r)
		}
		if r := do(t, f, 0, itemtier.Op{Kind: itemtier.Count, Key: "n", First: 70, Delta: 1}); r.Count != 70 {
			t.Errorf("%.10q is counted: %+v", text, r)
		}
		if r := do(t, f, 0, itemtier.Op{Kind: itemtier.Count, Key: "n", First: 900, Delta: 2}); r.Count != 72 {
			t.Errorf("%.10q is not replaced for good: %+v", text, r)
		}
		f.Damage(0, "n", text)
	}
}

// many executes operations of all kinds at once.
func many(t *testing.T, f Fleet) {
	for i := range 20 {
		write(t, f, 1, fmt.Sprint("item", i), fmt.Sprint("v", i), itemtier.Version{})
	}
	var ops []itemtier.Op
	for i := range 20 {
		ops = append(ops, itemtier.Op{Kind: itemtier.Look, Key: fmt.Sprint("item", i)}, itemtier.Op{Kind: itemtier.Look, Key: fmt.Sprint("item", i)},
			itemtier.Op{Kind: itemtier.Count, Key: fmt.Sprint("n", i), First: uint64(i + 1)}, itemtier.Op{Kind: itemtier.Write, Key: fmt.Sprint("new", i), Data: []byte("w")})
	}
	results, err := f.Store.Do(t.Context(), 1, ops)
	if err != nil || len(results) != len(ops) {
		t.Fatal(len(results), err)
	}
	for i := range 20 {
		r := results[4*i : 4*i+4]
		if want := fmt.Sprint("v", i); string(r[0].Data) != want || string(r[1].Data) != want || r[2].Count != uint64(i+1) || !r[3].Done {
			t.Errorf("%d: %+v", i, r)
		}
		r[0].Data[0] = 'x' // each has an owner of its own
		if r[1].Data[0] != 'v' {
			t.Error("two results share their data")
		}
	}
}
