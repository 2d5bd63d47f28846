package wire

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/strata-cache/strata/bench/internal/rig"
)

// turn is the time that each subject has in each round.
const turn = 50 * time.Millisecond

func TestMain(m *testing.M) {
	if task := os.Getenv(growthVariable); task != "" {
		os.Exit(growthChild(task))
	}
	os.Exit(m.Run())
}

// BenchmarkWire compares clients of Redis with each other, and with a bare
// connection. An iteration is a round in which every subject has its turn: run
// it with -benchtime 20x, a table at a time. It reports for our own client the
// median ratios to the floor and to the best peer with their quartiles, each
// ratio taken within a round, and prints all subjects in a table behind its
// cases. The time of a call is the time of the whole turn divided by its calls:
// its inverse is the throughput.
func BenchmarkWire(b *testing.B) { redisSystem.run(b, redisTables(1000, 100_000)) }

// BenchmarkMemcached is BenchmarkWire for clients of memcached.
func BenchmarkMemcached(b *testing.B) { memcachedSystem.run(b, memcachedTables()) }

// run measures tables over each network.
func (s *system) run(b *testing.B, tables []table) {
	for _, network := range s.networks {
		for _, t := range tables {
			b.Run(t.path+"/"+network, func(b *testing.B) { t.run(b, s, network) })
		}
	}
}

// run measures the table on a server of its own.
func (t table) run(b *testing.B, of *system, network string) {
	s := of.start(b, network)
	where := "not pinned"
	if t.pinned {
		restore, err := rig.PinApart(s.server.pid())
		if err == nil {
			where = "pinned"
		} else {
			where = err.Error()
		}
		b.Cleanup(restore)
	}
	subjects, end, err := of.openAll(s.at)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(end)
	var columns []*column
	for _, c := range t.cases {
		b.Run(c.name, func(b *testing.B) {
			col := t.measure(b, s, c, subjects)
			col.report(b)
			columns = append(columns, col)
		})
	}
	if len(columns) == 0 {
		return
	}
	fmt.Printf("\n%s, %s\n%s, %s %s, %s, %d rounds of %v each\n",
		t.title, network, rig.Machine(), of.name, s.server.version(context.Background()), where, columns[0].rounds(), turn)
	printTable(os.Stdout, columns)
}

// measure plays the rounds of one case.
func (t table) measure(b *testing.B, s *setting, c scenario, subjects []subject) *column {
	j := t.job(c)
	if err := s.store(j); err != nil {
		b.Fatal(err)
	}
	part, ways, end := t.ways(c, j, subjects)
	defer end()
	// Only the first call of a goroutine is timed: reading the clock more often would slow
	// quick calls, and the tables need the time of the whole turn only.
	col := &column{scenario: c, subjects: part, contest: rig.Contest{
		Load: rig.Load{Goroutines: t.goroutines, For: turn, Every: 1 << 30, Costs: true},
		Ways: ways,
	}}
	round := func() {
		if err := col.contest.Round(); err != nil {
			b.Fatal(err)
		}
	}
	round() // opens connections, grows buffers
	col.contest.Forget()
	for b.Loop() {
		round()
	}
	if t.growth {
		for _, one := range part {
			n, err := s.growth(one.name, c)
			if err != nil {
				b.Fatal(err)
			}
			col.grown = append(col.grown, n)
		}
	}
	return col
}
