package main

import (
	"strings"
	"testing"
)

func TestArgumentsAreChecked(t *testing.T) {
	for _, args := range []string{"", "speed", "hits -rounds 0", "hits -slice -1s", "mix -ttl 1s", "hits more", "hits -fast"} {
		if err := run(strings.Fields(args), new(strings.Builder)); err == nil {
			t.Errorf("%q passes", args)
		}
	}
	if err := run([]string{"hitratio", "-short", "-traces", t.TempDir()}, new(strings.Builder)); err != nil {
		t.Error(err)
	}
}
