// The messages of the bus as text. Clients write them whole, or the beginning, to
// which scripts add the lane versions or the count.
// Invariant: a text is a message of this version, or refused whole; a key may have
// any bytes.

package layout

import (
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/strata-cache/strata/remote"
)

// A message on the bus is a line of text:
//
//	2 <kind> <instance, hex> <lane> <was> <is> <hold, ms> <key>
//
// where 2 is the version of this form, and was and is are lane versions. The key
// is last and ends with the message, so it may have any bytes.

// Nothing is the text that a Tier publishes on the channel of a cache to learn whether it may.
// It is no message, and followers pass it over.
const Nothing = ""

// head is the beginning of a message, up to the lane.
func head(k remote.Kind, from string) string {
	return "2 " + strconv.Itoa(int(k)) + " " + from + " "
}

// Dropped is the beginning of the message about a drop of key, up to the lane
// versions. The script adds these, with the hold.
func (n *Names) Dropped(key string, soft bool) string {
	return string(n.AppendDropped(nil, key, soft))
}

// AppendDropped appends the result of Dropped.
func (n *Names) AppendDropped(dst []byte, key string, soft bool) []byte {
	k := remote.Dropped
	if soft {
		k = remote.Expired
	}
	dst = strconv.AppendInt(append(dst, n.heads[k]...), int64(LaneOf(key)), 10)
	return append(dst, ' ')
}

// AllDropped returns the beginning of the message about a drop of everything, up
// to the number of drops of everything. The script adds the number, with
// AfterCount.
func (n *Names) AllDropped(soft bool) string {
	k := remote.AllDropped
	if soft {
		k = remote.AllExpired
	}
	return n.heads[k] + "0 0.0 "
}

// AfterCount follows the number of drops in the message about a drop of
// everything.
const AfterCount = ".0 0 "

// TagDropped is the beginning of the message about a drop of a tag, up to the
// tag clocks, which the script adds.
func (n *Names) TagDropped(soft bool) string {
	k := remote.TagDropped
	if soft {
		k = remote.TagExpired
	}
	return n.heads[k] + "0 "
}

// Message is m as text. The rest of a hold is rounded up.
func Message(m *remote.Message) string {
	hold := m.Hold / time.Millisecond
	if m.Hold%time.Millisecond > 0 {
		hold++
	}
	return head(m.Kind, Hex(m.From)) + strconv.Itoa(int(m.Lane)) + " " + LaneVersion(m.Was) + " " + LaneVersion(m.Is) + " " +
		strconv.FormatInt(max(0, int64(hold)), 10) + " " + m.Key
}

// maxHold is the longest hold in ms that a duration can express.
const maxHold = math.MaxInt64 / int64(time.Millisecond)

// ParseMessage parses a message for the cache of that name, from Message or
// from a script. It reports false for everything else.
func ParseMessage(name, text string) (m remote.Message, ok bool) {
	var field [7]string
	for i := range field {
		if field[i], text, ok = strings.Cut(text, " "); !ok {
			return remote.Message{}, false
		}
	}
	kind, err1 := strconv.ParseUint(field[1], 10, 8)
	from, err2 := strconv.ParseUint(field[2], 16, 64)
	lane, err3 := strconv.ParseUint(field[3], 10, 16)
	was, ok1 := ParseLaneVersion(field[4])
	is, ok2 := ParseLaneVersion(field[5])
	hold, err4 := strconv.ParseInt(field[6], 10, 64)
	if field[0] != "2" || err1 != nil || err2 != nil || err3 != nil || err4 != nil || !ok1 || !ok2 || hold < 0 || hold > maxHold {
		return remote.Message{}, false
	}
	if (remote.Kind(kind) == remote.Dropped || remote.Kind(kind) == remote.Expired) && was == (remote.LaneVersion{}) && is != was {
		was = Unmade
	}
	m = remote.Message{
		Name: name, Kind: remote.Kind(kind), From: from, Key: text,
		Lane: uint16(lane), Was: was, Is: is, Hold: time.Duration(hold) * time.Millisecond,
	}
	if m.Kind < remote.Dropped || m.Kind > remote.Answered {
		return remote.Message{}, false
	}
	return m, true
}

// Unmade is the version of a lane without a key: the lane has had no drop yet, and the server
// has removed no keys. The message of its first drop has 0.0 in place of Unmade.
var Unmade = remote.LaneVersion{Nonce: 1} // read-only

// LaneVersion is the version of a lane as text.
func LaneVersion(v remote.LaneVersion) string {
	return strconv.FormatUint(v.Count, 10) + "." + Hex(v.Nonce)
}

// ParseLaneVersion is the inverse of LaneVersion. It reports false for everything
// else.
func ParseLaneVersion(text string) (v remote.LaneVersion, ok bool) {
	count, nonce, ok := strings.Cut(text, ".")
	var err1, err2 error
	v.Count, err1 = strconv.ParseUint(count, 10, 64)
	v.Nonce, err2 = strconv.ParseUint(nonce, 16, 64)
	if !ok || err1 != nil || err2 != nil {
		return remote.LaneVersion{}, false
	}
	return v, true
}
