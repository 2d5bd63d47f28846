package kit

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/strata-cache/strata/codec"
)

// Texts returns byte strings that compress very well, well and not at all, from empty
// ones to some of several blocks.
func Texts() [][]byte {
	rows := []byte(strings.Repeat(`{"id":7,"name":"lamp","in_stock":true},`, 40))
	noise := make([]byte, 3000)
	r := rand.New(rand.NewPCG(1, 2))
	for i := range noise {
		noise[i] = byte(r.Uint32())
	}
	return [][]byte{{}, []byte("a"), rows, noise, slices.Concat(rows, noise, rows), make([]byte, 300_000)}
}

// CheckCompressor checks that c keeps the promises of [codec.Compressor].
func CheckCompressor(t *testing.T, c codec.Compressor) {
	for _, text := range Texts() {
		short := compress(t, c, text)
		checkRoom(t, c, text, short)
		checkDamage(t, c, text, short)
	}
}

func compress(t *testing.T, c codec.Compressor, text []byte) []byte {
	t.Helper()
	out, err := c.Compress([]byte("prefix"), text)
	short, ok := bytes.CutPrefix(out, []byte("prefix"))
	if err != nil || !ok {
		t.Fatalf("Compress: %v, %.20q; want the prefix and no error", err, out)
	}
	return short
}

// checkRoom decompresses into buffers with exactly enough room, with more, and with too little.
func checkRoom(t *testing.T, c codec.Compressor, text, short []byte) {
	t.Helper()
	for _, more := range []int{0, 1, 5000} {
		if got, err := expand(t, c, short, len(text)+more); err != nil || !bytes.Equal(got, text) {
			t.Fatalf("Decompress of %d bytes with room for %d more: %d bytes, %v", len(text), more, len(got), err)
		}
	}
	for _, room := range []int{len(text) - 1, len(text) / 2, 0} {
		if room < 0 || len(text) == 0 {
			continue
		}
		if _, err := expand(t, c, short, room); !errors.Is(err, io.ErrShortBuffer) {
			t.Fatalf("Decompress of %d bytes with room for %d: %v; want io.ErrShortBuffer", len(text), room, err)
		}
	}
}

// checkDamage decompresses cut, lengthened and damaged input.
func checkDamage(t *testing.T, c codec.Compressor, text, short []byte) {
	t.Helper()
	step := max(1, len(short)/Rounds(60))
	for n := 0; n < len(short); n += step {
		refused(t, c, short[:n:n], len(text), "cut")
		for bit := range 8 {
			damaged := bytes.Clone(short)
			damaged[n] ^= 1 << bit
			_, _ = expand(t, c, damaged, len(text)) // any result, within the room
		}
	}
	for _, tail := range [][]byte{{0}, {1, 2, 3, 4}, short} {
		refused(t, c, slices.Concat(short, tail), 2*len(text)+100, "longer")
	}
}

// refused fails t unless input is refused for one of the reasons of package codec.
func refused(t *testing.T, c codec.Compressor, input []byte, room int, how string) {
	t.Helper()
	_, err := expand(t, c, input, room)
	if !errors.Is(err, codec.ErrShort) && !errors.Is(err, codec.ErrLong) && !errors.Is(err, codec.ErrMalformed) {
		t.Fatalf("input of %d bytes that is %s: %v; want a reason of package codec", len(input), how, err)
	}
}

// expand decompresses to memory with room bytes, and fails t if any other is written.
func expand(t *testing.T, c codec.Compressor, short []byte, room int) ([]byte, error) {
	t.Helper()
	const head, guard = "head", "guard"
	memory := slices.Concat([]byte(head), make([]byte, room), []byte(guard))
	end := len(head) + room
	out, err := c.Decompress(memory[:len(head):end], short)
	if string(memory[end:]) != guard || string(memory[:len(head)]) != head {
		t.Fatalf("Decompress has written outside of its room of %d bytes", room)
	}
	if err != nil {
		return nil, err
	}
	if len(out) > end || &out[0] != &memory[0] {
		t.Fatalf("Decompress has left its room of %d bytes", room)
	}
	return out[len(head):], nil
}

// Length is a writer that counts the bytes and keeps none.
type Length int

// Write implements io.Writer.
func (l *Length) Write(p []byte) (int, error) {
	*l += Length(len(p))
	return len(p), nil
}
