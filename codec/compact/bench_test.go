package compact_test

import (
	"bytes"
	stdgob "encoding/gob"
	"errors"
	"testing"
	"time"

	"github.com/strata-cache/strata/codec"
	"github.com/strata-cache/strata/codec/compact"
)

// profile is a value as caches have many: nine fields, three of them of several parts.
type profile struct {
	ID      int64
	Name    string
	Email   string
	Active  bool
	Score   float64
	Seen    time.Time
	Groups  []string
	Labels  map[string]string
	Visited []int32
}

func sampleProfile() profile {
	return profile{
		ID: 1234567, Name: "Grace Hopper", Email: "grace@example.org", Active: true, Score: 98.25,
		Seen:    time.Date(2026, 11, 23, 18, 4, 36, 123456789, time.UTC),
		Groups:  []string{"admin", "staff", "navy"},
		Labels:  map[string]string{"lang": "en", "plan": "pro", "zone": "eu-1"},
		Visited: []int32{1, 20, 300, 4000, 50000, 600000},
	}
}

// stream is a gob stream after its description of the type. The values of many entries in
// one file share such a description.
type stream struct {
	buf bytes.Buffer
	enc *stdgob.Encoder
	dec *stdgob.Decoder
}

func newStream(b *testing.B) *stream {
	s := &stream{}
	s.enc, s.dec = stdgob.NewEncoder(&s.buf), stdgob.NewDecoder(&s.buf)
	v := sampleProfile()
	if err := errors.Join(s.enc.Encode(&v), s.dec.Decode(&v)); err != nil {
		b.Fatal(err)
	}
	return s
}

func (s *stream) encode(v *profile) error {
	s.buf.Reset()
	return s.enc.Encode(v)
}

func (s *stream) decode(data []byte) error {
	s.buf.Reset()
	s.buf.Write(data)
	var v profile
	return s.dec.Decode(&v)
}

// BenchmarkCompact measures one encoding into a large enough buffer, and one decoding,
// beside a gob stream. The tables of ./bench are about more codecs.
func BenchmarkCompact(b *testing.B) {
	c, v := compact.New[profile](), sampleProfile()
	data := encode(b, c, v)
	gobs := newStream(b)
	if err := gobs.encode(&v); err != nil {
		b.Fatal(err)
	}
	sent := bytes.Clone(gobs.buf.Bytes())
	run := func(name string, f func() error) {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if err := f(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	buf := make([]byte, 0, 2*len(data))
	run("append", func() error { _, err := c.Append(buf, v); return err })
	run("append/gob", func() error { return gobs.encode(&v) })
	run("decode", func() error { _, err := c.Decode(data); return err })
	run("decode/alias", func() error { _, err := c.(codec.Aliaser[profile]).DecodeAlias(data); return err })
	run("decode/gob", func() error { return gobs.decode(sent) })
}
