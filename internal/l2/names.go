package l2

import (
	"fmt"
	"strings"
)

const (
	maxName    = 128 // bytes of the name of a cache
	maxService = 64  // bytes of the name of a service
)

// BadName returns the reason why a cache cannot have a name; empty if it can.
func BadName(name string) string { return badName(name, maxName) }

// BadService is BadName for the name of a service.
func BadService(service string) string { return badName(service, maxService) }

func badName(name string, most int) string {
	if len(name) > most {
		return fmt.Sprintf("%d bytes is longer than %d", len(name), most)
	}
	if i := strings.IndexFunc(name, func(r rune) bool { return r <= ' ' || r == 0x7f || r == '{' || r == '}' }); i >= 0 {
		return fmt.Sprintf("%q has a space, control character or brace", name)
	}
	return ""
}
