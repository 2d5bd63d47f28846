package strata_test

import (
	"context"
	"fmt"
	"time"

	"github.com/strata-cache/strata"
	"github.com/strata-cache/strata/codec"
	"github.com/strata-cache/strata/stratatest"
)

// customer is a value of the running program. customerV2 is the value in its next version:
// it has another name, because the name of a type is a part of its fingerprint.
type (
	customer struct {
		Name string
	}
	customerV2 struct {
		Name    string
		Country string
	}
)

// How does a new version of a program read the values of the old one? It names the
// old type, and how to make a new value of an old one.
func ExampleRemote_versions() {
	ctx := context.Background()
	tier := stratatest.NewTier()
	old, err := strata.New(strata.Options[string, customer]{
		Name:   "customers",
		TTL:    time.Hour,
		Remote: strata.Remote[string, customer]{Tier: tier},
		Loader: func(context.Context, string) (customer, error) { return customer{"Ann"}, nil },
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer old.Close(ctx)
	_, _ = old.GetOrLoad(ctx, "ann", nil)

	now, err := strata.New(strata.Options[string, customerV2]{
		Name: "customers",
		TTL:  time.Hour,
		Remote: strata.Remote[string, customerV2]{
			Tier: tier,
			Codec: codec.Versioned(
				codec.JSON[customerV2](),
				codec.From(codec.JSON[customer](), func(c customer) (customerV2, error) {
					return customerV2{Name: c.Name, Country: "NL"}, nil
				}),
			),
		},
		Loader: func(context.Context, string) (customerV2, error) { return customerV2{}, fmt.Errorf("not asked") },
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer now.Close(ctx)
	fmt.Println(now.GetOrLoad(ctx, "ann", nil))
	// Output: {Ann NL} <nil>
}
