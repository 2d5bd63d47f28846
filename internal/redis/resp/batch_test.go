package resp_test

import (
	"bytes"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/strata-cache/strata/internal/redis/resp"
	"github.com/strata-cache/strata/internal/testing/kit"
)

// pieces joins the pieces of a batch.
func pieces(t *testing.T, b *resp.Batch, s *resp.Steps) []byte {
	t.Helper()
	var all []byte
	p := b.Pieces(s)
	for piece := p.Next(); len(piece) > 0; piece = p.Next() {
		if len(piece) > 32<<10 {
			t.Fatalf("a piece of %d bytes", len(piece))
		}
		all = append(all, piece...)
	}
	p.Release()
	return all
}

func TestBatchIsItsCommandsOneByOne(t *testing.T) {
	var steps resp.Steps
	var b resp.Batch
	sizes := []int{0, 1, 100, 4095, 4096, 5000, 16 << 10, 32<<10 - 1, 32 << 10, 32<<10 + 1, 100_000}
	for seed := range uint64(kit.Rounds(300)) {
		rng := rand.New(rand.NewPCG(seed, 0))
		b.Reset()
		var want []byte
		var ends []int
		for range rng.IntN(20) {
			key, ttl := string(make([]byte, rng.IntN(50))), time.Duration(rng.IntN(2))*time.Second
			value := bytes.Repeat([]byte{'a' + byte(rng.IntN(20))}, sizes[rng.IntN(len(sizes))])
			b.Text = resp.AppendSetHead(b.Text, key, ttl)
			b.String(value)
			b.Text = resp.AppendLife(b.Text, ttl)
			b.End()
			args := []any{"SET", key, value}
			if ttl > 0 {
				args = append(args, "PX", 1000)
			}
			want, _ = resp.AppendCommand(want, args...)
			ends = append(ends, len(want))
		}
		if got := pieces(t, &b, &steps); !bytes.Equal(got, want) {
			t.Fatalf("seed %d: %d bytes, want %d", seed, len(got), len(want))
		}
		if got := pieces(t, &b, &steps); !bytes.Equal(got, want) {
			t.Fatalf("seed %d: other bytes the second time", seed)
		}
		if b.Size() != int64(len(want)) || b.Len() != len(ends) {
			t.Fatalf("seed %d: size %d, length %d", seed, b.Size(), b.Len())
		}
		var again resp.Batch
		for i := range ends {
			again.AddFrom(&b, i)
		}
		if got := pieces(t, &again, &steps); !bytes.Equal(got, want) || again.Size() != b.Size() {
			t.Fatalf("seed %d: added one by one: %d bytes, want %d", seed, len(got), len(want))
		}
		flat := resp.BatchOf(want, len(ends))
		if flat.Len() != len(ends) {
			t.Fatalf("seed %d: %d commands found", seed, flat.Len())
		}
		for i, end := range ends {
			if b.EndOf(i) != int64(end) || flat.EndOf(i) != int64(end) {
				t.Fatalf("seed %d: command %d ends at %d and %d, want %d", seed, i, b.EndOf(i), flat.EndOf(i), end)
			}
		}
	}
}

func TestBatchDropsItsReferences(t *testing.T) {
	var b resp.Batch
	value := make([]byte, 10_000)
	b.String(value)
	b.End()
	value[0] = 'x' // the Batch refers to value
	if got := pieces(t, &b, nil); got[8] != 'x' {
		t.Errorf("%q", got[:10])
	}
	b.Reset()
	if b.Len() != 0 || b.Size() != 0 || len(pieces(t, &b, nil)) != 0 {
		t.Errorf("%d commands, %d bytes", b.Len(), b.Size())
	}
}
