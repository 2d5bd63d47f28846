package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/strata-cache/strata/stratatest"
)

// Two caches share a tier and a bus. Here both come from stratatest and need no server.
func Example_caches() {
	ctx := context.Background()
	tier, hub := stratatest.NewTier(), stratatest.NewBus()
	tier.Announce(hub)

	all, err := open(tier, hub.Connect(), &database{})
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := use(ctx, all, os.Stdout); err != nil {
		fmt.Println(err)
	}
	fmt.Println(all.Close(ctx))
	// Output:
	// Ann 1 1.5
	// Ann 1 2.5
	// <nil>
}

func TestDropsOfOneCacheLeaveTheOtherAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		tier, hub := stratatest.NewTier(), stratatest.NewBus()
		tier.Announce(hub)
		var db database
		here, err := open(tier, hub.Connect(), &db)
		if err != nil {
			t.Fatal(err)
		}
		defer here.Close(ctx)
		there, err := open(tier, hub.Connect(), &db) // another instance of the service
		if err != nil {
			t.Fatal(err)
		}
		defer there.Close(ctx)
		synctest.Wait()

		var out strings.Builder
		if err := use(ctx, here, &out); err != nil {
			t.Fatal(err)
		}
		synctest.Wait() // for the bus
		if err := use(ctx, there, &out); err != nil {
			t.Fatal(err)
		}
		if want := "Ann 1 1.5\nAnn 1 2.5\nAnn 1 3.5\nAnn 1 4.5\n"; out.String() != want {
			t.Errorf("both instances read\n%s, want\n%s", &out, want)
		}
		if err := there.prices.Set(ctx, 8, 2); err != nil {
			t.Error(err)
		}
		if err := here.users.InvalidateAll(ctx); err != nil {
			t.Error(err)
		}
		synctest.Wait()
		if _, ok := there.users.Get(ctx, "ann"); ok {
			t.Error("a user is there after users were dropped")
		}
		if _, ok := there.prices.Get(ctx, 8); !ok {
			t.Error("a price was dropped with the users")
		}
	})
}
