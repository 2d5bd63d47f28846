package zstd_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"testing"

	kzstd "github.com/klauspost/compress/zstd"

	"github.com/strata-cache/strata/codec"
	"github.com/strata-cache/strata/contrib/zstd"
	"github.com/strata-cache/strata/internal/testing/kit"
	"github.com/strata-cache/strata/stratatest"
)

func compressedBytes() codec.Codec[[]byte] { return codec.Compressed(codec.Bytes(), 0, zstd.New()) }

// claim returns a compressed value of src that claims to be n bytes long.
func claim(n uint64, src []byte) []byte {
	return append(binary.AppendUvarint([]byte{1}, n), src...)
}

// frame returns text compressed with options of the caller.
func frame(t testing.TB, text []byte, options ...kzstd.EOption) []byte {
	t.Helper()
	e, err := kzstd.NewWriter(nil, append(options, kzstd.WithEncoderConcurrency(1))...)
	if err != nil {
		t.Fatal(err)
	}
	return e.EncodeAll(text, nil)
}

// zeros returns a frame of n blocks of 128 KiB of zeros, each of four bytes.
func zeros(n int) []byte {
	const header, repeat = "\x28\xb5\x2f\xfd\x00\x38", 128<<10<<3 | 1<<1 // window of 128 KiB, no length
	b := []byte(header)
	for i := range n {
		block := uint32(repeat)
		if i == n-1 {
			block |= 1
		}
		b = append(binary.LittleEndian.AppendUint32(b, block)[:len(b)+3], 0)
	}
	return b
}

func TestZstdKeepsThePromisesOfACompressor(t *testing.T) {
	kit.CheckCompressor(t, zstd.New())
}

func TestCompressedValuesConform(t *testing.T) {
	stratatest.TestCodec(t, compressedBytes(), kit.Texts()...)
	if name := compressedBytes().Name(); name != "bytes+zstd" {
		t.Errorf("named %q", name)
	}
}

func TestLargeValuesSurviveTheRoundTrip(t *testing.T) {
	var text []byte
	for i := range 150_000 { // several windows
		text = fmt.Appendf(text, `{"id":%d,"name":"lamp %d"},`, i*i, i%1000)
	}
	data, err := compressedBytes().Append(nil, text)
	if err != nil || len(data)*4 > len(text) {
		t.Fatalf("%d bytes became %d, %v", len(text), len(data), err)
	}
	if got, err := compressedBytes().Decode(data); err != nil || !bytes.Equal(got, text) {
		t.Fatalf("%d bytes, %v; want %d", len(got), err, len(text))
	}
}

func TestFramesThatCompressCannotHaveWrittenAreRefused(t *testing.T) {
	text := bytes.Repeat([]byte("value "), 1000)
	plain := frame(t, text, kzstd.WithEncoderCRC(false))
	skipped := []byte("\x50\x2a\x4d\x18\x01\x00\x00\x00x")
	far := bytes.Clone(zeros(1))
	far[5] = 0x80 // a window of 64 MiB
	for what, tt := range map[string]struct {
		src  []byte
		want error
	}{
		"nothing":                  {nil, codec.ErrShort},
		"no frame":                 {[]byte("no frame of this kind"), codec.ErrMalformed},
		"a header":                 {plain[:6], codec.ErrShort},
		"a byte less":              {plain[:len(plain)-1], codec.ErrShort},
		"a byte more":              {append(bytes.Clone(plain), 0), codec.ErrLong},
		"two frames":               {slices.Concat(plain, plain), codec.ErrLong},
		"an empty frame behind it": {slices.Concat(plain, frame(t, nil, kzstd.WithZeroFrames(true))), codec.ErrLong},
		"skipped bytes behind it":  {slices.Concat(plain, skipped), codec.ErrLong},
		"skipped bytes before it":  {slices.Concat(skipped, plain), codec.ErrMalformed},
		"a checksum":               {frame(t, text), codec.ErrMalformed},
		"a dictionary":             {frame(t, text, kzstd.WithEncoderCRC(false), kzstd.WithEncoderDictRaw(7, text[:99])), codec.ErrMalformed},
		"a window of 64 MiB":       {far, codec.ErrMalformed},
	} {
		if out, err := zstd.New().Decompress(make([]byte, 0, 1<<20), tt.src); !errors.Is(err, tt.want) {
			t.Errorf("%s: %d bytes, %v; want %v", what, len(out), err, tt.want)
		}
	}
}

// TestMemoryFollowsTheBytesThatCome: the memory allocated for a bomb depends on its
// length and on the bytes that it really holds.
func TestMemoryFollowsTheBytesThatCome(t *testing.T) {
	const mib = 1 << 20
	huge := zeros(8192) // 1 GiB in 32 KiB
	for what, tt := range map[string]struct {
		data []byte
		want error
		most uint64
	}{
		"1 GiB of zeros":             {claim(1<<30, huge), codec.ErrTooLarge, mib / 4},
		"2^63 bytes":                 {claim(1<<63, huge), codec.ErrTooLarge, mib / 4},
		"1 GiB, claimed to be 3 MiB": {claim(3*mib, huge), codec.ErrLong, 8 * mib},
		"garbage":                    {claim(3*mib, append(zeros(1)[:6], slices.Concat([]byte{0x05, 0xe2, 0x04}, bytes.Repeat([]byte{0xfc}, 40_000))...)), codec.ErrMalformed, mib},
	} {
		c := compressedBytes()
		_, _ = c.Decode(claim(100, zeros(1))) // makes a decoder
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := c.Decode(tt.data)
		runtime.ReadMemStats(&after)
		if grown := after.TotalAlloc - before.TotalAlloc; !errors.Is(err, tt.want) || grown > tt.most {
			t.Errorf("%s: %v, %d bytes allocated; want %v and at most %d bytes", what, err, grown, tt.want, tt.most)
		}
	}
}

func TestZerosAreReadWhereTheyFit(t *testing.T) {
	if out, err := zstd.New().Decompress(make([]byte, 0, 256<<10), zeros(2)); err != nil || len(out) != 256<<10 {
		t.Errorf("%d bytes, %v: the frames of this test are damaged", len(out), err)
	}
}

func TestCompressionStartsNoGoroutines(t *testing.T) {
	before := runtime.NumGoroutine()
	c := compressedBytes()
	for _, text := range kit.Texts() {
		data, err := c.Append(nil, text)
		if err == nil {
			_, err = c.Decode(data)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	// The runtime may count a goroutine of its own for a moment; one of the codec would stay.
	n := runtime.NumGoroutine()
	for range 1000 {
		if n <= before {
			return
		}
		runtime.Gosched()
		n = runtime.NumGoroutine()
	}
	t.Errorf("%d goroutines more", n-before)
}

// FuzzDecodeZstd decodes any bytes. An accepted value is not larger than the length of
// the input allows, and survives the round trip.
func FuzzDecodeZstd(f *testing.F) {
	c := compressedBytes()
	f.Add(claim(600, frame(f, bytes.Repeat([]byte("value "), 100), kzstd.WithEncoderCRC(false))))
	f.Add(claim(128<<10, zeros(1)))
	f.Add(claim(64<<10, zeros(1)[:6]))
	f.Fuzz(func(t *testing.T, data []byte) {
		v, err := c.Decode(data)
		var e *codec.Error
		switch {
		case err != nil && (v != nil || !errors.As(err, &e)):
			t.Fatalf("%d bytes and %v", len(v), err)
		case err != nil:
			return
		case len(v) > max(64<<10, 100*len(data)):
			t.Fatalf("%d bytes became %d", len(data), len(v))
		}
		again, err := c.Append(nil, v)
		if got, refused := c.Decode(again); err != nil || refused != nil || !bytes.Equal(got, v) {
			t.Fatalf("%v, %v: %d bytes became %d", err, refused, len(v), len(got))
		}
	})
}
