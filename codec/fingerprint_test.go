package codec_test

import (
	"testing"
	"time"

	"github.com/strata-cache/strata/codec"
)

type (
	celsius    float64
	fahrenheit float64
	node       struct {
		Next *node
		Kids []node
		V    int
	}
	box[T any] struct{ V T }
	phantom    struct{ N int }
)

func fp[V any]() uint64 { return codec.Fingerprint(codec.JSON[V]()) }

func TestFingerprintTellsShapesApart(t *testing.T) {
	type base = struct {
		A int
		B string
	}
	seen := map[uint64]string{}
	for _, s := range []struct {
		name string
		fp   uint64
	}{
		{"base", fp[base]()},
		{"field added", fp[struct {
			A int
			B string
			C bool
		}]()},
		{"field removed", fp[struct{ A int }]()},
		{"field renamed", fp[struct {
			A  int
			B2 string
		}]()},
		{"fields moved", fp[struct {
			B string
			A int
		}]()},
		{"field retyped", fp[struct {
			A int64
			B string
		}]()},
		{"field by pointer", fp[struct {
			A *int
			B string
		}]()},
		{"tag added", fp[struct {
			A int `json:"a"`
			B string
		}]()},
		{"tag differs", fp[struct {
			A int `json:"a,omitempty"`
			B string
		}]()},
		{"pointer", fp[*base]()},
		{"slice", fp[[]base]()},
		{"array of 2", fp[[2]base]()},
		{"array of 3", fp[[3]base]()},
		{"map by string", fp[map[string]base]()},
		{"map by int", fp[map[int]base]()},
		{"int", fp[int]()},
		{"int64", fp[int64]()},
		{"uint64", fp[uint64]()},
		{"celsius", fp[celsius]()},
		{"fahrenheit", fp[fahrenheit]()},
		{"float64", fp[float64]()},
		{"time", fp[time.Time]()},
		{"duration", fp[time.Duration]()},
		{"recursive", fp[node]()},
		{"box of int", fp[box[int]]()},
		{"box of string", fp[box[string]]()},
		{"box of named", fp[box[phantom]]()},
		{"any", fp[any]()},
		{"error", fp[error]()},
		{"interface", fp[interface{ M(int) }]()},
		{"another interface", fp[interface{ N(int) }]()},
		{"bytes as json", fp[[]byte]()},
		{"bytes", codec.Fingerprint(codec.Bytes())},
		{"renamed codec", codec.Fingerprint(codec.WithName(codec.JSON[base](), "json/2"))},
	} {
		if other, ok := seen[s.fp]; ok {
			t.Errorf("%s has the fingerprint of %s", s.name, other)
		}
		seen[s.fp] = s.name
	}
}

func TestFingerprintIgnoresFieldsThatAreNotEncoded(t *testing.T) {
	want := fp[struct {
		A int `json:"a"`
	}]()
	tests := []struct {
		name string
		got  uint64
	}{
		{"unexported field", fp[struct {
			A int `json:"a"`
			b string
		}]()},
		{"field that JSON leaves out", fp[struct {
			A int `json:"a"`
			C int `json:"-"`
		}]()},
		{"tag of another codec", fp[struct {
			A int `json:"a" db:"a"`
		}]()},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if tt.got != want {
				t.Errorf("got %x, want %x", tt.got, want)
			}
		})
	}
}

// The numbers were computed by other processes. If they change, every shared
// value is loaded anew after an upgrade, and the changelog must say so.
func TestFingerprintIsStable(t *testing.T) {
	tests := []struct {
		name      string
		got, want uint64
	}{
		{"string", codec.Fingerprint(codec.String()), 0x174f3621de832b7f},
		{"bytes", codec.Fingerprint(codec.Bytes()), 0x6a810631c65d5433},
		{"int32", codec.Fingerprint(codec.Integer[int32]()), 0x1142ad59406a26b9},
		{"user", fp[user](), 0x282c358f90728f5e},
		{"node", fp[node](), 0xce053a27abdfd242},
		{"box", fp[box[time.Time]](), 0x5e4319f8a911f370},
	}
	for _, tt := range tests {
		if tt.got != tt.want {
			t.Errorf("%s: got %#x, want %#x", tt.name, tt.got, tt.want)
		}
	}
}

func TestWithNameKeepsTheRest(t *testing.T) {
	c := codec.WithName(codec.JSON[user](), "json/2")
	if c.Name() != "json/2" {
		t.Errorf("name is %q", c.Name())
	}
	roundTrip(t, c, sampleUser())
	a := codec.WithName(codec.JSON[struct {
		A int `db:"x"`
	}](), "n")
	b := codec.WithName(codec.JSON[struct{ A int }](), "n")
	if codec.Fingerprint(a) != codec.Fingerprint(b) {
		t.Error("renamed, the codec no longer knows which tags are its own")
	}
}
