package tier_test

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/strata-cache/strata/internal/redis/tier"
	"github.com/strata-cache/strata/remote"
)

// TestEveryErrorIsExplainedOnce has a server, alone and in a cluster, refuse
// everything or hang up: the client that embeds the tier gives each error its
// form.
func TestEveryErrorIsExplainedOnce(t *testing.T) {
	explain := func(err error) error { return fmt.Errorf("explained: %w", err) }
	all := maps.Clone(operations())
	all["Gets"] = func(ctx context.Context, t *tier.Tier) error { _, err := t.Get(ctx, []string{"k", "l"}); return err }
	all["Changes"] = func(ctx context.Context, t *tier.Tier) error { _, err := t.Changes(ctx); return err }
	all["Probe"] = func(ctx context.Context, t *tier.Tier) error { _, err := t.Probe(ctx); return err }
	// An entry of another type counts as absent, a key of the namespace does not, and a
	// forbidden INFO tells of no changes.
	quiet := map[string]bool{
		"Get -WRONGTYPE no": true, "Gets -WRONGTYPE no": true, "DropAll -WRONGTYPE no": true, "DropTags -WRONGTYPE no": true,
		"Changes -WRONGTYPE no": true, "Changes -NOAUTH no": true,
	}
	for _, reply := range []string{"", "-NOAUTH no", "-WRONGTYPE no"} {
		answer := func(command string) string {
			switch {
			case reply == "":
				return ""
			case isNamespace(command) && reply == "-WRONGTYPE no":
				return stateE
			}
			return reply + "\r\n"
		}
		for name, do := range all {
			nodes := newNodes(1, func(_ int, command string) string { return answer(command) })
			nodes.all[0].answer = answer
			for where, tr := range map[string]*tier.Tier{
				"alone": tier.New(&stub{answer: answer}, 0, explain), "in a cluster": tier.NewOnCluster(nodes, explain),
			} {
				err := do(t.Context(), tr.Bind(remote.Space{Name: "n", Schema: 1}))
				if err == nil && quiet[name+" "+reply] {
					continue
				}
				if err == nil || strings.Count(err.Error(), "explained: ") != 1 || !strings.HasPrefix(err.Error(), "explained: ") {
					t.Errorf("%s %s, answer %q: %v; want it explained once", name, where, reply, err)
				}
			}
		}
	}
}
