package lab

import (
	"cmp"
	"context"
	"time"

	"github.com/strata-cache/strata/remote/castier"
)

// ModelCall is one call of a server: its arguments, of one kind, and its results.
type ModelCall struct {
	// Clock says that the call asks for the time.
	Clock bool
	// Keys are the arguments of GetMany, and Items its result.
	Keys  []string
	Items []castier.Item
	// Swaps, Adds and Touches are the arguments of the other methods.
	Swaps   []castier.Swap
	Adds    []castier.Add
	Touches []castier.Touch

	swapped []bool
	sums    []uint64
	now     time.Time
}

// First returns the first key of the call.
func (c *ModelCall) First() string {
	switch {
	case len(c.Keys) > 0:
		return c.Keys[0]
	case len(c.Swaps) > 0:
		return c.Swaps[0].Key
	case len(c.Adds) > 0:
		return c.Adds[0].Key
	case len(c.Touches) > 0:
		return c.Touches[0].Key
	}
	return ""
}

// Bytes returns the size of the items that the call has moved.
func (c *ModelCall) Bytes() (n int) {
	for _, s := range c.Swaps {
		n += len(s.Value)
	}
	for _, is := range c.Items {
		n += len(is.Value)
	}
	return n
}

// server is the Store of one server, without abilities.
type server struct {
	number int
	m      *Model
	call   func(ctx context.Context, server int, c *ModelCall) error
}

func (s server) GetMany(ctx context.Context, keys []string) ([]castier.Item, error) {
	c := ModelCall{Keys: keys}
	err := s.call(ctx, s.number, &c)
	if err != nil {
		return nil, err
	}
	return c.Items, nil
}

func (s server) SwapMany(ctx context.Context, swaps []castier.Swap) ([]bool, error) {
	c := ModelCall{Swaps: swaps}
	if err := s.call(ctx, s.number, &c); err != nil {
		return nil, err
	}
	return c.swapped, nil
}

// able is a server with abilities.
type able struct{ server }

var (
	_ castier.Clock   = able{}
	_ castier.Counter = able{}
	_ castier.Toucher = able{}
)

func (s able) AddMany(ctx context.Context, adds []castier.Add) ([]uint64, error) {
	c := ModelCall{Adds: adds}
	if err := s.call(ctx, s.number, &c); err != nil {
		return nil, err
	}
	return c.sums, nil
}

func (s able) TouchMany(ctx context.Context, touches []castier.Touch) ([]bool, error) {
	c := ModelCall{Touches: touches}
	if err := s.call(ctx, s.number, &c); err != nil {
		return nil, err
	}
	return c.swapped, nil
}

func (s able) Large() int { return s.m.LargeFrom }

func (s able) Now(ctx context.Context) (time.Time, time.Duration, error) {
	c := ModelCall{Clock: true}
	if err := s.call(ctx, s.number, &c); err != nil {
		return time.Time{}, 0, err
	}
	step := cmp.Or(s.m.Step, time.Second)
	return c.now.Truncate(step), step, nil
}

// around is a Fleet whose calls go through a function.
type around struct {
	*Model
	do func(ctx context.Context, server int, c *ModelCall, run func(context.Context) error) error
}

// Around returns m as a Fleet whose calls go through do: run carries out the call. A call that
// has failed may be carried out later.
func Around(m *Model, do func(ctx context.Context, server int, c *ModelCall, run func(context.Context) error) error) castier.Fleet {
	return around{m, do}
}

// On implements castier.Fleet.
func (a around) On(_ context.Context, number int) (castier.Store, error) {
	return a.store(number, func(ctx context.Context, server int, c *ModelCall) error {
		return a.do(ctx, server, c, func(ctx context.Context) error { return a.call(ctx, server, c) })
	}), nil
}
