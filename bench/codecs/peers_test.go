package codecs

import (
	"bytes"
	stdgob "encoding/gob"
	"encoding/json"

	"github.com/hamba/avro/v2"

	"github.com/strata-cache/strata/codec"
	"github.com/strata-cache/strata/codec/compact"
	"github.com/strata-cache/strata/codec/gob"
)

// peer is a row: a way to encode and decode.
type peer struct {
	name   string
	encode func(v *profile) ([]byte, error) // valid until the next call
	decode func(data []byte) (profile, error)
}

// aliasedRow is the number of the row that encodes exactly as the row before it, and
// streamRow the number of the row that the others are compared with.
const (
	aliasedRow = 1
	streamRow  = 2
)

func peers() []peer {
	c := compact.New[profile]()
	all := []peer{
		strata("compact", c),
		strata("compact, aliased", c),
		stream(),
		strata("codec/gob", gob.New[profile]()),
		{"gob per value", gobEncode, gobDecode},
		{"encoding/json", func(v *profile) ([]byte, error) { return json.Marshal(v) }, jsonDecode},
		avroPeer(),
	}
	all[aliasedRow].decode = c.(codec.Aliaser[profile]).DecodeAlias
	return all
}

func strata(name string, c codec.Codec[profile]) peer {
	var buf []byte
	return peer{name, func(v *profile) (_ []byte, err error) {
		buf, err = c.Append(buf[:0], *v)
		return buf, err
	}, c.Decode}
}

// stream is the row with one encoder and one decoder for all values. A first value, which is not
// measured, carries the description of the type.
func stream() peer {
	var to, from bytes.Buffer
	enc, dec := stdgob.NewEncoder(&to), stdgob.NewDecoder(&from)
	v := sampleProfile()
	_ = enc.Encode(&v) // the error is left out here: the measured calls would get it again
	from.Write(to.Bytes())
	_ = dec.Decode(new(profile))
	return peer{"gob stream", func(v *profile) ([]byte, error) {
		to.Reset()
		err := enc.Encode(v)
		return to.Bytes(), err
	}, func(data []byte) (v profile, err error) {
		from.Reset()
		from.Write(data)
		err = dec.Decode(&v)
		return v, err
	}}
}

func gobEncode(v *profile) ([]byte, error) {
	var b bytes.Buffer
	err := stdgob.NewEncoder(&b).Encode(v)
	return b.Bytes(), err
}

func gobDecode(data []byte) (v profile, err error) {
	err = stdgob.NewDecoder(bytes.NewReader(data)).Decode(&v)
	return v, err
}

func jsonDecode(data []byte) (v profile, err error) {
	err = json.Unmarshal(data, &v)
	return v, err
}

func avroPeer() peer {
	s := avro.MustParse(schema)
	return peer{"hamba/avro", func(v *profile) ([]byte, error) {
		return avro.Marshal(s, v)
	}, func(data []byte) (v profile, err error) {
		err = avro.Unmarshal(s, data, &v)
		return v, err
	}}
}
