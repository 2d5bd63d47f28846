package bytestore

import (
	"bytes"
	"flag"
	"math/rand/v2"
	"testing"
)

// FuzzOps runs operations that data describes, three bytes each, and compares the store with a map: a value
// is the last one of its key, or gone. Keys and sizes are few, so that operations meet.
func FuzzOps(f *testing.F) {
	f.Add([]byte("\x00\x01\x02\x01\x01\x02\x02\x01\x02\x03\x01\x02"))
	f.Add(bytes.Repeat([]byte("\x00\x01\xff\x10\x02\xee\x01\x01\x00"), 100))
	f.Fuzz(play)
}

// play runs the operations that data describes.
func play(t *testing.T, data []byte) {
	c, model := newStore(t, MinBudget), map[string][]byte{}
	for n := 0; len(data) >= 3; n++ {
		op, key, size := data[0]%16, data[1:2], int(data[2])<<(data[0]>>4&7)
		data = data[3:]
		if op >= 8 {
			change(t, c, model, op, key, byte(n))
			continue
		}
		switch op {
		case 0:
			c.Delete(key)
			delete(model, string(key))
		case 1, 2, 3:
			v, ok := c.AppendGet(nil, key)
			if want, had := model[string(key)]; ok && (!had || !bytes.Equal(v, want)) {
				t.Fatalf("operation %d: %d bytes, not %d, %v", n, len(v), len(want), had)
			}
		case 4:
			_ = c.Resize(MinBudget + int64(size))
		default:
			v := bytes.Repeat([]byte{byte(n)}, size)
			if model[string(key)] = v; !c.Set(key, v, 0) {
				delete(model, string(key))
			}
			if got, ok := c.AppendGet(nil, key); ok != (model[string(key)] != nil) || ok && !bytes.Equal(got, v) {
				t.Fatalf("operation %d: %d of %d bytes, %v, after they were stored", n, len(got), size, ok)
			}
		}
	}
	check(t, c)
}

// programs and programSeed are for long runs of TestRandomProgramsAgreeWithAMap.
var (
	programs    = flag.Int("programs", 2000, "number of random programs of operations that the store is put through")
	programSeed = flag.Uint64("seed", 1, "the seed of these programs")
)

// TestRandomProgramsAgreeWithAMap plays programs of FuzzOps at random, many times as fast as the fuzzer,
// which looks at the code that each of them reaches.
func TestRandomProgramsAgreeWithAMap(t *testing.T) {
	for n := 0; n < *programs && !t.Failed(); n++ {
		r := rand.New(rand.NewPCG(*programSeed, uint64(n)))
		program := make([]byte, 3*r.IntN(1+r.IntN(300)))
		for i := range program {
			program[i] = byte(r.Uint32())
		}
		// Half of the programs have a few keys, so that operations meet, and half have small values.
		if r.IntN(2) == 0 {
			for i := 1; i < len(program); i += 3 {
				program[i] %= 8
			}
		}
		if r.IntN(2) == 0 {
			for i := 0; i < len(program); i += 3 {
				program[i] &= 0x1f
			}
		}
		func() {
			defer func() {
				if t.Failed() {
					t.Logf("program %d of seed %d: %v", n, *programSeed, program)
				}
			}()
			play(t, program)
		}()
	}
}
