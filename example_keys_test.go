package strata_test

import (
	"context"
	"fmt"
	"net/netip"
	"time"

	"github.com/strata-cache/strata"
	"github.com/strata-cache/strata/stratatest"
)

// How do keys other than strings get names in L2? A type with a text, such as an
// address, a UUID or a time, is named by it.
func ExampleRemote_text() {
	ctx := context.Background()
	tier, bus := stratatest.NewTier(), stratatest.NewBus()
	tier.Announce(bus)
	countries, err := strata.New(strata.Options[netip.Addr, string]{
		Name:   "countries",
		TTL:    time.Hour,
		Remote: strata.Remote[netip.Addr, string]{Tier: tier, Bus: bus.Connect()},
		Loader: func(context.Context, netip.Addr) (string, error) { return "NL", nil },
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer countries.Close(ctx)

	addr := netip.MustParseAddr("192.0.2.1")
	country, err := countries.GetOrLoad(ctx, addr, nil)
	fmt.Println(country, err, countries.Explain(ctx, addr).Name)
	// Output: NL <nil> 192.0.2.1
}

// How do keys of a struct type get names in L2? By a function. Without a Bus its
// inverse is not required.
func ExampleRemote_struct() {
	ctx := context.Background()
	type seat struct {
		Row rune
		No  int
	}
	prices, err := strata.New(strata.Options[seat, int]{
		Name: "prices",
		TTL:  time.Hour,
		Remote: strata.Remote[seat, int]{
			Tier: stratatest.NewTier(),
			Key:  func(s seat) string { return fmt.Sprintf("%c-%d", s.Row, s.No) },
		},
		Loader: func(context.Context, seat) (int, error) { return 30, nil },
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer prices.Close(ctx)

	price, err := prices.GetOrLoad(ctx, seat{'C', 14}, nil)
	fmt.Println(price, err, prices.Explain(ctx, seat{'C', 14}).Name)
	// Output: 30 <nil> C-14
}
