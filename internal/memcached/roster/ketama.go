package roster

import (
	"cmp"
	"crypto/md5"
	"encoding/binary"
	"fmt"
	"slices"
	"sort"
	"strconv"
)

// A server of average weight has 40 digests of 4 points each.
const (
	digests   = 40
	perDigest = 4
	// roundingUp keeps a share whole if only a rounding error makes it less.
	roundingUp = 1e-10
	// maxWeight keeps sums of weights exact.
	maxWeight = 1 << 24
)

// point is a place of a server on the circle.
type point struct {
	place  uint32
	server int
}

// nameOf returns how a mode writes the address of a server and the number of a
// digest.
func nameOf(mode Mode) func(address string) string {
	switch mode {
	case KetamaSpy:
		return func(address string) string { return address }
	case KetamaSpyLibmemcached:
		return func(address string) string { return "/" + address }
	default:
		return portless
	}
}

// digestsOf returns the number of digests of one of n servers. weight is the weight of this server,
// and sum the sum of all weights. libmemcached and spymemcached reckon with 32 bits.
func digestsOf(weight, sum, n int) int {
	// Each conversion rounds, as C and Java do after each step. Without them Go may round once for
	// several steps, and keys near a border would move to another server.
	share := float32(float32(weight) / float32(sum))
	points := float32(float32(float32(share*(digests*perDigest))/perDigest) * float32(n))
	return int(float32(float64(points) + roundingUp))
}

// pointsOf returns the points of servers, in the order of their places. It fails if
// the weight of a server is too small for one digest: the server would get no keys.
func pointsOf(servers []Server, mode Mode, name func(string) string) ([]point, error) {
	sum := 0
	for _, s := range servers {
		sum += max(s.Weight, 1)
	}
	var points []point
	for i, s := range servers {
		n := digestsOf(max(s.Weight, 1), sum, len(servers))
		if n == 0 {
			return nil, fmt.Errorf("ring: the weight %d of server %q is too small beside the others, whose sum is %d", s.Weight, s.Address, sum)
		}
		for d := range n {
			digest := md5.Sum([]byte(name(s.Address) + "-" + strconv.Itoa(d)))
			for p := range perDigest {
				points = append(points, point{binary.LittleEndian.Uint32(digest[4*p:]), i})
			}
		}
	}
	// Two servers may meet at one place. All clients have to agree on the order there, too.
	slices.SortFunc(points, func(a, b point) int {
		return cmp.Or(cmp.Compare(a.place, b.place), cmp.Compare(a.server, b.server))
	})
	return points, nil
}

// at returns the server of the first point at or behind place, round the circle.
func (r *Ring) at(place uint32) int { return r.points[r.index(place)].server }

// index returns the index of the first point at or behind place, round the circle.
func (r *Ring) index(place uint32) int {
	i := sort.Search(len(r.points), func(i int) bool { return r.points[i].place >= place })
	if i == len(r.points) {
		i = 0
	}
	return i
}

// keyPoint returns the place of key on the circle.
func keyPoint(key string) uint32 {
	var b [256]byte
	digest := md5.Sum(append(b[:0], key...))
	return binary.LittleEndian.Uint32(digest[:])
}
