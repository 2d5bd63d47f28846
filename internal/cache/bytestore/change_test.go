package bytestore

import (
	"bytes"
	"fmt"
	"slices"
	"sync"
	"testing"
)

// change does one of the operations of FuzzOps that look at an entry before they change it.
func change(t *testing.T, c *Store, model map[string][]byte, op byte, key []byte, n byte) {
	t.Helper()
	want, had := model[string(key)]
	got, ok := c.AppendPeek(nil, key)
	if ok && (!had || !bytes.Equal(got, want)) {
		t.Fatalf("peek: %d bytes, not %d, %v", len(got), len(want), had)
	}
	switch op {
	case 8:
		longer := append(slices.Clone(got), n)
		done := c.Replace(key, func(v []byte) []byte {
			if !bytes.Equal(v, got) {
				t.Fatalf("Replace sees %d bytes, not %d", len(v), len(got))
			}
			return longer
		})
		if done && !ok {
			t.Fatalf("replaced %v, there was one: %v", done, ok)
		}
		if done {
			model[string(key)] = longer
		}
	case 9:
		if c.Replace(key, func([]byte) []byte { return nil }) {
			t.Fatal("replaced by nothing")
		}
		if removed := c.Remove(key, func(v []byte) bool { return len(v)%2 == 0 }, nil); removed != (ok && len(got)%2 == 0) {
			t.Fatalf("removed %v: %v of %d bytes", removed, ok, len(got))
		} else if removed {
			delete(model, string(key))
		}
	case 10:
		var left, old []byte // left of an entry that made room for its successor
		c.Use(Hooks{Left: func(k, v []byte, _ bool) {
			if bytes.Equal(k, key) {
				left = append(slices.Clone(v), 0)
			}
		}})
		v := bytes.Repeat([]byte{n}, int(n))
		before, stored := c.Exchange(key, v, &old)
		c.Use(Hooks{})
		if before != (ok && left == nil) {
			t.Fatalf("Exchange saw one: %v; there was one: %v, which left: %v", before, ok, left != nil)
		}
		if before && !bytes.Equal(old, got) || left != nil && !bytes.Equal(left, append(slices.Clone(got), 0)) {
			t.Fatalf("Exchange saw %d bytes, and %d left; not %d", len(old), len(left), len(got))
		}
		if model[string(key)] = v; !stored {
			delete(model, string(key))
		}
	case 11:
		if c.Touch(key) != ok {
			t.Fatalf("touched: %v", !ok)
		}
	case 12:
		if reads := c.Reads(key); reads > maxReads || c.Cool(key) != (reads > 0) || c.Reads(key) != max(0, reads-1) {
			t.Fatalf("%d reads, then %d", reads, c.Reads(key))
		}
	case 13:
		if n%16 == 0 {
			c.Clear(nil)
			clear(model)
			if n := c.Len(); n != 0 {
				t.Fatalf("%d entries after Clear", n)
			}
		}
	case 14:
		c.Tidy()
	default:
		if got, ok := c.AppendPeek(nil, key); ok && !bytes.Equal(got, want) {
			t.Fatal("peeks differ")
		}
	}
}

// TestEmptyStoreGivesItsMemoryBack: after Clear, and after Tidy of a store whose entries were removed.
func TestEmptyStoreGivesItsMemoryBack(t *testing.T) {
	for name, empty := range map[string]func(*Store){
		"Clear": func(c *Store) { c.Clear(nil) },
		"Tidy": func(c *Store) {
			for key := range c.All() {
				c.Remove(key, nil, nil)
			}
			c.Tidy()
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := newStore(t, 1<<20)
			least := c.Bytes()
			for round := range 3 {
				for i := range 2000 {
					c.Set(fmt.Append(nil, i), make([]byte, 100), 0)
				}
				if c.Bytes() < least+200_000 {
					t.Fatalf("%d bytes with 2000 entries", c.Bytes())
				}
				empty(c)
				if c.Len() != 0 || c.Bytes() != least {
					t.Fatalf("round %d: %d entries, %d bytes, at first %d", round, c.Len(), c.Bytes(), least)
				}
				check(t, c)
			}
		})
	}
}

// TestStoreTellsOfWhatItLetsGo: each entry that made room or ended is told once, with its value.
func TestStoreTellsOfWhatItLetsGo(t *testing.T) {
	c := newStore(t, 256<<10)
	var mu sync.Mutex
	told, ended := map[string]bool{}, 0
	c.Use(Hooks{
		Ended: func(v []byte) bool { return v[0] == 'e' },
		Left: func(key, v []byte, over bool) {
			mu.Lock()
			defer mu.Unlock()
			if told[string(key)] || !bytes.HasSuffix(v, key) || over != (v[0] == 'e') {
				t.Errorf("told of %s: %s, %v", key, v[:8], over)
			}
			if told[string(key)] = true; over {
				ended++
			}
		},
	})
	const keys = 3000
	for i := range keys {
		key, kind := fmt.Append(nil, i), byte('l')
		if i%3 == 0 {
			kind = 'e'
		}
		c.Set(key, append(bytes.Repeat([]byte{kind}, 100), key...), 0)
		if _, ok := c.AppendGet(nil, key); ok != (kind == 'l') {
			t.Fatalf("entry %d: %v", i, ok)
		}
		if _, ok := c.AppendPeek(nil, key); ok != (kind == 'l') {
			t.Fatalf("entry %d: %v at a peek", i, ok)
		}
	}
	left := 0
	for range c.All() {
		left++
	}
	if s := c.Stats(); len(told)+left != keys || ended != keys/3 || int(s.Expired) != ended || int(s.Evicted) != len(told)-ended {
		t.Errorf("%d told, %d of them ended, %d left, of %d: %+v", len(told), ended, left, keys, s)
	}
}

// TestReplaceIsDoneOnTheValueThatIsThere: counters in values, increased side by side, lose nothing.
func TestReplaceIsDoneOnTheValueThatIsThere(t *testing.T) {
	c := newStore(t, 256<<10)
	key := []byte("counter")
	c.Set(key, []byte{0, 0}, 0)
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for range 1000 {
				if !c.Replace(key, func(v []byte) []byte {
					n := int(v[0]) + int(v[1])<<8 + 1
					return []byte{byte(n), byte(n >> 8)}
				}) {
					t.Error("the entry has gone")
				}
			}
		})
	}
	all.Wait()
	if v, _ := c.AppendGet(nil, key); int(v[0])+int(v[1])<<8 != 4000 {
		t.Errorf("%v, want 4000", v)
	}
}
