package layout

import (
	"strconv"
	"strings"

	"github.com/strata-cache/strata/remote"
)

// A message on the bus is a line of text:
//
//	1 <kind> <instance, hex> <lane> <sequence> <key>
//
// where 1 is the version of this form. The key is last and ends with the
// message, so that any bytes can be in it.

// head is the beginning of a message, up to the lane.
func head(k remote.Kind, from string) string {
	return "1 " + strconv.Itoa(int(k)) + " " + from + " "
}

// DropHead is the beginning of the message about a drop of key, up to the
// sequence, which the script adds.
func (n *Names) DropHead(key string, soft bool) string {
	h := n.dropped
	if soft {
		h = n.soft
	}
	return h + strconv.Itoa(laneOf(key)) + " "
}

// AllDropped is the message that everything was dropped.
func (n *Names) AllDropped() string { return n.all }

// Message is m as text.
func Message(m *remote.Message) string {
	return head(m.Kind, Hex(m.From)) + strconv.Itoa(int(m.Lane)) + " " + strconv.FormatUint(m.Seq, 10) + " " + m.Key
}

// ParseMessage is the inverse of Message and of what the scripts publish, for
// the cache of that name. It reports false for everything else.
func ParseMessage(name, text string) (m remote.Message, ok bool) {
	var field [5]string
	for i := range field {
		if field[i], text, ok = strings.Cut(text, " "); !ok {
			return remote.Message{}, false
		}
	}
	kind, err1 := strconv.ParseUint(field[1], 10, 8)
	from, err2 := strconv.ParseUint(field[2], 16, 64)
	lane, err3 := strconv.ParseUint(field[3], 10, 16)
	seq, err4 := strconv.ParseUint(field[4], 10, 64)
	if field[0] != "1" || err1 != nil || err2 != nil || err3 != nil || err4 != nil {
		return remote.Message{}, false
	}
	m = remote.Message{Name: name, Kind: remote.Kind(kind), From: from, Key: text, Lane: uint16(lane), Seq: seq}
	if m.Kind < remote.Dropped || m.Kind > remote.AllDropped {
		return remote.Message{}, false
	}
	return m, true
}
