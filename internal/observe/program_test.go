package observe

import (
	"runtime/debug"
	"testing"
)

func TestMainModuleOfATestIsNotKnown(t *testing.T) {
	if got := MainModule(); got != "" {
		t.Errorf("this test has the main module %q, want none", got)
	}
	b := debug.BuildInfo{Path: "example.com/shop/cmd/web", Main: debug.Module{Path: "example.com/shop"}}
	if got := mainOf(&b); got != "example.com/shop" {
		t.Errorf("a program has the main module %q", got)
	}
}
