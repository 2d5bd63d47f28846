package evict

// Policy names a policy. The zero Policy is A3FIFO.
type Policy uint8

// The policies.
const (
	A3FIFO Policy = iota
	LRU
	LFU
	FIFO
	Random
	policies // the number of them
)

// Policies returns all policies, in the order of their numbers.
func Policies() (all []Policy) {
	for p := range policies {
		all = append(all, p)
	}
	return all
}

// Known reports whether there is such a policy.
func (p Policy) Known() bool { return p < policies }

// Listens reports whether every hit must be given to Order.Hit. Readers call
// Head.Touch for other policies.
func (p Policy) Listens() bool { return p == LRU || p == LFU }

// String returns the name of the policy as it is usually written.
func (p Policy) String() string {
	switch p {
	case A3FIFO:
		return "A3-FIFO"
	case LRU:
		return "LRU"
	case LFU:
		return "LFU"
	case FIFO:
		return "FIFO"
	case Random:
		return "random"
	}
	return "unknown"
}

// policy decides which of the entries of one shard leaves next. It knows entries by
// the numbers of their nodes. All methods need the shard's mutex.
type policy interface {
	// fit makes the policy ready for another share of the bound.
	fit(share int64, weighted bool)
	// admit is told of a new key before room is made for it, and returns the queue
	// for its node. full says that the cache has no room.
	admit(hash uint32, weight int64, full bool) (queue uint32)
	// insert adds a node. evicted says that another had to leave for it.
	insert(i, queue uint32, evicted bool)
	// remove takes a node out.
	remove(i uint32)
	// evict takes out the node that leaves next, and returns it; zero if there is
	// none but keep, which is zero or a node of the policy. at is the standing of the
	// entry that needs the room.
	evict(at Standing, keep uint32, now int64) uint32
	// resize is told that the weight of a node has changed.
	resize(i uint32, old, weight int64)
	// each calls yield for each node, the next one to be evicted first.
	each(yield func(i uint32))
	// adopt is told that a policy without nodes gets nodes of from, which is of the same kind.
	adopt(from policy)
	// take adds a node with the standing of a node of from. Nodes come in the order of each.
	take(from policy, theirs, ours uint32)
	// moved is told that an entry of the policy has got the free node j in the place of its own, with its links and its mark.
	moved(j uint32)
	// shrunk is told that the shard has given memory back, and has n entries.
	shrunk(n int)
	// validate checks the whole structure for tests.
	validate(entries map[*Head]bool) error
}

// listener is a policy that must be told of each hit at once. Other policies read
// the uses of heads, if any.
type listener interface {
	policy
	// hit is told of a hit.
	hit(i uint32)
	// hottest calls yield for each node, the last one to be evicted first, until it
	// returns false. A node with a larger rank is used more.
	hottest(yield func(i uint32, rank uint64) bool)
}

// unsized is the part of a policy that looks neither at sizes nor at keys.
type unsized struct{}

func (unsized) fit(int64, bool)                  {}
func (unsized) admit(uint32, int64, bool) uint32 { return 0 }
func (unsized) resize(uint32, int64, int64)      {}
func (unsized) adopt(policy)                     {}

// use makes the order's policy, without entries.
func (o *Order) use(p Policy) {
	o.kind = p
	switch p {
	case LRU:
		o.listener = &lru{fifo{nodes: &o.nodes}}
		o.policy = o.listener
	case LFU:
		o.listener = &lfu{nodes: &o.nodes}
		o.policy = o.listener
	case FIFO:
		o.policy = &fifo{nodes: &o.nodes}
	case Random:
		o.policy = &random{nodes: &o.nodes}
	default:
		o.a3fifo.nodes = &o.nodes
		o.policy = &o.a3fifo
	}
}
