package tier_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/strata-cache/strata/internal/redis/layout"
	"github.com/strata-cache/strata/internal/redis/tier"
	"github.com/strata-cache/strata/internal/testing/kit"
	"github.com/strata-cache/strata/remote"
)

// withoutEngine answers like an empty server that refuses scripts with this
// text: digests are unknown to it. Other commands in refused are unknown
// commands.
func withoutEngine(text string, refused ...string) *stub {
	queued := false
	return &stub{answer: func(command string) string {
		name, rest, _ := strings.Cut(command, " ")
		for _, r := range refused {
			if name == r {
				return "-ERR unknown command '" + name + "', with args beginning with: " + rest + "\r\n"
			}
		}
		switch {
		case name == "EVALSHA":
			return "-NOSCRIPT No matching script. Please use EVAL.\r\n"
		case name == "EVAL":
			return "-" + text + "\r\n"
		case name == "MULTI":
			queued = true
			return "+OK\r\n"
		case name == "EXEC":
			queued = false
			return "*0\r\n"
		case queued:
			return "+QUEUED\r\n"
		case name == "HMGET" && strings.HasSuffix(command, "authority"):
			return "*5\r\n$1\r\ne\r\n$1\r\n0\r\n$1\r\n0\r\n$1\r\n0\r\n$0\r\n\r\n"
		case name == "HMGET" && strings.Contains(rest, "floor"):
			return "*3\r\n$1\r\n1\r\n$-1\r\n$-1\r\n"
		case name == "HMGET":
			return "*5\r\n" + strings.Repeat("$-1\r\n", 5)
		case name == "MGET":
			return "*1024\r\n" + strings.Repeat("$3\r\n1.a\r\n", 1024)
		case name == "TIME":
			return "*2\r\n$1\r\n1\r\n$1\r\n0\r\n"
		case name == "INFO", name == "CONFIG":
			return bulk("")
		case name == "HGET", name == "GET":
			return "$-1\r\n"
		case name == "HKEYS":
			return "*0\r\n"
		case name == "WATCH", name == "UNWATCH", name == "TYPE":
			return "+OK\r\n"
		}
		return ":0\r\n"
	}}
}

// operations are all that a tier can do.
func operations() map[string]func(context.Context, *tier.Tier) error {
	lease := remote.Lease{Token: 7, State: "e.0.0"}
	put := remote.Put{Key: "k", Left: time.Minute, Lease: lease}
	return map[string]func(context.Context, *tier.Tier) error{
		"Get": func(ctx context.Context, t *tier.Tier) error { _, err := t.Get(ctx, []string{"k"}); return err },
		"Acquire": func(ctx context.Context, t *tier.Tier) error {
			_, _, err := kit.Acquire(ctx, t, "k", time.Minute)
			return err
		},
		"Refresh": func(ctx context.Context, t *tier.Tier) error {
			_, _, err := kit.Refresh(ctx, t, "k", 7, time.Minute)
			return err
		},
		"Put": func(ctx context.Context, t *tier.Tier) error { _, err := t.Put(ctx, []remote.Put{put}); return err },
		"Puts": func(ctx context.Context, t *tier.Tier) error {
			_, err := t.Put(ctx, []remote.Put{put, put})
			return err
		},
		"Drop": func(ctx context.Context, t *tier.Tier) error {
			_, err := t.Drop(ctx, []remote.Drop{{Key: "k"}})
			return err
		},
		"Drops": func(ctx context.Context, t *tier.Tier) error {
			_, err := t.Drop(ctx, []remote.Drop{{Key: "k"}, {Key: "l"}})
			return err
		},
		"Extend": func(ctx context.Context, t *tier.Tier) error {
			_, err := t.Extend(ctx, "k", 1, 1, lease, 7)
			return err
		},
		"Release": func(ctx context.Context, t *tier.Tier) error { return t.Release(ctx, "k", lease) },
		"Renew": func(ctx context.Context, t *tier.Tier) error {
			_, err := t.Renew(ctx, "k", lease, time.Minute)
			return err
		},
		"DropTags": func(ctx context.Context, t *tier.Tier) error { return t.DropTags(ctx, []string{"a"}, false) },
		"Tags":     func(ctx context.Context, t *tier.Tier) error { _, err := t.Tags(ctx, []string{"a"}); return err },
		"DropAll":  func(ctx context.Context, t *tier.Tier) error { return t.DropAll(ctx, false) },
		"Position": func(ctx context.Context, t *tier.Tier) error { _, err := t.Position(ctx); return err },
		"AcquireMany": func(ctx context.Context, t *tier.Tier) error {
			_, _, err := kit.AcquireMany(ctx, t, []string{"k", "l"}, time.Minute)
			return err
		},
	}
}

func TestServerWithoutAnEngineForScriptsIsUsedByTransactions(t *testing.T) {
	for _, text := range []string{
		"ERR Could not find scripting engine 'lua'",            // Valkey 9.1 without valkey-lua
		"ERR This instance has Lua scripting support disabled", // Garnet without --lua
	} {
		for name, do := range operations() {
			tr := tier.New(withoutEngine(text), 0, nil).Bind(remote.Space{Name: "n", Schema: 1})
			if err := do(t.Context(), tr); err != nil {
				t.Errorf("%s: %s: %v", text, name, err)
			}
		}
	}
}

// TestProbeDecidesByTheSmallestScript has a server refuse scripts by an unknown
// text.
func TestProbeDecidesByTheSmallestScript(t *testing.T) {
	s := withoutEngine("ERR not on this plan")
	tr := tier.New(s, 0, nil).Bind(remote.Space{Name: "n", Schema: 1})
	if err := tr.DropAll(t.Context(), false); err == nil {
		t.Fatal("no error, though the tier does not know this reply")
	}
	if warnings, err := tr.Probe(t.Context()); err != nil || len(warnings) != 2 || !strings.Contains(warnings[0], "scripts are not permitted") {
		t.Errorf("Probe = %q, %v; want warnings about scripts and INFO", warnings, err)
	}
	if err := tr.DropAll(t.Context(), false); err != nil {
		t.Error(err)
	}
}

func TestServerOnWhichNothingWorksIsOneSentence(t *testing.T) {
	for _, refused := range []string{"WATCH", "MULTI", "EXEC"} {
		s := withoutEngine("ERR unknown command 'EVAL'", refused)
		tr := tier.New(s, 0, nil).Bind(remote.Space{Name: "n", Schema: 1})
		if warnings, err := tr.Probe(t.Context()); err != nil || len(warnings) != 1 || !strings.Contains(warnings[0], "neither scripts nor WATCH") {
			t.Errorf("without %s: Probe = %q, %v; want one sentence", refused, warnings, err)
		}
		for _, name := range []string{"Drop", "Acquire", "DropAll"} {
			err := operations()[name](t.Context(), tr)
			looks := refused != "WATCH" && name == "Acquire" // the state is there, and reading it writes nothing
			if !errors.Is(err, layout.ErrNoTransactions) && !looks {
				t.Errorf("without %s: %s: %v; want %v", refused, name, err, layout.ErrNoTransactions)
			}
		}
	}
}
