package sim

// ARC is the adaptive replacement cache (Megiddo, Modha: "ARC: a self-tuning, low
// overhead replacement cache", FAST, 2003). It keeps the keys asked for once apart from
// the keys asked for again, remembers as many evicted keys of both kinds as it has
// entries, and moves the border between the kinds to where evicted keys return.
type ARC struct {
	slab     // entries, and evicted keys
	at       []uint8
	lists    [4]list // by the kinds below
	capacity int
	target   float64 // wanted number of entries of arcOnce
}

// Kinds of entries and evicted keys of ARC; T1, T2, B1 and B2 in the paper.
const (
	arcOnce uint8 = iota
	arcAgain
	arcOnceEvicted
	arcAgainEvicted
)

// NewARC returns an empty ARC.
func NewARC(capacity int) *ARC {
	links := make([]link, 2*capacity)
	p := &ARC{slab: newSlab(2 * capacity), at: make([]uint8, 2*capacity), capacity: capacity}
	for kind := range p.lists {
		p.lists[kind] = newList(links)
	}
	return p
}

// Len returns the number of entries.
func (p *ARC) Len() int { return p.lists[arcOnce].n + p.lists[arcAgain].n }

// Access asks for key and reports a hit.
func (p *ARC) Access(key uint64) bool {
	i, known := p.index[key]
	if !known {
		p.makeRoom()
		i = p.add(key)
		p.at[i] = arcOnce
		p.lists[arcOnce].pushBack(i)
		return false
	}
	hit := p.at[i] <= arcAgain
	if !hit {
		p.adapt(p.at[i])
		p.replace(p.at[i] == arcAgainEvicted)
	}
	p.move(i, arcAgain)
	return hit
}

// adapt moves the border after the return of an evicted key.
func (p *ARC) adapt(kind uint8) {
	once, again := float64(p.lists[arcOnceEvicted].n), float64(p.lists[arcAgainEvicted].n)
	if kind == arcOnceEvicted {
		p.target = min(float64(p.capacity), p.target+max(1, again/once))
	} else {
		p.target = max(0, p.target-max(1, once/again))
	}
}

// makeRoom frees a place for a key that ARC does not know.
func (p *ARC) makeRoom() {
	switch once := p.lists[arcOnce].n + p.lists[arcOnceEvicted].n; {
	case once == p.capacity && p.lists[arcOnceEvicted].n == 0:
		p.forget(arcOnce)
	case once == p.capacity:
		p.forget(arcOnceEvicted)
		p.replace(false)
	case len(p.index) == 2*p.capacity:
		p.forget(arcAgainEvicted)
		p.replace(false)
	case len(p.index) >= p.capacity:
		p.replace(false)
	}
}

// replace evicts an entry of the kind with more than its share, and remembers its key.
func (p *ARC) replace(forAgain bool) {
	once := p.lists[arcOnce].n
	if n := float64(once); once > 0 && (n > p.target || forAgain && n == p.target) {
		p.move(p.lists[arcOnce].front, arcOnceEvicted)
	} else {
		p.move(p.lists[arcAgain].front, arcAgainEvicted)
	}
}

// move appends an entry to the list of a kind.
func (p *ARC) move(i uint32, kind uint8) {
	p.lists[p.at[i]].remove(i)
	p.lists[kind].pushBack(i)
	p.at[i] = kind
}

// forget drops the oldest key of a kind.
func (p *ARC) forget(kind uint8) { p.drop(p.lists[kind].popFront()) }
