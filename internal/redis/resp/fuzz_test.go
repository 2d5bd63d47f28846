package resp_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/strata-cache/strata/internal/redis/resp"
)

func FuzzCommand(f *testing.F) {
	f.Add([]byte("SET\x00key\x00value"), 1)
	f.Add([]byte("*1\r\n$4\r\nPING\r\n"), 0)
	f.Add([]byte("$-1\r\n"), 2)
	f.Fuzz(func(t *testing.T, data []byte, keys int) {
		// Arguments with any bytes are read unchanged.
		var args []any
		for part := range bytes.SplitSeq(data, []byte{0}) {
			args = append(args, part)
		}
		same := func(wire []byte, from int, want []any) {
			got, err := resp.NewReader(bytes.NewReader(wire), resp.Limits{}).ReadCommand()
			if err != nil || len(got) != from+len(want) {
				t.Fatalf("%q: %d arguments, %v", wire, len(got), err)
			}
			for i, a := range want {
				if !bytes.Equal(got[from+i], a.([]byte)) {
					t.Fatalf("argument %d: %q, want %q", i, got[from+i], a)
				}
			}
			if b := resp.BatchOf(append(wire, wire...), 2); b.Len() != 2 || b.EndOf(0) != int64(len(wire)) {
				t.Fatalf("%q twice is %d commands", wire, b.Len())
			}
		}
		wire, err := resp.AppendCommand(nil, args...)
		if err != nil {
			t.Fatal(err)
		}
		same(wire, 0, args)
		names := make([]string, min(max(keys, 0), 20))
		if wire, err = resp.AppendEval(nil, "EVAL", string(data), names, args); err != nil {
			t.Fatal(err)
		}
		same(wire, 3+len(names), args)
		// Input other than a command causes at most an error.
		r := resp.NewReader(bytes.NewReader(data), resp.Limits{})
		for range 100 {
			if got, err := r.ReadCommand(); err != nil || len(got) == 0 {
				break
			}
		}
	})
}

func FuzzURL(f *testing.F) {
	for _, s := range []string{
		"redis://", "redis://user:S3cret@host:1/2", "rediss://:S3cret@[::1]:6379?db=1", "unix://u:S3cret@/run/s.sock?db=2", "redis://h?S3cret=1", "redis://h?timeout=S3cret", "redis://a,S3cret?cluster=true",
		"redis://u:S3cret/x@h", "redis://u:S3cret%zz@h",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		e, err := resp.ParseURL(s)
		if err != nil {
			if strings.Contains(s, "S3cret") && strings.Contains(err.Error(), "S3cret") {
				t.Errorf("%q: the error holds a part of it: %v", s, err)
			}
			return
		}
		if (e.Path == "") != (e.Host != "" && e.Port != "") || e.DB < 0 {
			t.Errorf("%q is %+v", s, e)
		}
	})
}

func FuzzPublished(f *testing.F) {
	f.Add([]byte(">3\r\n$7\r\nmessage\r\n$1\r\na\r\n$1\r\nb\r\n"))
	f.Add([]byte("*3\r\n$9\r\nsubscribe\r\n$1\r\na\r\n:1\r\n"))
	f.Add([]byte(">2\r\n$7\r\nmessage\r\n:1\r\n"))
	f.Add([]byte(">4\r\n$8\r\npmessage\r\n$1\r\n*\r\n$1\r\na\r\n$1\r\nb\r\n"))
	f.Add([]byte(">3\r\n$12\r\nsunsubscribe\r\n$1\r\na\r\n:0\r\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		r := resp.NewReader(bytes.NewReader(data), resp.Limits{})
		for {
			v, err := r.Read()
			if err != nil {
				return
			}
			p, err := v.Published()
			kinds := 0
			for _, is := range []bool{p.Ack, p.Ended, p.Message, err != nil} {
				if is {
					kinds++
				}
			}
			if kinds > 1 || p.Message && (p.Channel == nil || p.Payload == nil) {
				t.Errorf("%q: %+v, %v", data, p, err)
			}
		}
	})
}

func FuzzTransaction(f *testing.F) {
	f.Add([]byte("+OK\r\n+QUEUED\r\n-ERR x\r\n-EXECABORT\r\n"), 2)
	f.Add([]byte("+OK\r\n+QUEUED\r\n*1\r\n+OK\r\n"), 1)
	f.Add([]byte("-LOADING\r\n+OK\r\n-ERR EXEC without MULTI\r\n"), 1)
	f.Add([]byte("+OK\r\n+QUEUED\r\n*-1\r\n"), 1)
	f.Fuzz(func(t *testing.T, data []byte, n int) {
		if n < 0 || n > 100 {
			return
		}
		r := resp.NewReader(bytes.NewReader(data), resp.Limits{})
		tx := resp.Transaction{N: n}
		for range n + 2 {
			v, err := r.Read()
			if err == nil {
				err = tx.Hear(v)
			}
			if err != nil {
				return
			}
		}
		refused := len(tx.Refused) > 0
		switch tx.Outcome {
		case resp.Executed:
			if refused || tx.Values.Len() != n {
				t.Errorf("executed with %d replies of %d, refused %v", tx.Values.Len(), n, refused)
			}
		case resp.Changed:
			if refused {
				t.Error("changed and refused")
			}
		case resp.Aborted, resp.Loose:
			if !refused || tx.Refused[0].I < -1 || tx.Refused[0].I > n {
				t.Errorf("refused: %v", tx.Refused)
			}
		default:
			t.Errorf("outcome %d", tx.Outcome)
		}
	})
}
