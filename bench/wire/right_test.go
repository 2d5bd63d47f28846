package wire

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/strata-cache/strata/bench/internal/rig"
)

// TestEverySubjectDoesTheWorkThatIsCompared plays every case of every table a few
// times, over TCP and a unix socket. Every byte of each read must be right, and
// the server must have everything written afterwards.
func TestEverySubjectDoesTheWorkThatIsCompared(t *testing.T) {
	playAll(t, redisSystem, redisTables(10, 2000))
}

// TestEverySubjectDoesTheWorkThatIsComparedOnMemcached is the same for memcached.
func TestEverySubjectDoesTheWorkThatIsComparedOnMemcached(t *testing.T) {
	playAll(t, memcachedSystem, memcachedTables())
}

func playAll(t *testing.T, of *system, tables []table) {
	for _, network := range of.networks {
		t.Run(network, func(t *testing.T) {
			s := of.start(t, network)
			subjects, end, err := of.openAll(s.at)
			if err != nil {
				t.Fatal(err)
			}
			defer end()
			for _, table := range tables {
				for _, c := range table.cases {
					t.Run(table.path+"/"+c.name, func(t *testing.T) { play(t, s, table, c, subjects) })
				}
			}
		})
	}
}

func play(t *testing.T, s *setting, table table, c scenario, subjects []subject) {
	const calls = 2
	if c.each == keysEach {
		c.each = calls // so that every key has its turn
	}
	j := table.job(c)
	j.exact = true
	if err := s.store(j); err != nil {
		t.Fatal(err)
	}
	part, ways, end := table.ways(c, j, subjects)
	defer end()
	for _, w := range ways {
		if c.stores {
			if err := s.server.empty(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := (rig.Load{Goroutines: table.goroutines, Calls: calls}).Run(w.Call); err != nil {
			t.Errorf("%s: %v", w.Name, err)
		}
		if c.stores {
			if err := s.holds(j); err != nil {
				t.Errorf("%s: %v", w.Name, err)
			}
		}
	}
	if kinds := kindsOf(part); kinds[floor] != 1 || kinds[own] == 0 || kinds[peer]+kinds[whole] == 0 {
		t.Errorf("%d floors, %d of our own, %d peers", kinds[floor], kinds[own], kinds[peer]+kinds[whole])
	}
}

// holds looks whether the server has every key of a job.
func (s *setting) holds(j *job) error {
	for k, key := range j.keys {
		v, err := s.server.get(context.Background(), key)
		if err := j.check(k, v, err); err != nil {
			return fmt.Errorf("key %d of %d: %w", k, len(j.keys), err)
		}
	}
	return nil
}

// TestWrongValuesAreNoticed gives every kind of call other values than the stored ones.
func TestWrongValuesAreNoticed(t *testing.T) {
	j := newJob(1, 2, 4)
	other := errors.New("other")
	for name, v := range map[string]string{
		"shorter": "aaa", "longer": "aaaaa", "another key's": "bbbb", "begins wrong": "baaa", "ends wrong": "aaab", "empty": "",
	} {
		for kind, c := range map[string]call{
			"get":  reads(func(context.Context, int, string) ([]byte, error) { return []byte(v), nil })(j),
			"mget": readsAll(func(_ context.Context, _ []string, f see) error { return errors.Join(f(0, raw(v)), f(1, raw("bbbb"))) })(j),
		} {
			if err := c(t.Context(), 0, 0); !errors.Is(err, errWrong) {
				t.Errorf("%s: a value that is %s: %v", kind, name, err)
			}
		}
	}
	exact := newJob(1, 1, 4)
	exact.exact = true
	for name, c := range map[string]call{
		"a value with a wrong middle": reads(func(context.Context, int, string) ([]byte, error) { return raw("abba"), nil })(exact),
		"a value that is missing":     readsAll(func(_ context.Context, _ []string, f see) error { return f(0, raw("aaaa")) })(j),
		"a stream that ends early":    streams(func(_ context.Context, _ string, w io.Writer) error { return text(w, "aaa") })(exact),
		"a stream with wrong bytes":   streams(func(_ context.Context, _ string, w io.Writer) error { return text(w, "aaba") })(exact),
	} {
		if err := c(t.Context(), 0, 0); !errors.Is(err, errWrong) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := j.check(0, nil, other); !errors.Is(err, other) {
		t.Errorf("error %v", err)
	}
}

func text(w io.Writer, s string) error {
	_, err := io.WriteString(w, s)
	return err
}

// TestGrowthIsThatOfTheSubject checks the growth of the floor, and of a client
// that has all of a value in memory.
func TestGrowthIsThatOfTheSubject(t *testing.T) {
	s := redisSystem.start(t, "tcp")
	c := scenario{op: getTo, size: 4 << 20, each: 1}
	if err := s.store(newJob(1, 1, c.size)); err != nil {
		t.Fatal(err)
	}
	grown := map[string]uint64{}
	for _, name := range []string{"floor", "redigo-bytes"} {
		n, err := s.growth(name, c)
		if err != nil {
			t.Fatal(err)
		}
		grown[name] = n
	}
	if n := grown["floor"]; n > 2<<20 {
		t.Errorf("the floor grew by %d bytes", n)
	}
	if n := grown["redigo-bytes"]; n < uint64(c.size) {
		t.Errorf("a client that has values of %d bytes in memory grew by %d", c.size, n)
	}
	if _, err := s.growth("nobody", c); err == nil {
		t.Error("the growth of a subject that there is not")
	}
}

// TestTableComparesWithTheFloorAndTheBestPeer prints a table of calls of known
// length, and compares it with the numbers that follow from them.
func TestTableComparesWithTheFloorAndTheBestPeer(t *testing.T) {
	var out strings.Builder
	synctest.Test(t, func(t *testing.T) {
		var columns []*column
		for _, took := range []map[string]time.Duration{
			{"floor": 10, "mine": 5, "slow": 40, "quick": 20},
			{"floor": 10, "slow": 5, "extra": 10},
		} {
			columns = append(columns, measured(t, took))
		}
		columns[1].grown = []uint64{0, 4 << 10, 1 << 20}
		printTable(&out, columns)
	})
	const want = `
| time, ratio to the floor | a | a |
|---|---:|---:|
| floor | **10ms** | **10ms** |
| mine | 0.50 (0.50–0.50) | - |
| slow | 4.00 (4.00–4.00) | 0.50 (0.50–0.50) |
| extra | - | 1.00 (1.00–1.00) |
| quick | 2.00 (2.00–2.00) | - |

| time, ratio to the best peer | a | a |
|---|---:|---:|
| floor | 0.50 (0.50–0.50) | 2.00 (2.00–2.00) |
| mine | 0.25 (0.25–0.25) | - |
| slow | 2.00 (2.00–2.00) | **5ms** |
| extra | - | 2.00 (2.00–2.00) |
| quick | **20ms** | - |
`
	if got, _, _ := strings.Cut(out.String(), "\n| CPU"); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if !strings.HasSuffix(out.String(), "\n| slow | - | 4 |\n| extra | - | 1 024 |\n| quick | - | - |\n") {
		t.Errorf("growth in\n%s", &out)
	}
}

// measured is a column in which calls take so many milliseconds.
func measured(t *testing.T, took map[string]time.Duration) *column {
	c := &column{scenario: scenario{name: "a", per: 1}, contest: rig.Contest{Load: rig.Load{Goroutines: 1, Calls: 1}}}
	for _, s := range []subject{{name: "floor"}, {name: "mine", kind: own}, {name: "slow", kind: peer}, {name: "extra", kind: peer}, {name: "quick", kind: peer}} {
		if took[s.name] == 0 {
			continue
		}
		c.subjects = append(c.subjects, s)
		c.contest.Ways = append(c.contest.Ways, rig.Way{Name: s.name, Call: func(int, int) error {
			time.Sleep(took[s.name] * time.Millisecond) // in a bubble
			return nil
		}})
	}
	for range 3 {
		if err := c.contest.Round(); err != nil {
			t.Fatal(err)
		}
	}
	return c
}
