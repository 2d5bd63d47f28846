// This file decides which server of a fleet of memcached a key belongs to. It
// decides exactly as other clients do, so that strata can share a fleet with
// them.
//
// The modes of ketama are consistent hashing (Karger et al., "Consistent Hashing and
// Random Trees", 1997) in the form of libketama: each server has points on a circle of
// 2³² places, and a key belongs to the server of the first point at or behind the
// point of the key. Jump is Lamping and Veach, "A Fast, Minimal Memory, Consistent
// Hash Algorithm", 2014.

package roster

import (
	"errors"
	"fmt"
	"hash/crc32"
	"net/netip"
	"slices"
	"strings"
)

// Mode is a way to place keys on servers. All clients of a fleet have to use the
// same one.
type Mode uint8

const (
	// Ketama places keys as libmemcached does with weighted ketama, which its
	// manual calls compatible with libketama. Its plain, unweighted ketama places
	// keys otherwise.
	Ketama Mode = iota
	// KetamaSpy places keys as spymemcached does with its KetamaConnectionFactory. The
	// factory writes the resolved address beside a name, so servers are IPv4 addresses.
	KetamaSpy
	// KetamaSpyLibmemcached places keys as libmemcached does with its distribution
	// CONSISTENT_KETAMA_SPY, which writes a slash in front of an address. So it
	// places keys otherwise than spymemcached.
	KetamaSpyLibmemcached
	// Modula places keys as the package gomemcache does: by the remainder of a
	// checksum. A fleet that changes its size moves almost all keys.
	Modula
	// Jump places keys as the package dskit of Mimir, Loki and Tempo does: by jump
	// hash over the addresses in natural order. A fleet grows and shrinks at its end.
	Jump
)

// String returns the name of m, such as "ketama-spy".
func (m Mode) String() string {
	switch m {
	case Ketama:
		return "ketama"
	case KetamaSpy:
		return "ketama-spy"
	case KetamaSpyLibmemcached:
		return "ketama-spy-libmemcached"
	case Modula:
		return "modula"
	case Jump:
		return "jump"
	default:
		return fmt.Sprintf("Mode(%d)", uint8(m))
	}
}

// ModeOf returns the mode with a name, and false if there is none.
func ModeOf(name string) (m Mode, ok bool) {
	for m = Ketama; m <= Jump; m++ {
		if m.String() == name {
			return m, true
		}
	}
	return Ketama, false
}

// MaxServers is the most servers that a fleet may have.
const MaxServers = 1 << 12

// Server is a server of a fleet.
type Server struct {
	// Address is host:port, or the path of a Unix socket. Its text takes part in
	// the placement: two names of a host are two servers.
	Address string
	// Weight is the server's share of the keys in proportion to the weights of
	// others; 0 means 1. Modula and Jump know no other weight.
	Weight int
}

// Ring knows the server of each key. It never changes, so any number of goroutines
// may use it.
type Ring struct {
	mode Mode
	// points are the places of servers in the modes of ketama, in their order.
	points []point
	// order are the servers by number as Modula and Jump count them.
	order []int
}

// NewRing returns the ring of servers in a mode. It fails without servers, with too
// many, with an empty or repeated address, and with a weight below zero, too small
// beside the others, or unknown to the mode.
func NewRing(mode Mode, servers []Server) (*Ring, error) {
	if err := check(mode, servers); err != nil {
		return nil, err
	}
	r := &Ring{mode: mode}
	switch mode {
	case Ketama, KetamaSpy, KetamaSpyLibmemcached:
		var err error
		if r.points, err = pointsOf(servers, mode, nameOf(mode)); err != nil {
			return nil, err
		}
	default:
		for i := range servers {
			r.order = append(r.order, i)
		}
	}
	if mode == Jump {
		slices.SortFunc(r.order, func(a, b int) int { return natural(servers[a].Address, servers[b].Address) })
	}
	return r, nil
}

// check returns the first reason why NewRing fails.
func check(mode Mode, servers []Server) error {
	switch {
	case mode > Jump:
		return fmt.Errorf("ring: %v is no mode", mode)
	case len(servers) == 0:
		return errors.New("ring: a fleet without servers")
	case len(servers) > MaxServers:
		return fmt.Errorf("ring: %d servers, at most %d", len(servers), MaxServers)
	}
	seen := make(map[string]bool, len(servers))
	for _, s := range servers {
		switch {
		case s.Address == "":
			return errors.New("ring: a server without an address")
		case seen[s.Address]:
			return fmt.Errorf("ring: server %q is there twice", s.Address)
		case s.Weight < 0 || s.Weight > maxWeight:
			return fmt.Errorf("ring: server %q has weight %d, which is not in 0 to %d", s.Address, s.Weight, maxWeight)
		case s.Weight > 1 && (mode == Modula || mode == Jump):
			return fmt.Errorf("ring: server %q has weight %d, but mode %v knows no weights", s.Address, s.Weight, mode)
		case mode == KetamaSpy && !isIPv4(s.Address):
			return fmt.Errorf("ring: server %q is no IPv4 address with a port, which mode %v needs", s.Address, mode)
		}
		seen[s.Address] = true
	}
	return nil
}

// isIPv4 reports whether an address is an IPv4 address with a port.
func isIPv4(address string) bool {
	a, err := netip.ParseAddrPort(address)
	return err == nil && a.Addr().Is4()
}

// Pick returns the position of key's server among the servers that NewRing
// got. It takes O(log servers) in the modes of ketama and does not allocate.
func (r *Ring) Pick(key string) int {
	switch r.mode {
	case Modula:
		return r.order[checksum(key)%uint32(len(r.order))]
	case Jump:
		return r.order[jump(xxhash64(key), len(r.order))]
	default:
		return r.at(keyPoint(key))
	}
}

// PickFrom is Pick, but if the key's server is out, the key belongs to a server in
// service: to the next one on the circle, or in the modes without a circle to one picked
// among the servers in service. Keys of servers in service stay where they are. If all
// servers are out, it is Pick. out is called with positions in the list that NewRing
// got.
func (r *Ring) PickFrom(key string, out func(server int) bool) int {
	home := r.Pick(key)
	if !out(home) {
		return home
	}
	switch r.mode {
	case Modula:
		return r.inService(home, out, func(n int) int { return int(checksum(key) % uint32(n)) })
	case Jump:
		return r.inService(home, out, func(n int) int { return jump(xxhash64(key), n) })
	default:
		begin := r.index(keyPoint(key))
		for i := range r.points {
			if s := r.points[(begin+i)%len(r.points)].server; !out(s) {
				return s
			}
		}
		return home
	}
}

// inService picks one of the servers in service, or home if there is none.
func (r *Ring) inService(home int, out func(server int) bool, pick func(n int) int) int {
	in := make([]int, 0, len(r.order))
	for _, s := range r.order {
		if !out(s) {
			in = append(in, s)
		}
	}
	if len(in) == 0 {
		return home
	}
	return in[pick(len(in))]
}

// checksum is CRC-32 (IEEE) of key. It goes byte by byte, since a call of
// crc32.ChecksumIEEE needs a slice that escapes.
func checksum(key string) uint32 {
	c := ^uint32(0)
	for i := range len(key) {
		c = crc32.IEEETable[byte(c)^key[i]] ^ c>>8
	}
	return ^c
}

// portless returns an address without the port that memcached has by default.
func portless(address string) string { return strings.TrimSuffix(address, ":11211") }
