package evict

import (
	"fmt"
	"math/rand/v2"
)

// random evicts any entry, all with the same probability. Hits change nothing. The
// mark of a node is its place in all.
type random struct {
	unsized
	nodes *slab
	all   []uint32
}

func (p *random) insert(i, _ uint32, _ bool) {
	p.nodes.node(i).mark = uint32(len(p.all))
	p.all = append(p.all, i)
}

// remove puts the last node in the place of the removed one.
func (p *random) remove(i uint32) {
	at, end := p.nodes.node(i).mark, len(p.all)-1
	last := p.all[end]
	p.all[at] = last
	p.nodes.node(last).mark = at
	p.all = p.all[:end]
}

func (p *random) evict(_ Standing, keep uint32, _ int64) uint32 {
	n := len(p.all)
	if keep != 0 {
		n--
	}
	if n == 0 {
		return 0
	}
	at := rand.IntN(n)
	// The places from the kept one on move up by one, so that it cannot be drawn, and all others
	// are as likely as before.
	if keep != 0 && at >= int(p.nodes.node(keep).mark) {
		at++
	}
	i := p.all[at]
	p.remove(i)
	return i
}

func (p *random) each(yield func(uint32)) {
	for _, i := range p.all {
		yield(i)
	}
}

func (p *random) take(_ policy, _, ours uint32) { p.insert(ours, 0, false) }

func (p *random) validate(entries map[*Head]bool) error {
	if len(p.all) != len(entries) {
		return fmt.Errorf("%d nodes to choose from, want %d", len(p.all), len(entries))
	}
	for at, i := range p.all {
		if !entries[p.nodes.head(i)] || p.nodes.node(i).mark != uint32(at) {
			return fmt.Errorf("node %d in place %d is of no entry, or says %d", i, at, p.nodes.node(i).mark)
		}
	}
	return nil
}
