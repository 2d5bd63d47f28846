package main

import (
	"bytes"
	"reflect"
	"strings"
	"testing"
	"time"
)

// TestScenariosHaveBothSides wants each one with the guard and without.
func TestScenariosHaveBothSides(t *testing.T) {
	sides := map[string]int{}
	for _, x := range (config{limit: 256 << 20, keys: 1000}).scenarios() {
		sides[x.scenario]++
		if x.entries <= 0 {
			t.Errorf("%+v", x)
		}
	}
	if want := map[string]int{"fill": 2, "burst": 2, "cold": 2, "tuned": 5}; !reflect.DeepEqual(sides, want) {
		t.Errorf("%v, want %v", sides, want)
	}
	if all := (config{limit: 256 << 20, only: "cold"}).scenarios(); len(all) != 2 {
		t.Errorf("%d scenarios are cold", len(all))
	}
}

// TestValuesAreTheSameForAKey and about a kibibyte on average.
func TestValuesAreTheSameForAKey(t *testing.T) {
	sum := 0
	for key := range uint64(1000) {
		x := load(key)
		if !reflect.DeepEqual(x, load(key)) {
			t.Fatal("a key has two values")
		}
		sum += len(x.Body)
	}
	if mean := sum / 1000; mean < 400 || mean > 1000 {
		t.Errorf("a body has %d bytes on average", mean)
	}
}

// TestFillCountsHits has a cache that holds all keys.
func TestFillCountsHits(t *testing.T) {
	cache, err := newCache(1000, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer cache.Close()
	n := burst(cache, 64*mean)
	ratio := fill(config{keys: 100}, cache, time.Now().Add(50*time.Millisecond), &n)
	if n <= 64 || ratio < 0.9 {
		t.Errorf("hit ratio %v in %d operations", ratio, n)
	}
	var out bytes.Buffer
	result{Scenario: "fill", HitRatio: ratio}.print(&out)
	result{Scenario: "fill", died: "after 1 s"}.print(&out)
	if text := out.String(); strings.Count(text, "\n") != 2 || strings.Count(text, "|") != 24 {
		t.Errorf("%q", text)
	}
	if peakRSS() < 0 || gcShare(cpu()) < 0 {
		t.Error("less than nothing")
	}
}
