package envelope_test

import (
	"bytes"
	"errors"
	"testing"

	"github.com/strata-cache/strata/internal/cache/envelope"
)

func seal(key string, schema uint64, f envelope.Flags, payload []byte) []byte {
	b := envelope.Begin(nil)
	b = append(b, payload...)
	envelope.Seal(b, key, schema, f)
	return b
}

func TestEnvelopeReturnsTheSealedValue(t *testing.T) {
	long := string(bytes.Repeat([]byte("k"), 1000))
	tests := []struct {
		name    string
		key     string
		schema  uint64
		flags   envelope.Flags
		payload []byte
	}{
		{"plain", "user:1", 7, 0, []byte("hello")},
		{"empty payload", "user:1", 7, 0, nil},
		{"not found", "user:1", 7, envelope.NotFound, nil},
		{"empty key", "", 0, 0, []byte{0}},
		{"long key", long, 1 << 63, 0, bytes.Repeat([]byte{0xC5}, 5000)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, f, err := envelope.Open(seal(tt.key, tt.schema, tt.flags, tt.payload), tt.key, tt.schema)
			if err != nil || f != tt.flags || !bytes.Equal(got, tt.payload) {
				t.Fatalf("Open = %q, %v, %v; want %q, %v, nil", got, f, err, tt.payload, tt.flags)
			}
		})
	}
}

func TestEnvelopeRefusesEveryFlippedBitAndEveryCut(t *testing.T) {
	b := seal("user:1", 42, 0, []byte("a value of some length"))
	for i := range len(b) * 8 {
		c := bytes.Clone(b)
		c[i/8] ^= 1 << (i % 8)
		if _, _, err := envelope.Open(c, "user:1", 42); err == nil {
			t.Fatalf("bit %d flipped: opened", i)
		}
	}
	for n := range len(b) {
		if _, _, err := envelope.Open(b[:n], "user:1", 42); err == nil {
			t.Fatalf("cut to %d bytes: opened", n)
		}
	}
}

func TestEnvelopeOpensOnlyForItsKeyAndSchema(t *testing.T) {
	b := seal("user:1", 42, 0, []byte("v"))
	if _, _, err := envelope.Open(b, "user:2", 42); !errors.Is(err, envelope.ErrChecksum) {
		t.Errorf("another key: %v, want ErrChecksum", err)
	}
	if _, _, err := envelope.Open(b, "user:1", 43); !errors.Is(err, envelope.ErrChecksum) {
		t.Errorf("another schema: %v, want ErrChecksum", err)
	}
	if _, _, err := envelope.Open([]byte(`{"plain":"json"}`), "user:1", 42); !errors.Is(err, envelope.ErrForeign) {
		t.Errorf("foreign data: %v, want ErrForeign", err)
	}
}

func FuzzOpen(f *testing.F) {
	f.Add([]byte{}, "k", uint64(1))
	f.Add(seal("k", 1, 0, []byte("v")), "k", uint64(1))
	f.Fuzz(func(t *testing.T, b []byte, key string, schema uint64) {
		payload, flags, err := envelope.Open(b, key, schema)
		if err != nil {
			return
		}
		if !bytes.Equal(seal(key, schema, flags, payload), b) {
			t.Fatal("opened something that Seal would not have written")
		}
	})
}
