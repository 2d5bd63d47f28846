package checks

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/strata-cache/strata/remote"
	"github.com/strata-cache/strata/remote/castier"
)

// StoreFixture is a Store under test.
type StoreFixture struct {
	// Store is the Store under test.
	Store castier.Store
	// Sleep lets time pass for the Store.
	Sleep func(time.Duration)
}

// StoreChecks returns the promises of a Store and of its abilities.
func StoreChecks() (all []Check[StoreFixture]) {
	for _, c := range slices.Concat(swapChecks(), batchChecks(), abilityChecks()) {
		all = append(all, Check[StoreFixture]{c.name, func(t testing.TB, f StoreFixture) {
			c.run(&storeView{t, f, context.Background(), fmt.Sprintf("strata:check-%x:", rand.Uint64())})
		}})
	}
	return all
}

type storeCheck struct {
	name string
	run  func(v *storeView)
}

// storeView is a Store in a check, with keys of its own.
type storeView struct {
	testing.TB
	f      StoreFixture
	ctx    context.Context
	prefix string
}

func (v *storeView) key(name string) string { return v.prefix + name }

// get reads one item.
func (v *storeView) get(name string) castier.Item {
	v.Helper()
	items, err := v.f.Store.GetMany(v.ctx, []string{v.key(name)})
	if err != nil || len(items) != 1 {
		v.Fatalf("GetMany(%s) = %d items, %v; want one", name, len(items), err)
	}
	return items[0]
}

// holds reads one item, which has to have a value, and returns its version.
func (v *storeView) holds(name, value string) castier.Version {
	v.Helper()
	is := v.get(name)
	if is.Version == (castier.Version{}) || string(is.Value) != value {
		v.Errorf("%s holds %.40q with version %+v; want %.40q", name, is.Value, is.Version, value)
	}
	return is.Version
}

// swap writes one item.
func (v *storeView) swap(name, value string, from castier.Version, life time.Duration) (swapped bool) {
	v.Helper()
	all, err := v.f.Store.SwapMany(v.ctx, []castier.Swap{{Key: v.key(name), Value: []byte(value), Version: from, Life: life}})
	if err != nil || len(all) != 1 {
		v.Fatalf("SwapMany(%s) = %v, %v; want one result", name, all, err)
	}
	return all[0]
}

// put writes an item from the version that it has, and returns the new version.
func (v *storeView) put(name, value string, from castier.Version) castier.Version {
	v.Helper()
	if !v.swap(name, value, from, 0) {
		v.Errorf("%s: a swap from the present version was not done", name)
	}
	return v.holds(name, value)
}

func swapChecks() []storeCheck {
	return []storeCheck{
		{"AbsentItemHasNoVersion", checkAbsent},
		{"SwapWithoutVersionMakesAnItem", checkMakes},
		{"SwapNeedsThePresentVersion", checkNeedsVersion},
		{"SwapThatIsReportedIsDone", checkReported},
		{"SwapThatIsLostChangesNothing", checkLost},
		{"VersionsAreNeverUsedAgain", checkVersions},
		{"VersionsOutliveTheirItems", checkVersionsAfterTheEnd},
		{"ItemsAreKeptForTheirLife", checkLife},
		{"ValuesAndKeysAreKeptAsTheyAre", checkBytes},
		{"SlicesHaveOneOwner", checkOwners},
		{"EndedContextEndsCalls", checkContext},
	}
}

// checkAbsent: an absent item and an empty one are different: only the second has a version.
func checkAbsent(v *storeView) {
	if is := v.get("none"); is.Version != (castier.Version{}) {
		v.Errorf("an item that was never written has version %+v", is.Version)
	}
	v.put("empty", "", castier.Version{})
}

// checkMakes: of two callers that find no item, one makes it.
func checkMakes(v *storeView) {
	v.put("k", "one", castier.Version{})
	if v.swap("k", "two", castier.Version{}, 0) {
		v.Errorf("a swap that wants no item was done over one")
	}
	v.holds("k", "one")
}

// checkNeedsVersion: a swap compares the whole version. One that is not done changes neither the
// item nor its version.
func checkNeedsVersion(v *storeView) {
	first := v.put("k", "one", castier.Version{})
	second := v.put("k", "two", first)
	other := v.put("other", "x", castier.Version{})
	from := map[string]castier.Version{"an earlier version": first, "no version": {}}
	if second.Number != 0 {
		from["another number"] = castier.Version{Number: second.Number + 1, Text: second.Text}
	}
	if second.Text != "" {
		from["another text"] = castier.Version{Number: second.Number, Text: second.Text + "x"}
	}
	for name, version := range from {
		if v.swap("k", "three", version, 0) {
			v.Errorf("a swap from %s was done", name)
		}
	}
	if v.swap("none", "x", other, 0) || v.get("none").Version != (castier.Version{}) {
		v.Errorf("a swap from a version made an item that was not there")
	}
	if got := v.holds("k", "two"); got != second {
		v.Errorf("the version is %+v after swaps that were not done, and was %+v", got, second)
	}
}

// checkReported looks after each of many swaps.
func checkReported(v *storeView) {
	version := castier.Version{}
	for i := range 100 {
		version = v.put("k", fmt.Sprint("value ", i), version)
	}
}

// checkLost swaps from a version that is sometimes the present one, and looks after each swap.
func checkLost(v *storeView) {
	value, version := "first", v.put("k", "first", castier.Version{})
	before := version
	for i := range 100 {
		next, from := fmt.Sprint("value ", i), version
		if i%3 > 0 {
			from = before
		}
		swapped := v.swap("k", next, from, 0)
		if swapped {
			value, before = next, version
		}
		got := v.holds("k", value)
		if (got != version) != swapped {
			v.Errorf("swap %d reported %v; the version was %+v and is %+v", i, swapped, version, got)
		}
		version = got
	}
}

// checkVersions writes few values again and again.
func checkVersions(v *storeView) {
	seen := map[castier.Version]int{}
	version := castier.Version{}
	for i := range 60 {
		version = v.put("k", []string{"a", "b", "b"}[i%3], version)
		if at, ok := seen[version]; ok {
			v.Fatalf("write %d has version %+v, as write %d had", i, version, at)
		}
		seen[version] = i
	}
}

// checkVersionsAfterTheEnd writes items with short lives again, after they may have ended.
func checkVersionsAfterTheEnd(v *storeView) {
	seen := map[castier.Version]bool{}
	for round := range 3 {
		is := v.get("k")
		if !v.swap("k", "value", is.Version, time.Second) {
			v.Fatalf("round %d: a swap from the present version was not done", round)
		}
		version := v.holds("k", "value")
		if seen[version] {
			v.Errorf("round %d: the item has version %+v, as an item had that has ended", round, version)
		}
		seen[version] = true
		v.f.Sleep(2500 * time.Millisecond)
	}
}

// checkLife: a store may keep items for longer than their lives, since the tier has the ends in the
// items. It must not keep them for a shorter time.
func checkLife(v *storeView) {
	lives := map[string]time.Duration{"for ever": 0, "short": 3 * time.Second, "long": time.Hour, "very long": 365 * 24 * time.Hour, "longest": 100 * 365 * 24 * time.Hour}
	for name, life := range lives {
		name = strings.ReplaceAll(name, " ", "-")
		if !v.swap(name, "one", castier.Version{}, time.Second) || !v.swap(name, name, v.holds(name, "one"), life) {
			v.Errorf("%s: not written", name)
		}
	}
	v.f.Sleep(2 * time.Second)
	for name := range lives {
		name = strings.ReplaceAll(name, " ", "-")
		v.holds(name, name)
	}
}

// checkBytes: values are any bytes; keys are printable, or not even UTF-8, and up to 250 bytes
// long.
func checkBytes(v *storeView) {
	all := make([]byte, 256)
	for i := range all {
		all[i] = byte(i)
	}
	printable := strings.Map(func(r rune) rune {
		if r <= ' ' || r >= 0x7f {
			return -1
		}
		return r
	}, string(all[:128]))
	values := map[string]string{
		"empty": "", "zero": "\x00", "lines": "\r\nEND\r\n\n", "all": string(all), "some": strings.Repeat("0123456789", 6000),
		printable: "printable", "Case": "upper", "case": "lower", "ключ": "text", "\xff\xfe": "no text", "\xfe\xff": "nor this",
		strings.Repeat("k", 250-len(v.prefix)): "long", strings.Repeat("k", 249-len(v.prefix)): "shorter",
	}
	for name, value := range values {
		v.put(name, value, castier.Version{})
	}
	for name, value := range values {
		v.holds(name, value)
	}
}

// checkOwners: the tier uses the memory of its arguments again, and changes the values that it has read.
func checkOwners(v *storeView) {
	value := []byte("value")
	swaps := []castier.Swap{{Key: v.key("a"), Value: value}, {Key: v.key("b"), Value: value}}
	if swapped, err := v.f.Store.SwapMany(v.ctx, swaps); err != nil || len(swapped) != 2 || !swapped[0] || !swapped[1] {
		v.Fatalf("SwapMany = %v, %v", swapped, err)
	}
	copy(value, "XXXXX")
	v.holds("a", "value")
	copy(v.get("a").Value, "YYYYY")
	v.holds("a", "value")
	v.holds("b", "value")
}

// checkContext: a call may fail under an ended context, but must not report what has not happened.
func checkContext(v *storeView) {
	version := v.put("k", "value", castier.Version{})
	ctx, cancel := context.WithCancel(v.ctx)
	cancel()
	if _, err := v.f.Store.GetMany(ctx, []string{v.key("k")}); err == nil {
		v.Errorf("GetMany returns no error under a context that has ended")
	}
	swapped, err := v.f.Store.SwapMany(ctx, []castier.Swap{{Key: v.key("k"), Value: []byte("late"), Version: version}})
	if err == nil && (len(swapped) != 1 || swapped[0] != (string(v.get("k").Value) == "late")) {
		v.Errorf("SwapMany reports %v under a context that has ended, and the item is %q", swapped, v.get("k").Value)
	}
}

// errorOf returns the error of key i of a call.
func errorOf(err error, i int) error { return remote.ErrorOf(err, i) }
