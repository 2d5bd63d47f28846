package codec_test

import (
	"bytes"
	"compress/flate"
	"encoding/binary"
	"errors"
	"math"
	"runtime"
	"slices"
	"testing"

	"github.com/strata-cache/strata/codec"
	"github.com/strata-cache/strata/internal/cache/envelope"
	"github.com/strata-cache/strata/internal/testing/kit"
)

// claim returns a compressed value of src that claims to be n bytes long.
func claim(n uint64, src []byte) []byte {
	return append(binary.AppendUvarint([]byte{asCompressed}, n), src...)
}

// deflated returns text compressed, without a length.
func deflated(t testing.TB, text []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	w, _ := flate.NewWriter(&b, flate.BestSpeed)
	if _, err := w.Write(text); err != nil || w.Close() != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// gigabyte returns the compressed form of n times 16 MiB of zeros.
func gigabyte(t testing.TB, n int) []byte {
	t.Helper()
	var b bytes.Buffer
	w, _ := flate.NewWriter(&b, flate.BestSpeed)
	if _, err := w.Write(make([]byte, 16<<20)); err != nil || w.Flush() != nil {
		t.Fatal(err)
	}
	part := slices.Clone(b.Bytes()) // after a Flush it may stand again
	b.Reset()
	if w.Close() != nil {
		t.Fatal("not closed")
	}
	return append(bytes.Repeat(part, n), b.Bytes()...)
}

func TestCompressedInputThatAppendCannotHaveWrittenIsRefused(t *testing.T) {
	text := bytes.Repeat([]byte("value "), 100)
	src, huge := deflated(t, text), gigabyte(t, 64)
	for what, tt := range map[string]struct {
		data []byte
		want error
	}{
		"nothing":                           {nil, codec.ErrShort},
		"unknown marker":                    {[]byte{2, 'a'}, codec.ErrMalformed},
		"no length":                         {[]byte{asCompressed}, codec.ErrShort},
		"half a length":                     {[]byte{asCompressed, 0x80}, codec.ErrShort},
		"length with leading zeros":         {append([]byte{asCompressed, 0xd8, 0x84, 0}, src...), codec.ErrMalformed},
		"length of more than 64 bits":       {append([]byte{asCompressed}, bytes.Repeat([]byte{0xff}, 11)...), codec.ErrMalformed},
		"not shorter":                       {claim(3, []byte{3, 0}), codec.ErrMalformed},
		"no bytes":                          {claim(100, nil), codec.ErrShort},
		"one byte more than claimed":        {claim(uint64(len(text))-1, src), codec.ErrLong},
		"one byte less than claimed":        {claim(uint64(len(text))+1, src), codec.ErrShort},
		"a byte behind the end":             {claim(uint64(len(text)), append(slices.Clone(src), 0)), codec.ErrLong},
		"no flate":                          {claim(100, []byte{0xff, 0xff, 0xff}), codec.ErrMalformed},
		"2^63 bytes are claimed":            {claim(1<<63, src), codec.ErrTooLarge},
		"2^64-1 bytes are claimed":          {claim(math.MaxUint64, src), codec.ErrTooLarge},
		"more than 64 KiB of few bytes":     {claim(64<<10+1, src), codec.ErrTooLarge},
		"the hundredfold and one":           {claim(100*1003+1, make([]byte, 1000)), codec.ErrTooLarge},
		"64 MiB and one":                    {claim(64<<20+1, huge), codec.ErrTooLarge},
		"1 GiB of zeros":                    {claim(1<<30, huge), codec.ErrTooLarge},
		"1 GiB, claimed to be 64 MiB":       {claim(64<<20, huge), codec.ErrLong},
		"1 GiB, claimed to be 2 MiB":        {claim(2<<20, huge), codec.ErrLong},
		"garbage that is said to be 64 MiB": {claim(64<<20, bytes.Repeat([]byte{0xff}, 1<<20)), codec.ErrMalformed},
	} {
		t.Run(what, func(t *testing.T) {
			v, err := compressedBytes(0).Decode(tt.data)
			var e *codec.Error
			if v != nil || !errors.Is(err, tt.want) || !errors.As(err, &e) || e.Codec != "bytes+flate" || e.Op != "decode" {
				t.Errorf("%d bytes, %v; want %v", len(v), err, tt.want)
			}
		})
	}
}

// TestMemoryFollowsTheBytesThatCome: the memory allocated for refused input depends on
// its length and on the bytes that it holds, not on the bytes that it claims.
func TestMemoryFollowsTheBytesThatCome(t *testing.T) {
	const mib = 1 << 20
	huge := gigabyte(t, 64)
	for what, tt := range map[string]struct {
		data []byte
		most uint64
	}{
		"1 GiB of zeros":              {claim(1<<30, huge), mib / 4},
		"1 GiB, claimed to be 64 MiB": {claim(64<<20, huge), 80 * mib},
		"1 GiB, claimed to be 2 MiB":  {claim(2<<20, huge), 3 * mib},
		"garbage of 64 MiB":           {claim(64<<20, bytes.Repeat([]byte{0xff}, mib)), 9 * mib},
		"little of much":              {claim(64<<20, slices.Concat(deflated(t, []byte("little")), make([]byte, mib))), 9 * mib},
		"few bytes":                   {claim(64<<10, []byte{3}), mib / 4},
	} {
		c := compressedBytes(0)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := c.Decode(tt.data)
		runtime.ReadMemStats(&after)
		if grown := after.TotalAlloc - before.TotalAlloc; err == nil || grown > tt.most {
			t.Errorf("%s: %v, %d bytes allocated; want an error and at most %d bytes", what, err, grown, tt.most)
		}
	}
}

// TestDamageOfACompressedValueIsFound cuts a value at each byte and flips each bit. The
// codec has no checksum. So a flipped bit may yield another value, as with the codec
// inside; but the envelope that a cache stores a value in does not open.
func TestDamageOfACompressedValueIsFound(t *testing.T) {
	for _, text := range kit.Texts()[2:] {
		data := appended(t, compressedBytes(0), text[:min(len(text), 60_000)])
		sealed := append(envelope.Begin(nil), data...)
		envelope.Seal(sealed, "key", 7, 0)
		for i := 0; i < len(data); i += 1 + len(data)/300 {
			if v, err := compressedBytes(0).Decode(data[:i:i]); data[0] == asCompressed && (err == nil || v != nil) {
				t.Fatalf("%d of %d bytes are accepted", i, len(data))
			}
			for bit := range 8 {
				flipped := bytes.Clone(data)
				flipped[i] ^= 1 << bit
				if v, err := compressedBytes(0).Decode(flipped); err != nil && v != nil || len(v) > max(64<<10, 100*len(data)) {
					t.Fatalf("bit %d of byte %d: %d bytes and %v", bit, i, len(v), err)
				}
				at := envelope.Overhead + i
				sealed[at] ^= 1 << bit
				if _, _, err := envelope.Open(sealed, "key", 7); err == nil {
					t.Fatalf("bit %d of byte %d: the envelope opens", bit, i)
				}
				sealed[at] ^= 1 << bit
			}
		}
	}
}

// FuzzDecodeCompressed decodes any bytes. An accepted value is not larger than the
// length of the input allows, and survives the round trip.
func FuzzDecodeCompressed(f *testing.F) {
	c := compressedBytes(0)
	f.Add(appended(f, c, nil))
	f.Add(appended(f, c, bytes.Repeat([]byte("value "), 10)))
	f.Add(appended(f, c, []byte(`{"a":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","b":"bbbbbbbbbbbbbbbbbbbbb","a":"aaaaaaaaaa"}`)))
	f.Add(claim(1<<63, deflated(f, []byte("value"))))
	f.Add(claim(64<<10, gigabyte(f, 0)))
	lent := c.(codec.Aliaser[[]byte])
	f.Fuzz(func(t *testing.T, data []byte) {
		v, err := c.Decode(data)
		if same, refused := lent.DecodeAlias(data); (refused == nil) != (err == nil) || !bytes.Equal(same, v) {
			t.Fatalf("Decode: %d bytes, %v; DecodeAlias: %d bytes, %v", len(v), err, len(same), refused)
		}
		if err != nil {
			var e *codec.Error
			if v != nil || !errors.As(err, &e) {
				t.Fatalf("%d bytes and %v", len(v), err)
			}
			return
		}
		if len(v) > max(64<<10, 100*len(data)) {
			t.Fatalf("%d bytes became %d", len(data), len(v))
		}
		settle(t, c, data)
	})
}

// FuzzCompress encodes any bytes, a number of times in a row.
func FuzzCompress(f *testing.F) {
	f.Add([]byte("value "), uint16(100), uint16(0))
	f.Add([]byte{0}, uint16(65535), uint16(5))
	f.Fuzz(func(t *testing.T, text []byte, times, min uint16) {
		text = bytes.Repeat(text, int(times)%(1+1<<20/(len(text)+1)))
		roundTrip(t, compressedBytes(int(min)), text)
	})
}
