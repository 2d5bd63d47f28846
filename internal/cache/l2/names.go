package l2

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
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
	// Metrics, traces, logs and the page carry the name as a text.
	if !utf8.ValidString(name) {
		return fmt.Sprintf("%q is not UTF-8", name)
	}
	if strings.ContainsFunc(name, func(r rune) bool { return r == ' ' || r == '{' || r == '}' || !unicode.IsPrint(r) }) {
		return fmt.Sprintf("%q has a space, a brace, or a character that cannot be printed", name)
	}
	return ""
}
