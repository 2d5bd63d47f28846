package wire

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/strata-cache/strata/bench/internal/rig"
	"github.com/strata-cache/strata/internal/servers"
	"github.com/strata-cache/strata/redis"
)

// turn is how long each subject has in each round.
const turn = 50 * time.Millisecond

func TestMain(m *testing.M) {
	if task := os.Getenv(growthVariable); task != "" {
		os.Exit(growthChild(task))
	}
	os.Exit(m.Run())
}

// BenchmarkWire compares clients of Redis with each other, and with what a bare
// connection takes. An iteration is a round in which every subject has its
// turn: run it with -benchtime 20x, a table at a time. It reports for our own
// client the median ratios to the floor and to the best peer with their
// quartiles, each ratio taken within a round, and prints all subjects in a
// table behind its cases. The time of a call is that of the whole turn divided
// by its calls: its inverse is the throughput.
func BenchmarkWire(b *testing.B) {
	for _, network := range networks() {
		for _, t := range tables(1000, 100_000) {
			b.Run(t.path+"/"+network, func(b *testing.B) { t.run(b, network) })
		}
	}
}

func networks() []string { return []string{"tcp", "unix"} }

// run measures the table on a server of its own.
func (t table) run(b *testing.B, network string) {
	s := start(b, network)
	where := "not pinned"
	if t.pinned {
		restore, err := rig.PinApart(s.server.Pid())
		if err == nil {
			where = "pinned"
		} else {
			where = err.Error()
		}
		b.Cleanup(restore)
	}
	subjects, end, err := openAll(s.at)
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
	version := s.server.Version(context.Background(), s.client)
	fmt.Printf("\n%s, %s\n%s, Redis %s, %s, %d rounds of %v each\n",
		t.title, network, rig.Machine(), version, where, columns[0].rounds(), turn)
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
	col := &column{scenario: c, subjects: part, contest: rig.Contest{
		Load: rig.Load{Goroutines: t.goroutines, For: turn, Every: 1 << 30, Costs: true},
		Ways: ways,
	}}
	round := func() {
		if err := col.contest.Round(); err != nil {
			b.Fatal(err)
		}
	}
	round() // connections, buffers
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

// setting is a server, and a client that prepares it and looks at it.
type setting struct {
	server *servers.RedisServer
	client *redis.Client
	at     endpoint
}

func start(tb testing.TB, network string) *setting {
	tb.Helper()
	server, err := servers.RunRedis()
	if errors.Is(err, servers.ErrMissing) {
		tb.Skip(err)
	}
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(server.Close)
	client, err := server.Open()
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { client.Close() })
	at := endpoint{network, server.Addr}
	if network == "unix" {
		at.addr = server.Socket
	}
	return &setting{server: server, client: client, at: at}
}

// store empties the server and stores all that a job may read.
func (s *setting) store(j *job) error {
	ctx := context.Background()
	if err := s.client.Do(ctx, "FLUSHALL").Ok(); err != nil {
		return err
	}
	for k := range min(len(j.keys), stored) {
		if err := s.client.Do(ctx, "SET", j.keys[k], j.value(k)).Ok(); err != nil {
			return err
		}
	}
	return nil
}
