package remote_test

import (
	"testing"

	"github.com/strata-cache/strata/remote"
	"github.com/strata-cache/strata/stratatest"
)

// labelled is a wrapper that does nothing.
type labelled struct {
	remote.Tier
	label string
}

func (l labelled) Unwrap() remote.Tier                { return l.Tier }
func (l labelled) Wrap(inner remote.Tier) remote.Tier { return labelled{inner, l.label} }

// sealed hides the abilities of a tier.
type sealed struct{ remote.Tier }

// counting intercepts one ability.
type counting struct{ labelled }

type countedTags struct{ remote.Tagger }

func (c counting) Wrap(inner remote.Tier) remote.Tier { return counting{labelled{inner, c.label}} }

func (c counting) As(target any) bool {
	tagger, ok := remote.As[remote.Tagger](c.Tier)
	if t, wanted := target.(*remote.Tagger); wanted && ok {
		*t = countedTags{tagger}
		return true
	}
	return false
}

func TestAsFindsAbilitiesThroughWrappers(t *testing.T) {
	tier := stratatest.NewTier()
	for name, wrapped := range map[string]remote.Tier{
		"bare": tier, "one wrapper": labelled{tier, "a"}, "two wrappers": labelled{labelled{tier, "a"}, "b"},
	} {
		if got, ok := remote.As[remote.Announcer](wrapped); !ok || got != remote.Announcer(tier) {
			t.Errorf("%s: As = %v, %t; want the tier inside", name, got, ok)
		}
		if got, ok := remote.As[*stratatest.Tier](wrapped); !ok || got != tier {
			t.Errorf("%s: As of its own type = %v, %t", name, got, ok)
		}
	}
	for name, wrapped := range map[string]remote.Tier{"nil": nil, "sealed": sealed{tier}, "around sealed": labelled{sealed{tier}, "a"}} {
		if got, ok := remote.As[remote.Announcer](wrapped); ok || got != nil {
			t.Errorf("%s: As = %v, %t; want none", name, got, ok)
		}
	}
}

func TestAsAsksAWrapperThatIntercepts(t *testing.T) {
	tier := stratatest.NewTier()
	for name, wrapped := range map[string]remote.Tier{"outside": counting{labelled{tier, "a"}}, "inside": labelled{counting{labelled{tier, "a"}}, "b"}} {
		if got, ok := remote.As[remote.Tagger](wrapped); !ok || got != remote.Tagger(countedTags{tier}) {
			t.Errorf("%s: As = %v, %t; want the wrapper's", name, got, ok)
		}
		if got, ok := remote.As[remote.Prober](wrapped); !ok || got != remote.Prober(tier) {
			t.Errorf("%s: As of another ability = %v, %t; want the tier's", name, got, ok)
		}
	}
	if _, ok := remote.As[remote.Tagger](counting{labelled{sealed{tier}, "a"}}); ok {
		t.Errorf("a wrapper has an ability that its tier lacks")
	}
}

func TestBindKeepsWrappers(t *testing.T) {
	tier, space := stratatest.NewTier(), remote.Space{Name: "n", Schema: 1}
	view, ok := remote.Bind(labelled{labelled{tier, "inner"}, "outer"}, space)
	outer, isOuter := view.(labelled)
	if !ok || !isOuter || outer.label != "outer" {
		t.Fatalf("Bind = %v, %t; want the outer wrapper", view, ok)
	}
	if inner, isInner := outer.Tier.(labelled); !isInner || inner.label != "inner" || inner.Tier == remote.Tier(tier) {
		t.Errorf("inside the outer wrapper is %v; want the inner one, around a view", outer.Tier)
	}
	if view, ok := remote.Bind(counting{labelled{tier, "a"}}, space); !ok || view.(counting).label != "a" {
		t.Errorf("Bind = %v, %t; want the wrapper that intercepts", view, ok)
	}
	for _, unbound := range []remote.Tier{sealed{tier}, labelled{sealed{tier}, "a"}} {
		if view, ok := remote.Bind(unbound, space); ok || view != unbound {
			t.Errorf("Bind of a tier that is no Binder = %v, %t; want it unchanged", view, ok)
		}
	}
}
