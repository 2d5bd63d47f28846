package slots

import (
	"strconv"
	"strings"
)

// Redirect is a server's answer to a command for a slot that it does not serve.
type Redirect struct {
	// Ask is true if only this command goes to Addr, after ASKING. It is false
	// if the slot has moved.
	Ask  bool
	Slot int
	// Addr is host:port.
	Addr string
}

// ParseRedirect reads an error with the first word code and the rest text. It
// reports false for other errors, and for a redirection without a usable slot
// or address.
func (a Asked) ParseRedirect(code, text string) (r Redirect, ok bool) {
	if code != "MOVED" && code != "ASK" {
		return r, false
	}
	slot, addr, _ := strings.Cut(text, " ")
	colon := strings.LastIndexByte(addr, ':') // hosts of IPv6 have colons, and no brackets
	if colon < 0 {
		return r, false
	}
	n, err1 := strconv.ParseUint(slot, 10, 16)
	port, err2 := strconv.ParseUint(addr[colon+1:], 10, 16)
	r = Redirect{Ask: code == "ASK", Slot: int(n), Addr: a.addr(strings.Trim(addr[:colon], "[]"), int64(port))}
	return r, err1 == nil && err2 == nil && r.Slot < Count && r.Addr != ""
}
