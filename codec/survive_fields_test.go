package codec_test

import (
	"encoding/json"
	"net"
	"strconv"
	"strings"
	"testing"
)

type (
	// level is a number with a text, and tally one with a form that may be quoted.
	level int64
	tally int
	// verbose has the options that are written for fields without methods.
	verbose struct {
		L level  `json:"l,string,omitempty"`
		P *level `json:"p,string"`
		T tally  `json:",string"`
		N int    `json:"n,string"`
	}

	// aside embeds a pointer, asideOr one that may be left out, and asideOf no pointer, all as a field with a name.
	aside struct {
		*inner `json:"inner"`
	}
	asideOr struct {
		*inner `json:"inner,omitempty"`
	}
	asideOf struct {
		inner `json:"inner"`
	}

	// Sheet has a part that comes back as another if it is nil, and blank says when it is zero.
	Sheet struct{ Raw json.RawMessage }
	blank struct{ A int }
	// filed, filedTo and blanked have options that JSON ignores.
	filed struct {
		Sheet `json:",omitzero"`
	}
	filedTo struct {
		*Sheet `json:",omitempty,omitzero"`
	}
	blanked struct {
		blank `json:",omitzero"`
	}
)

// colours are a list with a text, also of nil.
type colours []string

func (c colours) MarshalText() ([]byte, error) { return []byte(strings.Join(c, ",")), nil }
func (c *colours) UnmarshalText(b []byte) error {
	*c = nil
	if len(b) > 0 {
		*c = strings.Split(string(b), ",")
	}
	return nil
}

func (b blank) IsZero() bool { return b.A == 0 }

func (l level) MarshalText() ([]byte, error) { return []byte("level-" + strconv.Itoa(int(l))), nil }
func (l *level) UnmarshalText(b []byte) error {
	n, err := strconv.Atoi(strings.TrimPrefix(string(b), "level-"))
	*l = level(n)
	return err
}

func (t *tally) MarshalJSON() ([]byte, error) {
	return []byte(strconv.Quote(strconv.Itoa(int(*t)))), nil
}

func (t *tally) UnmarshalJSON(b []byte) error {
	n, err := strconv.Atoi(strings.Trim(string(b), `"`))
	*t = tally(n)
	return err
}

func TestJSONRefusesTheOptionStringOfMethodsThatItConfuses(t *testing.T) {
	js(t, "left out", verbose{N: 1}, true)
	// Later versions of encoding/json are not confused.
	text, err := json.Marshal(verbose{L: 5})
	kept := err == nil && json.Unmarshal(text, new(verbose)) == nil
	js(t, "text", verbose{L: 5}, kept)
	js(t, "pointer to a text", verbose{P: pointerTo(level(5))}, kept)
	js(t, "in a list of maps", []map[string]verbose{{"a": {L: 5}}}, kept)
	js(t, "form that may be quoted", verbose{T: 5, N: 1}, true)
	js(t, "number of which the method is not called", map[string]verbose{"a": {T: 5}}, true)
	js(t, "without the option", []level{5}, true)
}

func TestJSONRefusesNamedEmbeddedPointersThatCannotBeMade(t *testing.T) {
	js(t, "pointer", aside{&inner{3}}, false)
	js(t, "in a list of maps", []map[string]aside{{"a": {&inner{3}}}}, false)
	js(t, "null", aside{}, false)
	js(t, "left out", asideOr{}, true)
	js(t, "not left out", asideOr{&inner{}}, false)
	js(t, "without a pointer", asideOf{inner{3}}, true)
	js(t, "exported", named{&Profile{Nick: "a"}}, true)
}

func TestJSONBelievesNoOptionOfAnEmbeddedStruct(t *testing.T) {
	raw := Sheet{json.RawMessage("1")}
	js(t, "zero", filed{}, false)
	js(t, "not zero", filed{raw}, true)
	js(t, "pointer", filedTo{&raw}, true)
	js(t, "pointer to zero", filedTo{&Sheet{}}, false)
	js(t, "no pointer", filedTo{}, true)
	js(t, "zero by a method", blanked{}, true)
	js(t, "not zero by a method", blanked{blank{3}}, true)
}

func TestJSONKeepsPointersToANilThatHasAText(t *testing.T) {
	js(t, "nil IP", struct{ IP *net.IP }{new(net.IP)}, true)
	js(t, "IP", struct{ IP *net.IP }{&net.IP{15: 1}}, true)
	js(t, "nil list with a text", new(colours), true)
	js(t, "list with a text", &colours{"a", "b"}, true)
	js(t, "nil raw", new(json.RawMessage), false)
	js(t, "pointer to no pointer", new(*colours), false)
	js(t, "nil list without a text", new([]string), false)
}
