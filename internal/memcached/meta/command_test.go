package meta_test

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/strata-cache/strata/internal/memcached/meta"
)

func TestCommandsAreReadAsTheyWereAppended(t *testing.T) {
	block := func(head []byte, value string) []byte {
		return meta.AppendBlock(meta.AppendEnd(head), []byte(value))
	}
	mg := meta.AppendFlag(meta.AppendWords(meta.AppendHead(nil, "mg", "k"), " v f c"), 'O', 7)
	ms := meta.AppendTime(meta.AppendNumber(meta.AppendHead(nil, "ms", "k"), 2), 'T', -1)
	bin := meta.AppendWords(meta.AppendBinaryHead(nil, "mg", "a b\r\n"), " b v")
	set := meta.AppendNumber(meta.AppendNumber(meta.AppendUint(meta.AppendHead(nil, "set", "k"), 5), 100), 2)
	cas := meta.AppendUint(meta.AppendNumber(meta.AppendNumber(meta.AppendUint(meta.AppendHead(nil, "cas", "k"), 5), -1), 2), 9)
	for _, tc := range []struct {
		wire []byte
		want string
	}{
		{meta.AppendEnd(mg), "mg k [] v f c O7 | 0 0 0 0 false  "},
		{block(ms, "hi"), "ms k [] T-1 | 0 0 0 0 false hi "},
		{meta.AppendEnd(bin), "mg a b\r\n [] b v | 0 0 0 0 false  "},
		{block(set, "hi"), "set k []  | 5 100 0 0 false hi "},
		{block(cas, "\r\n"), "cas k []  | 5 -1 9 0 false \r\n "},
		{block([]byte("add k 0 0 2 noreply"), "hi"), "add k []  | 0 0 0 0 true hi "},
		{[]byte("get a b c\r\n"), "get  [a b c]  | 0 0 0 0 false  "},
		{[]byte("gat 10 a\r\n"), "gat  [a]  | 0 10 0 0 false  "},
		{[]byte("incr k 18446744073709551615\r\n"), "incr k []  | 0 0 0 18446744073709551615 false  "},
		{[]byte("touch k 5\r\n"), "touch k []  | 0 5 0 0 false  "},
		{[]byte("delete k noreply\r\n"), "delete k []  | 0 0 0 0 true  "},
		{[]byte("stats settings\r\n"), "stats  [settings]  | 0 0 0 0 false  "},
		{[]byte("flush_all 10 noreply\r\n"), "flush_all  [10 noreply]  | 0 0 0 0 false  "},
		{[]byte(meta.NoOp), "mn  []  | 0 0 0 0 false  "},
		{[]byte("me k\r\n"), "me k []  | 0 0 0 0 false  "},
	} {
		r := meta.NewReader(bytes.NewReader(tc.wire), meta.Limits{})
		c, err := r.ReadCommand()
		got := fmt.Sprintf("%s %s %s %s | %d %d %d %d %v %s %s", c.Name, c.Key, c.Args, c.Flags, c.ClientFlags, c.Expiry, c.CAS, c.Delta, c.NoReply, c.Data, c.Refusal)
		if err != nil || got != tc.want {
			t.Errorf("%q: %q, %v instead of %q", tc.wire, got, err, tc.want)
		}
		if _, err := r.ReadCommand(); err != io.EOF {
			t.Errorf("%q: %v at the end", tc.wire, err)
		}
	}
}

// TestRefusedCommandsLeaveTheStreamInStep: the next command is read as such.
func TestRefusedCommandsLeaveTheStreamInStep(t *testing.T) {
	longGet := "get " + strings.Repeat("k", 251) + "\r\n"
	for wire, want := range map[string]string{
		"mg\r\n":                          "CLIENT_ERROR bad",
		"mg a v v\r\n":                    "CLIENT_ERROR invalid or dup",
		"mg !!! b\r\n":                    "CLIENT_ERROR bad",
		"ms a x\r\n":                      "CLIENT_ERROR bad",
		"ms a 2 T T\r\nhi\r\n":            "CLIENT_ERROR invalid or dup",
		"ms a 11\r\n01234567890\r\n":      "SERVER_ERROR object too large",
		"ms a 2\r\nhello\r\n":             "CLIENT_ERROR bad data chunk",
		"set a 0 0 11\r\n01234567890\r\n": "SERVER_ERROR object too large",
		"set a 0 0\r\n":                   "CLIENT_ERROR bad",
		"set a 0 0 -1\r\n":                "CLIENT_ERROR bad",
		"set a 0 99999999999 1\r\nx\r\n":  "CLIENT_ERROR bad",
		"get\r\n":                         "CLIENT_ERROR bad",
		longGet:                           "CLIENT_ERROR bad",
		"get a\x00b\r\n":                  "CLIENT_ERROR bad",
		"incr a x\r\n":                    "CLIENT_ERROR invalid numeric",
		"touch a\r\n":                     "CLIENT_ERROR bad",
	} {
		r := meta.NewReader(strings.NewReader(wire+"get next\r\n"), meta.Limits{Value: 10})
		if c, err := r.ReadCommand(); err != nil || !strings.HasPrefix(c.Refusal, want) {
			t.Errorf("%q: %q, %v", wire, c.Refusal, err)
		}
		if c, err := r.ReadCommand(); err != nil || c.Name != "get" || c.Refusal != "" {
			t.Errorf("behind %q: %q, %v", wire, c.Name, err)
		}
	}
}
