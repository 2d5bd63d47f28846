package memcached

import (
	"context"
	"errors"
	"sync"

	"github.com/strata-cache/strata/internal/memcached/meta"
	"github.com/strata-cache/strata/remote"
)

// everyServer calls f for all servers at once, also for ejected ones. It returns the
// errors, in a fleet with the names of their servers.
func (c *Client) everyServer(f func(*node) error) error {
	all := c.servers.Now().All
	if len(all) == 1 {
		return f(all[0])
	}
	errs := make([]error, len(all))
	var wg sync.WaitGroup
	for i, n := range all {
		wg.Go(func() {
			if err := f(n); err != nil {
				errs[i] = &remote.ServerError{Server: n.addr, Err: err}
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// ofServers calls f for all servers at once, and returns the answers by the names of the
// servers that gave one.
func ofServers[T any](c *Client, f func(*node) (T, error)) (map[string]T, error) {
	var mu sync.Mutex // guards all
	all := map[string]T{}
	err := c.everyServer(func(n *node) error {
		answer, err := f(n)
		if err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		all[n.addr] = answer
		return nil
	})
	return all, err
}

// Ping asks every server for an answer, also the ejected ones. The error joins the
// errors of all silent servers.
func (c *Client) Ping(ctx context.Context) error {
	return c.everyServer(func(n *node) error { return n.ping(ctx) })
}

// Version returns the version of each server, by its name in Options.Servers. If some do
// not answer, it returns the versions of the others beside the error.
func (c *Client) Version(ctx context.Context) (map[string]string, error) {
	return ofServers(c, func(n *node) (version string, err error) {
		err = n.ask(ctx, true, "version\r\n", meta.Version, func(r meta.Reply) { version = string(r.Text) })
		return version, err
	})
}

// FlushAll removes all items of every server, also if others fail. The error joins the
// errors of all failed servers.
func (c *Client) FlushAll(ctx context.Context) error {
	return c.everyServer(func(n *node) error { return n.ask(ctx, false, "flush_all\r\n", meta.OK, nil) })
}

// Stats returns the statistics of each server, by its name in Options.Servers. A
// section, such as settings, items or slabs, selects the statistics; the empty one
// selects the general statistics. If some servers do not answer, Stats returns the
// statistics of the others beside the error.
func (c *Client) Stats(ctx context.Context, section string) (map[string]map[string]string, error) {
	if section != "" && !meta.PlainKey(section) {
		return nil, badKey(section)
	}
	return ofServers(c, func(n *node) (map[string]string, error) { return n.stats(ctx, section) })
}

func (n *node) stats(ctx context.Context, section string) (map[string]string, error) {
	command := "stats\r\n"
	if section != "" {
		command = "stats " + section + "\r\n"
	}
	stats := map[string]string{}
	err := n.ask(ctx, true, command, meta.End, func(r meta.Reply) {
		if r.Kind == meta.Stat {
			stats[string(r.Key)] = string(r.Text)
		}
	})
	return stats, err
}

// changedProbe stores an item with a CAS number of the client's choice, and asks for
// its value unless it has that number.
const changedProbe = "ms " + probeKey + "c 1 T5 E7\r\nx\r\nmg " + probeKey + "c v C7\r\n"

// Abilities returns the abilities that all servers have. It opens a connection to
// each server without one, and may store an item that lives for seconds.
func (c *Client) Abilities(ctx context.Context) (Abilities, error) {
	each, err := ofServers(c, func(n *node) (Abilities, error) {
		able, err := n.ready(ctx)
		if err == nil && able.OwnCAS {
			able.IfChanged, err = n.probeIfChanged(ctx)
		}
		return able, err
	})
	if err != nil {
		return Abilities{}, err
	}
	all := Abilities{Meta: true, OwnCAS: true, IfChanged: true}
	for _, able := range each {
		all.Meta = all.Meta && able.Meta
		all.OwnCAS = all.OwnCAS && able.OwnCAS
		all.IfChanged = all.IfChanged && able.IfChanged
	}
	return all, nil
}

// probeIfChanged tries to read an item only if it has changed: servers before 1.6.40
// accept that and send the value.
func (n *node) probeIfChanged(ctx context.Context) (can bool, err error) {
	err = n.run(ctx, true, func(cn *conn) error {
		cn.W = append(cn.W, changedProbe...)
		if err := cn.flush(false); err != nil {
			return err
		}
		stored, err := cn.read()
		if err != nil {
			return err
		}
		r, err := cn.read()
		if err == nil && r.Size >= 0 {
			_, err = cn.value(nil, r.Size)
		}
		can = stored.Kind == meta.HD && r.Size < 0 && r.Kind != meta.EN && r.Kind != meta.Error
		return err
	})
	return can, err
}
