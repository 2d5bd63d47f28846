package meta_test

import (
	"bytes"
	"errors"
	"io"
	"testing"
	"testing/iotest"

	"github.com/strata-cache/strata/internal/memcached/meta"
)

// FuzzReply compares the ways to read replies: whole, in pieces, line by line.
func FuzzReply(f *testing.F) {
	for _, rec := range recorded {
		f.Add([]byte(rec.raw))
	}
	f.Add([]byte("VALUE a 0 1 18446744073709551615\r\nx\r\nVALUE b 0 1 007\r\ny\r\nEND\r\n"))
	f.Add([]byte("VALUE a 0 1\r\nx\r\nEND\r\nVA 3 O1\r\nabc\r\nMN\r\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		lim := meta.Limits{Value: 1 << 16, Reply: 1 << 17}
		r, pieces := meta.NewReader(bytes.NewReader(data), lim), meta.NewReader(iotest.OneByteReader(bytes.NewReader(data)), lim)
		lines, short := meta.NewReader(bytes.NewReader(data), lim), meta.NewReader(bytes.NewReader(data), lim)
		for total := 0; ; {
			raw, err := next(r)
			part, err2 := next(pieces)
			if !bytes.Equal(raw, part) || kind(err) != kind(err2) {
				t.Fatalf("%q, %v at once; %q, %v by pieces", raw, err, part, err2)
			}
			if err != nil {
				return
			}
			if total += len(raw); !bytes.HasPrefix(data[total-len(raw):], raw) {
				t.Fatalf("%q is not what was sent", raw)
			}
			for rest := raw; len(rest) > 0; {
				var want meta.Reply
				want, rest = meta.Parse(rest)
				got, err := lines.Read()
				if err != nil || got.Kind != want.Kind || got.Size != want.Size || !bytes.Equal(got.Flags, want.Flags) {
					t.Fatalf("%q: %+v, %v by lines", raw, got, err)
				}
				if got.Size >= 0 {
					if value, err := lines.Append(nil, got.Size); err != nil || !bytes.Equal(value, want.Data) {
						t.Fatalf("%q: %q, %v by lines", raw, value, err)
					}
				}
				sameByItems(t, short, &want)
			}
		}
	})
}

// sameByItems reads the reply want again, by TakeItem if TakeItem takes it.
func sameByItems(t *testing.T, r *meta.Reader, want *meta.Reply) {
	t.Helper()
	if r.Buffered() == 0 {
		if err := r.Wait(); err != nil {
			t.Fatal(err)
		}
	}
	flags, size, cas, ok := r.TakeItem(string(want.Key))
	switch {
	case ok && (want.Kind != meta.Item || flags != want.ClientFlags || size != want.Size || cas != want.Number):
		t.Fatalf("%+v: an item of %d bytes with flags %d was taken", want, size, flags)
	case !ok:
		if _, err := r.Read(); err != nil {
			t.Fatalf("%+v: %v", want, err)
		}
	}
	if want.Size >= 0 {
		if value, err := r.Append(nil, want.Size); err != nil || !bytes.Equal(value, want.Data) {
			t.Fatalf("%+v: value %q, %v", want, value, err)
		}
	}
}

// kind is how a stream ends.
func kind(err error) string {
	switch {
	case err == nil:
		return ""
	case errors.As(err, new(*meta.ProtocolError)):
		return "broken"
	case errors.Is(err, io.EOF):
		return "end"
	}
	return err.Error()
}

// FuzzCommand reads any bytes as commands. A command with any key and value is read
// as it was written, and so is a value with its key in front.
func FuzzCommand(f *testing.F) {
	f.Add([]byte("mg a v O1\r\nms a 2 T0\r\nhi\r\n"), "a key", []byte("value"))
	f.Add([]byte("set a 0 0 2 noreply\r\nhi\r\nget a b\r\n"), "\r\n", []byte{})
	f.Add([]byte("cas a 0 0 2 7\r\nhix\r\ngat 1 a\r\nincr a 1\r\n"), "", []byte("\r\n"))
	f.Fuzz(func(t *testing.T, data []byte, key string, value []byte) {
		r := meta.NewReader(bytes.NewReader(data), meta.Limits{Value: 1 << 16})
		for {
			c, err := r.ReadCommand()
			if err != nil {
				break
			}
			for _, k := range c.Args {
				if len(k) == 0 {
					t.Fatalf("%q has an empty word", data)
				}
			}
		}
		for c := meta.Plain; c <= meta.Hashed; c++ {
			k, ok := meta.KeyOf(c, key)
			if !ok {
				continue
			}
			if got, ok := k.Open(append(k.Front(), value...)); !ok || !bytes.Equal(got, value) {
				t.Fatalf("%q under %q: %q, %v", value, key, got, ok)
			}
			if got, ok := k.Open(data); ok && !bytes.HasSuffix(data, got) {
				t.Fatalf("%q is a value of %q", data, key)
			}
		}
		if len(key) == 0 || len(key) > meta.MaxBinaryKey || len(value) > 1<<16 {
			return
		}
		wire := meta.AppendUint(meta.AppendBinaryHead(nil, "ms", key), uint64(len(value)))
		wire = meta.AppendBlock(meta.AppendEnd(meta.AppendWords(wire, " b")), value)
		r = meta.NewReader(bytes.NewReader(append(wire, meta.NoOp...)), meta.Limits{})
		c, err := r.ReadCommand()
		if err != nil || c.Refusal != "" || string(c.Key) != key || !bytes.Equal(c.Data, value) {
			t.Fatalf("%q: %+v, %v", wire, c, err)
		}
		if c, err := r.ReadCommand(); c.Name != "mn" || err != nil {
			t.Fatalf("behind %q: %+v, %v", wire, c, err)
		}
	})
}
