package wire

import (
	"context"
	"sync"

	"github.com/bradfitz/gomemcache/memcache"
	grafana "github.com/grafana/gomemcache/memcache"
	rainycape "github.com/rainycape/memcache"
)

// pooled is a client of memcached without contexts, which takes a connection for each
// call.
type pooled struct {
	name    string
	get     func(key string) ([]byte, error)
	set     func(key string, value []byte) error
	getMany func(ctx context.Context, keys []string, f see) error
	// atOnce is the number of goroutines that share a bulk set, as none of these
	// clients has one.
	atOnce int
}

// subjects are the rows of a client.
func (p pooled) subjects() []subject {
	read := func(_ context.Context, _ int, key string) ([]byte, error) { return p.get(key) }
	write := func(_ context.Context, key string, value []byte) error { return p.set(key, value) }
	get, set := reads(read), writes(write)
	return []subject{{
		name: p.name, kind: peer,
		get: get, set: set, setGet: both(set, get),
		mget: readsAll(p.getMany), setAll: writesAll(p.setMany),
	}, {
		name: p.name + "-bytes", kind: whole,
		getTo: copies(read), setFrom: collects(write),
	}}
}

// setMany sets keys one by one, by a number of goroutines at once.
func (p pooled) setMany(_ context.Context, keys []string, value func(k int) []byte) error {
	errs := make([]error, p.atOnce)
	part := func(from int) {
		for k := from; k < len(keys) && errs[from] == nil; k += p.atOnce {
			errs[from] = p.set(keys[k], value(k))
		}
	}
	var wg sync.WaitGroup
	for from := 1; from < p.atOnce; from++ {
		wg.Go(func() { part(from) })
	}
	part(0)
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// openGomemcache opens gomemcache with its defaults, and tuned. Tuned, it keeps a
// connection for each goroutine in place of two, and eight goroutines share a bulk
// set.
func openGomemcache(at endpoint) (family, error) {
	usual, tuned := memcache.New(at.addr), memcache.New(at.addr)
	tuned.MaxIdleConns = maxGoroutines
	return family{
		close:    func() { usual.Close(); tuned.Close() },
		subjects: append(gomemcache("gomemcache", usual, 1), gomemcache("gomemcache-tuned", tuned, 8)...),
	}, nil
}

func gomemcache(name string, c *memcache.Client, atOnce int) []subject {
	c.Timeout = patience
	value := func(i *memcache.Item) []byte { return i.Value }
	return pooled{
		name: name, atOnce: atOnce,
		get: func(key string) ([]byte, error) {
			item, err := c.Get(key)
			if err != nil {
				return nil, err
			}
			return item.Value, nil
		},
		set: func(key string, value []byte) error { return c.Set(&memcache.Item{Key: key, Value: value}) },
		getMany: func(_ context.Context, keys []string, f see) error {
			items, err := c.GetMulti(keys)
			return seeAll(keys, items, err, value, f)
		},
	}.subjects()
}

// openGrafana opens the fork of gomemcache by Grafana, tuned alike: connections are
// never closed.
func openGrafana(at endpoint) (family, error) {
	c := grafana.New(at.addr)
	c.Timeout, c.MaxIdleConns, c.MinIdleConnsHeadroomPercentage = patience, maxGoroutines, -1
	value := func(i *grafana.Item) []byte { return i.Value }
	return family{close: c.Close, subjects: pooled{
		name: "grafana", atOnce: 8,
		get: func(key string) ([]byte, error) {
			item, err := c.Get(key)
			if err != nil {
				return nil, err
			}
			return item.Value, nil
		},
		set: func(key string, value []byte) error { return c.Set(&grafana.Item{Key: key, Value: value}) },
		getMany: func(ctx context.Context, keys []string, f see) error {
			items, err := c.GetMulti(ctx, keys)
			return seeAll(keys, items, err, value, f)
		},
	}.subjects()}, nil
}

// openRainycape opens the client of the article beside gomemcache, tuned alike.
func openRainycape(at endpoint) (family, error) {
	c, err := rainycape.New(at.addr)
	if err != nil {
		return family{}, err
	}
	c.SetTimeout(patience)
	c.SetMaxIdleConnsPerAddr(maxGoroutines)
	value := func(i *rainycape.Item) []byte { return i.Value }
	return family{close: func() { c.Close() }, subjects: pooled{
		name: "rainycape", atOnce: 8,
		get: func(key string) ([]byte, error) {
			item, err := c.Get(key)
			if err != nil {
				return nil, err
			}
			return item.Value, nil
		},
		set: func(key string, value []byte) error { return c.Set(&rainycape.Item{Key: key, Value: value}) },
		getMany: func(_ context.Context, keys []string, f see) error {
			items, err := c.GetMulti(keys)
			return seeAll(keys, items, err, value, f)
		},
	}.subjects()}, nil
}
