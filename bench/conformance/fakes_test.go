package conformance

import (
	"context"
	"errors"
	"sync"
)

// fake is a library with faults on purpose.
type fake struct {
	get func(ctx context.Context, f *fake, load Load) (string, error)

	mu     sync.Mutex // guards below
	held   string
	broken bool
}

func (f *fake) Get(ctx context.Context, _ string, load Load) (string, error) {
	f.mu.Lock()
	held := f.held
	f.mu.Unlock()
	if held != "" {
		return held, nil
	}
	return f.get(ctx, f, load)
}

func (f *fake) Invalidate(context.Context, string) error {
	f.store("")
	return nil
}

func (f *fake) Close() {}

func (f *fake) store(v string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.held = v
}

func fakes() []Library {
	lib := func(name string, get func(context.Context, *fake, Load) (string, error)) Library {
		return Library{Name: name, Open: func() (Cache, error) { return &fake{get: get}, nil }}
	}
	return []Library{
		lib("crashes", loadUnguarded),
		lib("hangs", func(ctx context.Context, _ *fake, load Load) (string, error) {
			load(ctx)
			select {}
		}),
		lib("swallows", swallow),
		lib("alone", func(ctx context.Context, f *fake, load Load) (string, error) {
			v, err := load(ctx)
			if err == nil {
				f.store(v)
			}
			return v, err
		}),
		lib("breaks", loadOnce),
	}
}

// loadUnguarded runs the load on a goroutine without a recover, so that a panic
// ends the process.
func loadUnguarded(ctx context.Context, _ *fake, load Load) (v string, err error) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		v, err = load(ctx)
	}()
	<-done
	return v, err
}

// swallow runs the load for the first caller and returns an empty value in place of its result.
// Callers that come meanwhile get an empty value at once.
func swallow(ctx context.Context, f *fake, load Load) (string, error) {
	f.mu.Lock()
	first := !f.broken
	f.broken = true
	f.mu.Unlock()
	if !first {
		return "", nil
	}
	done := make(chan struct{})
	var v string
	go func() {
		defer close(done)
		defer func() { recover() }()
		v, _ = load(ctx)
	}()
	<-done
	f.mu.Lock()
	f.broken = false
	f.mu.Unlock()
	return v, nil
}

// loadOnce never loads again after a load without a value.
func loadOnce(ctx context.Context, f *fake, load Load) (v string, err error) {
	f.mu.Lock()
	broken := f.broken
	f.mu.Unlock()
	err = errors.New("broken")
	if broken {
		return "", err
	}
	f.mu.Lock()
	f.broken = true
	f.mu.Unlock()
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() { recover() }()
		v, err = load(ctx)
	}()
	<-done
	return v, err
}
