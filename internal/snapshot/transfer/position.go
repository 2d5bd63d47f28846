package transfer

import (
	"encoding/binary"
	"errors"

	"github.com/strata-cache/strata/remote"
)

var errPosition = errors.New("transfer: position is malformed")

// maxLanes is the number of lanes that a position may have.
const maxLanes = 1 << 16

// AppendPosition appends p in the form of a snapshot.
func AppendPosition(b []byte, p *remote.Position) []byte {
	b = binary.AppendUvarint(b, uint64(len(p.Epoch)))
	b = append(b, p.Epoch...)
	b = binary.AppendUvarint(b, p.Drops)
	b = binary.AppendUvarint(b, p.Expiries)
	b = binary.AppendUvarint(b, p.Clock)
	b = binary.AppendUvarint(b, uint64(len(p.Lanes)))
	for _, v := range p.Lanes {
		b = binary.AppendUvarint(b, v.Count)
		b = binary.LittleEndian.AppendUint64(b, v.Nonce)
	}
	return b
}

// ParsePosition is the inverse of AppendPosition. It allocates in proportion to the length
// of b. It returns an error for any other input.
func ParsePosition(b []byte) (p remote.Position, err error) {
	r := positionReader{b: b}
	p.Epoch = string(r.bytes(r.uvarint()))
	p.Drops, p.Expiries, p.Clock = r.uvarint(), r.uvarint(), r.uvarint()
	n := r.uvarint()
	// A lane has nine bytes at least, so a short input cannot ask for many of them.
	if r.failed || n > maxLanes || n*9 > uint64(len(r.b)) {
		return remote.Position{}, errPosition
	}
	p.Lanes = make([]remote.LaneVersion, n)
	for i := range p.Lanes {
		p.Lanes[i].Count = r.uvarint()
		if nonce := r.bytes(8); len(nonce) == 8 {
			p.Lanes[i].Nonce = binary.LittleEndian.Uint64(nonce)
		}
	}
	if r.failed || len(r.b) > 0 {
		return remote.Position{}, errPosition
	}
	return p, nil
}

// positionReader reads the rest of a position. After a failure it returns zero values.
type positionReader struct {
	b      []byte
	failed bool
}

func (r *positionReader) uvarint() uint64 {
	v, n := binary.Uvarint(r.b)
	if n <= 0 || n > 1 && r.b[n-1] == 0 { // too short, too large, or too long for its number
		r.failed, r.b = true, nil
		return 0
	}
	r.b = r.b[n:]
	return v
}

func (r *positionReader) bytes(n uint64) (b []byte) {
	if n > uint64(len(r.b)) {
		r.failed, r.b = true, nil
		return nil
	}
	b, r.b = r.b[:n], r.b[n:]
	return b
}
