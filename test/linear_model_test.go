package test

import (
	"fmt"
	"slices"

	"github.com/anishathalye/porcupine"
)

// Histories of one key of one instance, for the checker of linearizability by
// Horn and Kroening as porcupine implements it. Every written or loaded value
// is another number, and a load is called by the number that it brings.

// act is the effect of an operation in a history.
type act uint8

const (
	// read got the value n, as a hit or from a load that it has joined.
	read act = iota
	// missed found nothing.
	missed
	// wrote stored n at once.
	wrote
	// dropped made the key absent at once.
	dropped
	// opened and closed are the ends of a write of n, or of a drop if n is
	// negative, that takes several steps: meanwhile reads may see both sides.
	opened
	closed
	// begun is the beginning of load n, up to its Loader.
	begun
	// brought is its end, from the Loader on, if it brought a value.
	brought
	// failed is its end if the Loader failed. A caller that joined it counts as a read of n.
	failed
	// unfound is its end if the origin has no such key.
	unfound
	// updating is an Update up to its write to the origin, updated the rest.
	updating
	updated
)

func (a act) String() string {
	return [...]string{"read", "missed", "wrote", "dropped", "opened", "closed", "begun", "brought", "failed", "unfound", "updating", "updated"}[a]
}

// event is an operation of a history: its effect, and the number of its value.
type event struct {
	act act
	n   int64
}

func (e event) String() string { return fmt.Sprint(e.act, " ", e.n) }

// register is the possible content of a cache for a key. It is a state of the
// model, and never changed: each step makes another one.
type register struct {
	values []int64   // callers may read these, in order; several only if writes take steps
	loads  []int64   // that may still store, in order
	mixed  []int64   // loads of these that began while a write was open
	writes []writing // open ones, in order of their numbers
}

// writing is an open write.
type writing struct {
	n      int64
	values []int64 // values as new as n, or perhaps so
	loads  []int64 // begun since
}

// rules decide how strict a model is.
type rules struct {
	// keeps says that nothing is evicted: after a miss, the older value is gone.
	keeps bool
	// one says that a load begins only if no other is under way.
	one bool
}

func with(s []int64, n int64) []int64 {
	i, found := slices.BinarySearch(s, n)
	if found {
		return s
	}
	return slices.Insert(slices.Clone(s), i, n)
}

func without(s []int64, n int64) []int64 {
	i, found := slices.BinarySearch(s, n)
	if !found {
		return s
	}
	return slices.Delete(slices.Clone(s), i, i+1)
}

func (r register) equal(o register) bool {
	return slices.Equal(r.values, o.values) && slices.Equal(r.loads, o.loads) && slices.Equal(r.mixed, o.mixed) && slices.EqualFunc(r.writes, o.writes, func(a, b writing) bool {
		return a.n == b.n && slices.Equal(a.values, b.values) && slices.Equal(a.loads, b.loads)
	})
}

// step returns the states to which e may lead. None means that e cannot have
// happened.
func (u rules) step(r register, e event) []register {
	pending := slices.Contains(r.loads, e.n)
	switch e.act {
	case read:
		if pending || slices.Contains(r.values, e.n) {
			return []register{r}
		}
	case missed:
		if u.keeps {
			r.values = nil
		}
		return []register{r}
	case wrote:
		return []register{{values: []int64{e.n}}}
	case dropped:
		return []register{{}}
	case opened:
		return []register{r.open(e.n)}
	case closed:
		return []register{r.close(e.n)}
	case begun:
		if !u.one || len(r.loads) == 0 {
			return []register{r.begin(e.n)}
		}
	case brought:
		if !pending {
			return []register{r} // fenced
		}
		return r.store(e.n)
	case failed:
		return []register{r.end(e.n)}
	case unfound:
		r = r.end(e.n)
		if !pending || len(r.writes) > 0 {
			return []register{r}
		}
		gone := r
		gone.values = nil
		return []register{gone, r}
	case updating:
		r.loads, r.mixed = nil, nil
		return []register{r}
	case updated:
		return []register{{values: []int64{e.n}}, {}}
	}
	return nil
}

// begin lets load n store.
func (r register) begin(n int64) register {
	r.loads = with(r.loads, n)
	if len(r.writes) > 0 {
		r.mixed = with(r.mixed, n)
	}
	r.writes = slices.Clone(r.writes)
	for i := range r.writes {
		r.writes[i].loads = with(r.writes[i].loads, n)
	}
	return r
}

// end takes load n out.
func (r register) end(n int64) register {
	r.loads, r.mixed = without(r.loads, n), without(r.mixed, n)
	return r
}

// store returns the states after load n: it may have stored its value, or not.
// A write that is open, or was open when the load began, may have been before
// it in one place and after it in another. Then the values of both are there side by side.
func (r register) store(n int64) []register {
	mixed := slices.Contains(r.mixed, n)
	r = r.end(n)
	alone, both := r, r
	alone.values, both.values = []int64{n}, with(r.values, n)
	both.writes = slices.Clone(r.writes)
	for i, w := range both.writes {
		if slices.Contains(w.loads, n) {
			both.writes[i].values = with(w.values, n)
		}
	}
	switch {
	case len(r.writes) > 0:
		return []register{both, r}
	case mixed:
		return []register{alone, both, r}
	}
	return []register{alone, r}
}

// open begins a write of n, or a drop.
func (r register) open(n int64) register {
	w := writing{n: n}
	writes := slices.Clone(r.writes)
	for i, other := range writes {
		if n > 0 {
			writes[i].values = with(other.values, n)
		}
		if other.n > 0 {
			w.values = with(w.values, other.n)
		}
	}
	if n > 0 {
		w.values = with(w.values, n)
		r.values = with(r.values, n)
	}
	i, _ := slices.BinarySearchFunc(writes, n, func(w writing, n int64) int { return int(w.n - n) })
	r.writes = slices.Insert(writes, i, w)
	return r
}

// close ends a write: older values are gone, and loads that began before the
// write lose the right to store.
func (r register) close(n int64) register {
	i := slices.IndexFunc(r.writes, func(w writing) bool { return w.n == n })
	w := r.writes[i]
	r.writes = slices.Delete(slices.Clone(r.writes), i, i+1)
	r.values = w.values
	late := func(l int64) bool { return !slices.Contains(w.loads, l) }
	r.loads = slices.DeleteFunc(slices.Clone(r.loads), late)
	r.mixed = slices.DeleteFunc(slices.Clone(r.mixed), late)
	return r
}

// model is u for the checker.
func (u rules) model() porcupine.Model {
	m := porcupine.NondeterministicModel{
		Init: func() []any { return []any{register{}} },
		Step: func(state, input, _ any) (next []any) {
			for _, r := range u.step(state.(register), input.(event)) {
				next = append(next, r)
			}
			return next
		},
		Equal:             func(a, b any) bool { return a.(register).equal(b.(register)) },
		DescribeOperation: func(input, _ any) string { return input.(event).String() },
		DescribeState:     func(state any) string { return fmt.Sprintf("%+v", state) },
	}
	return m.ToModel()
}
