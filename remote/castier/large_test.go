package castier_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/strata-cache/strata/internal/testing/coherence/lab"
	"github.com/strata-cache/strata/remote"
	"github.com/strata-cache/strata/remote/castier"
)

var (
	largeText   = strings.Repeat("0123456789", 50_000) // read-only
	anotherText = strings.Repeat("9876543210", 50_000) // read-only
)

// weighed is a store that counts the bytes of its items that go to and fro. Its next call fails
// if fails says so.
type weighed struct {
	*lab.Model
	bytes atomic.Int64
	fails func(c *lab.ModelCall) error
}

// fleet returns the way to the store on which bytes are counted.
func (w *weighed) fleet() castier.Fleet {
	return lab.Around(w.Model, func(ctx context.Context, _ int, c *lab.ModelCall, run func(context.Context) error) error {
		if w.fails != nil {
			if err := w.fails(c); err != nil {
				return err
			}
		}
		err := run(ctx)
		w.bytes.Add(int64(c.Bytes()))
		return err
	})
}

// large runs f on a store in which key k has a large stale value. id is the ID of the value.
func large(t *testing.T, f func(t *testing.T, w *weighed, tier *castier.Tier, id remote.ID)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &weighed{Model: lab.NewModel(t, 1)}
		tier := another(w.fleet())
		l := acquire(t, tier, "k").Lease
		if !put(t, tier, "k", largeText, l) {
			t.Fatal("refused")
		}
		time.Sleep(2 * time.Minute) // in the bubble: for one it is fresh
		w.bytes.Store(0)
		f(t, w, tier, remote.ID(l.Token))
	})
}

// values returns the keys of the items in which large values are, and for how long they live.
func values(m *lab.Model) (keys []string, lives []time.Duration) {
	m.Each(0, func(key string, is *lab.ModelItem) {
		if isValue(key) {
			keys, lives = append(keys, key), append(lives, time.Until(is.Until))
		}
	})
	return keys, lives
}

// isValue reports whether the item with a key has a large value.
func isValue(key string) bool {
	return len(key) > 8 && (strings.Contains(key[8:], ":v") || strings.Contains(key[8:], ":V"))
}

// lose makes the server forget large values.
func lose(m *lab.Model) {
	keys, _ := values(m)
	m.Lose(func(key string) bool { return slices.Contains(keys, key) })
}

func acquireKnown(t *testing.T, tier *castier.Tier, known remote.ID) remote.Acquired {
	t.Helper()
	got, err := tier.Acquire(t.Context(), []remote.Request{{Key: "k", Known: known}}, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	return got[0]
}

func extend(t *testing.T, tier *castier.Tier, l remote.Lease, id remote.ID) (done bool) {
	t.Helper()
	refused, err := tier.Extend(t.Context(), "k", time.Minute, 3*time.Hour, l, id)
	if err != nil {
		t.Fatal(err)
	}
	return !refused
}

func getKnown(t *testing.T, tier *castier.Tier, known remote.ID) remote.Held {
	t.Helper()
	held, err := tier.Get(t.Context(), []string{"k"}, known)
	if err != nil {
		t.Fatal(err)
	}
	return held[0]
}

// TestNotModifiedMovesNoLargeValue: a refresh that finds nothing new, and the reads of
// instances with the value, move only the state of the key.
func TestNotModifiedMovesNoLargeValue(t *testing.T) {
	large(t, func(t *testing.T, w *weighed, tier *castier.Tier, id remote.ID) {
		if w.Trips(); string(get(t, tier, "k").Data) != largeText || w.Trips() != 2 {
			t.Error("a read of a large value takes no two round trips")
		}
		if w.bytes.Store(0); !getKnown(t, tier, id).Same || w.Trips() != 1 {
			t.Error("a read of a large value that is known takes no single round trip")
		}
		first := id
		for range 3 {
			if held := getKnown(t, tier, id); !held.Same || held.Data != nil || held.ID != id || held.Fresh > 0 {
				t.Errorf("%+v", held)
			}
			a := acquireKnown(t, tier, id)
			if !a.Held.Same || a.Held.Data != nil || a.Lease.Grant != remote.Granted {
				t.Errorf("%+v", a)
			}
			if !extend(t, tier, a.Lease, id) {
				t.Fatal("refused")
			}
			if held := getKnown(t, tier, first); !held.Same || held.ID != remote.ID(a.Lease.Token) || held.Fresh < 57*time.Second {
				t.Errorf("after a refresh: %+v", held)
			}
			id = remote.ID(a.Lease.Token)
			time.Sleep(30 * time.Minute) // in the bubble: the value lives for longer than it was stored for
		}
		drop(t, tier, remote.Drop{Key: "k", Soft: true})
		if n := w.bytes.Load(); n > 5000 {
			t.Errorf("%d bytes moved", n)
		}
		for _, known := range []remote.ID{0, 1} {
			if held := getKnown(t, tier, known); string(held.Data) != largeText || held.Same {
				t.Errorf("a reader with the ID %d got %d bytes", known, len(held.Data))
			}
		}
		if a := acquire(t, tier, "k"); string(a.Held.Data) != largeText || a.Lease.Grant != remote.Granted {
			t.Errorf("%d bytes, grant %d", len(a.Held.Data), a.Lease.Grant)
		}
	})
}

// TestLargeValueThatIsLostIsAbsent: the server has evicted its item, and has the state.
func TestLargeValueThatIsLostIsAbsent(t *testing.T) {
	for name, check := range map[string]func(t *testing.T, tier *castier.Tier, id remote.ID){
		"read": func(t *testing.T, tier *castier.Tier, _ remote.ID) {
			if held := get(t, tier, "k"); !held.Absent() || held.Data != nil {
				t.Errorf("%+v", held)
			}
		},
		"lease of a stale value": func(t *testing.T, tier *castier.Tier, _ remote.ID) {
			if a := acquire(t, tier, "k"); !a.Held.Absent() || a.Lease.Grant != remote.Granted {
				t.Errorf("%+v", a)
			}
		},
		"not modified": func(t *testing.T, tier *castier.Tier, id remote.ID) {
			a := acquireKnown(t, tier, id)
			if !a.Held.Same || extend(t, tier, a.Lease, id) {
				t.Errorf("extended: %+v", a)
			}
			if !put(t, tier, "k", anotherText, a.Lease) {
				t.Error("the lease is gone")
			}
			if held := get(t, tier, "k"); string(held.Data) != anotherText {
				t.Errorf("%d bytes", len(held.Data))
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			large(t, func(t *testing.T, w *weighed, tier *castier.Tier, id remote.ID) {
				lose(w.Model)
				check(t, tier, id)
			})
		})
	}
	t.Run("lease of a fresh value", func(t *testing.T) {
		large(t, func(t *testing.T, w *weighed, tier *castier.Tier, id remote.ID) {
			extend(t, tier, acquireKnown(t, tier, id).Lease, id)
			lose(w.Model)
			a := acquire(t, tier, "k")
			if !a.Held.Absent() || a.Lease.Grant != remote.Granted {
				t.Fatalf("%+v", a)
			}
			if other := acquire(t, another(w.fleet()), "k"); other.Lease.Grant != remote.Busy {
				t.Errorf("%+v: two have the lease", other)
			}
			if !put(t, tier, "k", anotherText, a.Lease) {
				t.Error("refused")
			}
		})
	})
}

// TestReaderOfALargeValueGetsTheOneBeforeOrAfterAStore that comes between its two round trips.
func TestReaderOfALargeValueGetsTheOneBeforeOrAfterAStore(t *testing.T) {
	large(t, func(t *testing.T, w *weighed, tier *castier.Tier, _ remote.ID) {
		l := acquire(t, tier, "k").Lease
		w.After = func(*lab.ModelCall) {
			w.After = nil
			if !put(t, another(w.fleet()), "k", anotherText, l) {
				t.Error("refused")
			}
		}
		if held := get(t, tier, "k"); string(held.Data) != largeText {
			t.Errorf("%d bytes, want the value of the state that was read", len(held.Data))
		}
		drop(t, tier, remote.Drop{Key: "k"})
		l = acquire(t, tier, "k").Lease
		put(t, tier, "k", largeText, l)
		l = drop(t, tier, remote.Drop{Key: "k", Soft: true, Token: time.Minute})
		w.After = func(*lab.ModelCall) {
			w.After = nil
			put(t, another(w.fleet()), "k", anotherText, l)
			time.Sleep(3 * time.Second) // in the bubble: the earlier value is forgotten
		}
		if held := get(t, tier, "k"); string(held.Data) != anotherText {
			t.Errorf("%d bytes, want the value that has replaced it", len(held.Data))
		}
	})
}

// TestLargeValueThatIsReplacedIsForgotten by its server, and a refused one as well.
func TestLargeValueThatIsReplacedIsForgotten(t *testing.T) {
	for name, change := range map[string]func(t *testing.T, w *weighed, tier *castier.Tier){
		"large value": func(t *testing.T, _ *weighed, tier *castier.Tier) {
			put(t, tier, "k", anotherText, acquire(t, tier, "k").Lease)
		},
		"small value": func(t *testing.T, _ *weighed, tier *castier.Tier) {
			put(t, tier, "k", "v", acquire(t, tier, "k").Lease)
		},
		"drop": func(t *testing.T, _ *weighed, tier *castier.Tier) { drop(t, tier, remote.Drop{Key: "k"}) },
		"value that is overtaken": func(t *testing.T, w *weighed, tier *castier.Tier) {
			l := acquire(t, tier, "k").Lease
			w.Between = func(_ int, c *lab.ModelCall) {
				if len(c.Swaps) > 0 && !isValue(c.First()) { // its value is there, and its state is not
					w.Between = nil
					drop(t, another(w.fleet()), remote.Drop{Key: "k"})
				}
			}
			if put(t, tier, "k", anotherText, l) {
				t.Error("a value is stored whose key was dropped")
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			large(t, func(t *testing.T, w *weighed, tier *castier.Tier, _ remote.ID) {
				change(t, w, tier)
				_, lives := values(w.Model)
				if slices.Sort(lives); len(lives) == 0 || lives[0] > time.Second || len(lives) > 1 && name != "large value" && lives[1] > time.Second {
					t.Errorf("values live for %v", lives)
				}
			})
		})
	}
}

// TestServerThatRefusesALargeValueHasNoState of it, and another value is stored under the lease.
func TestServerThatRefusesALargeValueHasNoState(t *testing.T) {
	large(t, func(t *testing.T, w *weighed, tier *castier.Tier, _ remote.ID) {
		l := acquire(t, tier, "k").Lease
		down := errors.New("down")
		w.fails = func(c *lab.ModelCall) error {
			if len(c.Swaps) > 0 && isValue(c.First()) {
				return down
			}
			return nil
		}
		_, err := tier.Put(t.Context(), []remote.Put{{Key: "k", Data: []byte(anotherText), Fresh: time.Minute, Left: time.Hour, Lease: l}})
		if !errors.Is(err, down) {
			t.Errorf("%v", err)
		}
		if held := get(t, tier, "k"); string(held.Data) != largeText {
			t.Errorf("%d bytes, want the value from before", len(held.Data))
		}
		if w.fails = nil; !put(t, tier, "k", anotherText, l) {
			t.Error("the lease is gone")
		}
	})
}

// TestServerThatDoesNotSendALargeValueIsAnError, but Acquire gives a lease without the value.
func TestServerThatDoesNotSendALargeValueIsAnError(t *testing.T) {
	large(t, func(t *testing.T, w *weighed, tier *castier.Tier, id remote.ID) {
		down := errors.New("down")
		w.fails = func(c *lab.ModelCall) error {
			if len(c.Keys) > 0 && isValue(c.First()) {
				return down
			}
			return nil
		}
		if _, err := tier.Get(t.Context(), []string{"k"}); !errors.Is(err, down) {
			t.Errorf("a read: %v", err)
		}
		a := acquire(t, tier, "k")
		if a.Lease.Grant != remote.Granted || a.Held.Data != nil || a.Held.Same || a.Held.ID != id {
			t.Errorf("%+v", a)
		}
		if !extend(t, tier, a.Lease, id) {
			t.Error("refused")
		}
		if got, err := tier.Acquire(t.Context(), []remote.Request{{Key: "k"}}, time.Minute); !errors.Is(err, down) {
			t.Errorf("the lease of a fresh value: %+v, %v", got, err)
		}
	})
}

// TestBytesThatAreNoLargeValueAreAbsent, and counted.
func TestBytesThatAreNoLargeValueAreAbsent(t *testing.T) {
	for _, damage := range []string{"", "x", "st\xe4\x01", "st\xe4\x01\x05name", "st\xe4\x01\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01v"} {
		large(t, func(t *testing.T, w *weighed, tier *castier.Tier, _ remote.ID) {
			keys, _ := values(w.Model)
			w.Each(0, func(key string, is *lab.ModelItem) {
				if slices.Contains(keys, key) {
					is.Data = []byte(damage)
				}
			})
			if held := get(t, tier, "k"); !held.Absent() || held.Data != nil {
				t.Errorf("%q: %+v", damage, held)
			}
			if tier.Foreign() == 0 {
				t.Errorf("%q is not counted", damage)
			}
			if a := acquire(t, tier, "k"); a.Lease.Grant != remote.Granted {
				t.Errorf("%q: %+v", damage, a)
			}
		})
	}
}

// TestValueThatLooksLikeTheNumberOfAnItemIsAValue.
func TestValueThatLooksLikeTheNumberOfAnItemIsAValue(t *testing.T) {
	large(t, func(t *testing.T, _ *weighed, tier *castier.Tier, _ remote.ID) {
		for _, text := range []string{"st\xe3\x01", "st\xe3\x01\x05", "st\xe3\x01\x05\x01\x00", largeText} {
			drop(t, tier, remote.Drop{Key: "k"})
			put(t, tier, "k", text, acquire(t, tier, "k").Lease)
			if held := get(t, tier, "k"); string(held.Data) != text {
				t.Errorf("%.10q is read as %.10q", text, held.Data)
			}
		}
	})
}
