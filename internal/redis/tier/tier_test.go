package tier_test

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/strata-cache/strata/internal/redis/layout"
	"github.com/strata-cache/strata/internal/redis/resp"
	"github.com/strata-cache/strata/internal/redis/tier"
	"github.com/strata-cache/strata/internal/testing/kit"
	"github.com/strata-cache/strata/remote"
)

// stub answers every command by the function answer, in RESP.
type stub struct {
	answer func(command string) string
	opened uint64
	sent   []string // the names of scripts and commands
}

func (s *stub) Send(_ context.Context, put func([]byte, string) []byte, head string) (resp.Value, error) {
	v, err := s.ask(&layout.Batch{Text: put(nil, head), N: 1})
	if err != nil {
		return resp.Value{}, err
	}
	return v[0], nil
}

func (s *stub) Read(ctx context.Context, _ time.Duration, _ time.Time, put func([]byte, string) []byte, key string) (resp.Value, tier.Loan, error) {
	v, err := s.Send(ctx, put, key)
	return v, nil, err
}

func (s *stub) Together(_ context.Context, _ bool, f func(layout.Ask) error) error { return f(s.ask) }

func (s *stub) Opened() uint64 { return s.opened }
func (s *stub) MaxValue() int  { return 1 << 20 }

var errEnd = errors.New("the connection has ended")

func (s *stub) ask(b *layout.Batch) (replies []resp.Value, err error) {
	commands := resp.NewReader(bytes.NewReader(b.Text), resp.Limits{})
	var out strings.Builder
	for range b.N {
		args, err := commands.ReadCommand()
		if err != nil {
			return nil, err
		}
		out.WriteString(s.answer(string(bytes.Join(args, []byte(" ")))))
	}
	r := resp.NewReader(strings.NewReader(out.String()), resp.Limits{})
	for range b.N {
		v, err := r.Read()
		if err != nil {
			return replies, errEnd
		}
		replies = append(replies, v)
	}
	return replies, nil
}

const (
	ok     = ":1\r\n"
	stateE = "*5\r\n$1\r\ne\r\n:0\r\n:0\r\n:0\r\n:1000\r\n"
	stateF = "*5\r\n$1\r\nf\r\n:0\r\n:0\r\n:0\r\n:1000\r\n"
	heldE  = "*2\r\n$1\r\nv\r\n$17\r\n90000 90000 7 e.0\r\n"
	entryE = "$19\r\n90000 90000 7 e.0.0\r\n"
)

func isNamespace(command string) bool {
	return strings.HasPrefix(command, "EVAL") && strings.Contains(command, "{n}word")
}

// TestReplyIsJudgedByAStateReadAfterTheLastConnection lets a connection be
// opened while a question is under way: the server behind it may be another
// one, with other values.
func TestReplyIsJudgedByAStateReadAfterTheLastConnection(t *testing.T) {
	value := "*2\r\n$1\r\nv\r\n" + entryE
	s := &stub{}
	words, reads := 0, 0
	s.answer = func(command string) string {
		switch {
		case isNamespace(command):
			words++
			if words == 1 {
				return stateE
			}
			return stateF
		case strings.HasPrefix(command, "HMGET"):
			reads++
			if reads == 2 || reads == 4 {
				s.opened++
			}
			return value
		}
		return "*4\r\n$4\r\nfree\r\n:0\r\n" + entryE + "$1\r\nv\r\n"
	}
	one := tier.New(s, 0, nil).Bind(remote.Space{Name: "n", Schema: 1})
	get := func(keys ...string) remote.Held {
		t.Helper()
		h, err := one.Get(context.Background(), keys)
		if err != nil {
			t.Fatal(err)
		}
		return h[0]
	}
	if h := get("k"); string(h.Data) != "v" || words != 1 {
		t.Fatalf("got %+v with %d words", h, words)
	}
	if h := get("k"); !h.Absent() || words != 2 || reads != 3 {
		t.Errorf("got %+v after %d words and %d reads; want absent, 2, 3", h, words, reads)
	}

	words, reads, s.opened = 0, 0, 7
	many := tier.New(s, 0, nil).Bind(remote.Space{Name: "n", Schema: 1})
	one = many
	if h := get("k", "l"); string(h.Data) != "v" || words != 1 {
		t.Fatalf("got %+v with %d words", h, words)
	}
	if h := get("k", "l"); !h.Absent() || words != 2 {
		t.Errorf("several keys: got %+v after %d words; want absent, 2", h, words)
	}
}

// TestLeaseIsJudgedByAStateReadAfterTheLastConnection is the same for Acquire.
func TestLeaseIsJudgedByAStateReadAfterTheLastConnection(t *testing.T) {
	s := &stub{}
	var asked []string
	s.answer = func(command string) string {
		if isNamespace(command) {
			asked = append(asked, "word")
			return []string{stateE, stateF}[min(len(asked)/2, 1)]
		}
		args := strings.Fields(command)
		asked = append(asked, args[len(args)-2]) // behind it is the latest time for a lease
		if len(asked) == 3 {
			s.opened++
		}
		return "*4\r\n$4\r\nfree\r\n:0\r\n" + entryE + "$1\r\nv\r\n"
	}
	tr := tier.New(s, 0, nil).Bind(remote.Space{Name: "n", Schema: 1})
	for i, want := range []string{"e.0.0", "f.0.0"} {
		h, l, err := kit.Acquire(context.Background(), tr, "k", time.Minute)
		if err != nil || l.State != want || h.Absent() == (i == 0) {
			t.Errorf("question %d: %+v, %+v, %v; want word %s", i, h, l, err, want)
		}
	}
	if got := strings.Join(asked, " "); got != "word e.0.0 e.0.0 word f.0.0" {
		t.Errorf("asked for %s", got)
	}
}

func TestScriptsAreGivenUpOnlyWhenTheyAreForbidden(t *testing.T) {
	for text, want := range map[string]bool{
		"NOPERM this user has no permissions to run the 'evalsha' command or its subcommand": true,
		"NOPERM User plain has no permissions to run the 'eval' command":                     true,
		"ERR unknown command 'EVALSHA'":                                                      true,
		"ERR Could not find scripting engine 'lua'":                                          true,
		"ERR This instance has Lua scripting support disabled":                               true,
		"ERR unknown command `evalsha`, with args beginning with: `x`":                       true,
		"NOPERM this user has no permissions to access one of the keys used as arguments":    false,
		"NOPERM No permissions to access a key":                                              false,
		"ERR Error running script: Unknown Redis command called from script":                 false,
		"OOM command not allowed when used memory > 'maxmemory'.":                            false,
		"READONLY You can't write against a read only replica.":                              false,
	} {
		s := &stub{}
		tried := 0
		s.answer = func(command string) string {
			if strings.HasPrefix(command, "EVAL") {
				tried++
				return "-" + text + "\r\n"
			}
			return "-ERR no\r\n"
		}
		tr := tier.New(s, 0, nil).Bind(remote.Space{Name: "n"})
		for range 2 {
			if _, err := tr.Drop(context.Background(), []remote.Drop{{Key: "k"}}); err == nil {
				t.Fatalf("%s: no error", text)
			}
		}
		if got := tried == 1; got != want {
			t.Errorf("%s: tried %d times", text, tried)
		}
	}
}

// FuzzAnswers lets a server answer anything, with and without scripts.
func FuzzAnswers(f *testing.F) {
	f.Add(false, stateE, ok, heldE)
	f.Add(true, "*5\r\n$1\r\ne\r\n$1\r\n0\r\n$1\r\n0\r\n$1\r\n0\r\n$0\r\n\r\n", "*2\r\n$1\r\n1\r\n$1\r\n1\r\n", "+OK\r\n")
	f.Add(false, "*5\r\n$1\r\ne\r\n:-1\r\n:0\r\n:0\r\n:1000\r\n", "*0\r\n", "_\r\n")
	f.Add(true, "%1\r\n+a\r\n:1\r\n", "-WRONGTYPE no\r\n", "$-1\r\n")
	f.Add(false, stateE, "*4\r\n$7\r\ngranted\r\n:-5\r\n$1\r\nx\r\n:3\r\n", "*3\r\n$1\r\n1\r\n$-1\r\n$30\r\n999999999999999999999999999999\r\n")
	f.Fuzz(func(t *testing.T, plainly bool, a, b, c string) {
		answers := []string{a, b, c}
		n := 0
		s := &stub{answer: func(command string) string {
			if plainly && strings.HasPrefix(command, "EVAL") {
				return "-NOPERM no permissions to run the 'eval' command\r\n"
			}
			if strings.HasPrefix(command, "EXEC") && n > 50 {
				return "-ERR enough\r\n"
			}
			n++
			if n > 500 {
				return ""
			}
			if isNamespace(command) && n%2 == 0 {
				return stateE
			}
			return answers[n%3]
		}}
		tr := tier.New(s, 0, nil).Bind(remote.Space{Name: "n", Schema: 1})
		ctx := context.Background()
		lease := remote.Lease{Token: 7, State: "e.0.0"}
		if h, err := tr.Get(ctx, []string{"k"}); err == nil && len(h) != 1 {
			t.Fatalf("%d results for a key", len(h))
		}
		if h, err := tr.Get(ctx, []string{"k", "l"}); err == nil && len(h) != 2 {
			t.Fatalf("%d results for two keys", len(h))
		}
		for _, id := range []remote.ID{0, 7} {
			h, l, err := kit.Refresh(ctx, tr, "k", id, time.Minute)
			if err == nil && ((l.Grant == remote.Granted) != (l.Token != 0) || l.Wait < 0 || h.Fresh < 0 || h.Left < 0) {
				t.Fatalf("acquired %+v, %+v", h, l)
			}
		}
		if no, err := tr.Put(ctx, []remote.Put{{Key: "k", Left: 1, Lease: lease}, {Key: "l", Left: 1, Lease: lease}}); err == nil && len(no) > 2 {
			t.Fatalf("refused %v", no)
		}
		if d, err := tr.Drop(ctx, []remote.Drop{{Key: "k", Token: 1, Soft: true}, {Key: "l"}}); err == nil && len(d) != 2 {
			t.Fatalf("%d leases", len(d))
		}
		if tags, err := tr.Tags(ctx, []string{"a", "b"}); err == nil && len(tags) != 2 {
			t.Fatalf("%d tags", len(tags))
		}
		if p, err := tr.Position(ctx); err == nil && (len(p.Lanes) != 1024 || p.Epoch == "") {
			t.Fatalf("position %+v", p)
		}
		_, _ = tr.Put(ctx, []remote.Put{{Key: "k", Left: 1, Lease: lease}})
		_, _ = tr.Extend(ctx, "k", 1, 1, lease, 7)
		_, _ = tr.Renew(ctx, "k", lease, 1)
		_ = tr.Release(ctx, "k", lease)
		_ = tr.DropTags(ctx, []string{"a"}, false)
		_ = tr.DropAll(ctx, true)
		_, _ = tr.Probe(ctx)
	})
}
