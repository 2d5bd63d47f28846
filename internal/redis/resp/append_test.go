package resp_test

import (
	"bytes"
	"errors"
	"io"
	"math"
	"strings"
	"testing"

	"github.com/strata-cache/strata/internal/redis/resp"
)

func TestAppendCommandWritesEveryType(t *testing.T) {
	got, err := resp.AppendCommand([]byte("x"), "SET", []byte("k"), -1, int8(-8), int16(16), int32(32), int64(math.MinInt64),
		uint(1), uint8(8), uint16(16), uint32(32), uint64(math.MaxUint64), 1.5, float32(0.1), math.Inf(-1), true, false)
	if err != nil {
		t.Fatal(err)
	}
	args, err := resp.NewReader(bytes.NewReader(got[1:]), resp.Limits{}).ReadCommand()
	want := "SET k -1 -8 16 32 -9223372036854775808 1 8 16 32 18446744073709551615 1.5 0.1 -inf 1 0"
	if text := string(bytes.Join(args, []byte(" "))); err != nil || text != want {
		t.Errorf("got %s, %v\nwant %s", text, err, want)
	}
}

func TestAppendCommandRefusesOtherTypes(t *testing.T) {
	for _, arg := range []any{nil, struct{ Secret string }{"hidden"}, []string{"a"}, new(int)} {
		got, err := resp.AppendCommand([]byte("x"), "SET", "k", arg)
		if err == nil || string(got) != "x" || strings.Contains(err.Error(), "hidden") {
			t.Errorf("%T: %q, %v", arg, got, err)
		}
	}
}

func TestLineEndsCannotLeaveALine(t *testing.T) {
	wire := resp.AppendError(resp.AppendStatus(nil, "a\r\n+b"), "ERR \n-c\r")
	r := resp.NewReader(bytes.NewReader(wire), resp.Limits{})
	for _, want := range []string{"a  +b", "ERR  -c "} {
		if v, err := r.Read(); err != nil || string(v.Bytes()) != want {
			t.Errorf("got %q, %v", v.Bytes(), err)
		}
	}
	if _, err := r.Read(); err != io.EOF {
		t.Errorf("more than two lines: %v", err)
	}
}

func TestAppendedValuesReadBack(t *testing.T) {
	b := resp.AppendArray(nil, 9)
	b = resp.AppendMap(b, 1)
	b = resp.AppendBulk(b, []byte("k"))
	b = append(b, "=5\r\ntxt:v\r\n~1\r\n"...)
	b = resp.AppendInt(b, -3)
	b = resp.AppendNull(b)
	b = resp.AppendNull3(b)
	b = resp.AppendBool(b, true)
	b = resp.AppendBool(b, false)
	b = append(b, ",inf\r\n,0.1\r\n"...)
	b = append(resp.AppendBulkHeader(b, 2), "hi\r\n"...)
	b = append(resp.AppendPush(b, 1), ":1\r\n"...)
	r := resp.NewReader(bytes.NewReader(b), resp.Limits{})
	v, err := r.Read()
	if err != nil {
		t.Fatal(err)
	}
	var kinds []string
	for e := range v.Elems() {
		kinds = append(kinds, e.Kind().String())
	}
	want := "map set null null boolean boolean double double string"
	if got := strings.Join(kinds, " "); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if v, err := r.Read(); err != nil || v.Kind() != resp.Push || v.Len() != 1 {
		t.Errorf("push: %v %d, %v", v.Kind(), v.Len(), err)
	}
}

func TestReadCommandRefusesOtherValues(t *testing.T) {
	for _, wire := range []string{"PING\r\n", "*0\r\n", "*-1\r\n", "$4\r\nPING\r\n", "*1\r\n:1\r\n", "*1\r\n$-1\r\n", "%1\r\n$1\r\na\r\n$1\r\nb\r\n"} {
		_, err := resp.NewReader(strings.NewReader(wire), resp.Limits{}).ReadCommand()
		var broken *resp.ProtocolError
		if !errors.As(err, &broken) {
			t.Errorf("%q: %v", wire, err)
		}
	}
}

func FuzzReadCommand(f *testing.F) {
	for _, s := range []string{
		"*1\r\n$4\r\nPING\r\n", "*2\r\n$3\r\nGET\r\n$-5\r\n", "*1000000000\r\n", "*1\r\n$4611686018427387904\r\n",
		"*1\r\n$99999999999999999999999\r\n", "*1\r\n$4294967296\r\nabc", strings.Repeat("*1\r\n", 1000), "*1\r\n$3\r\nabcXX", "PING\r\n",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		r := resp.NewReader(bytes.NewReader(data), resp.Limits{})
		used := 0
		for {
			args, err := r.ReadCommand()
			if err != nil {
				return
			}
			if len(args) == 0 {
				t.Fatal("a command without arguments")
			}
			wire := resp.AppendArray(nil, len(args))
			for _, a := range args {
				wire = resp.AppendBulk(wire, a)
			}
			// Only a length with leading zeros has two encodings.
			if used += len(wire); used > len(data) {
				t.Fatalf("%d bytes of arguments in %d bytes", used, len(data))
			}
		}
	})
}

func FuzzCommandRoundTrip(f *testing.F) {
	f.Add("SET", []byte("a\r\nb"), int64(-1), 1.5, true)
	f.Add("", []byte(nil), int64(math.MinInt64), math.Inf(1), false)
	f.Add("$-5\r\n", bytes.Repeat([]byte{0}, 70_000), int64(0), math.NaN(), true)
	f.Fuzz(func(t *testing.T, name string, data []byte, n int64, x float64, yes bool) {
		wire, err := resp.AppendCommand(nil, name, data, n, x, yes)
		if err != nil {
			t.Fatal(err)
		}
		r := resp.NewReader(bytes.NewReader(wire), resp.Limits{})
		args, err := r.ReadCommand()
		if err != nil || len(args) != 5 || string(args[0]) != name || !bytes.Equal(args[1], data) {
			t.Fatalf("%q, %v", args, err)
		}
		if _, err := r.ReadCommand(); err != io.EOF {
			t.Fatalf("more than one command: %v", err)
		}
	})
}
