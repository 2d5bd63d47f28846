package memcached

import (
	"context"

	"github.com/strata-cache/strata/internal/mcmeta"
)

// Ping asks every server for a sign of life.
func (c *Client) Ping(ctx context.Context) error {
	for n := range c.nodes() {
		able, err := n.ready(ctx)
		if err != nil {
			return err
		}
		command, want := classicProbe, mcmeta.End
		if able.Meta {
			command, want = mcmeta.NoOp, mcmeta.MN
		}
		if err := n.ask(ctx, true, command, want, nil); err != nil {
			return err
		}
	}
	return nil
}

// Version returns the version of each server, by its name in Options.Servers.
func (c *Client) Version(ctx context.Context) (map[string]string, error) {
	all := map[string]string{}
	for n := range c.nodes() {
		err := n.ask(ctx, true, "version\r\n", mcmeta.Version, func(r mcmeta.Reply) { all[n.addr] = string(r.Text) })
		if err != nil {
			return nil, err
		}
	}
	return all, nil
}

// FlushAll removes all items of every server.
func (c *Client) FlushAll(ctx context.Context) error {
	for n := range c.nodes() {
		if err := n.ask(ctx, false, "flush_all\r\n", mcmeta.OK, nil); err != nil {
			return err
		}
	}
	return nil
}

// Stats returns the statistics of each server, by its name in Options.Servers: those
// of a section such as settings, items or slabs, or the general ones if it is empty.
func (c *Client) Stats(ctx context.Context, section string) (map[string]map[string]string, error) {
	command := "stats\r\n"
	if section != "" {
		if !mcmeta.PlainKey(section) {
			return nil, badKey(section)
		}
		command = "stats " + section + "\r\n"
	}
	all := map[string]map[string]string{}
	for n := range c.nodes() {
		stats := map[string]string{}
		err := n.ask(ctx, true, command, mcmeta.End, func(r mcmeta.Reply) {
			if r.Kind == mcmeta.Stat {
				stats[string(r.Key)] = string(r.Text)
			}
		})
		if err != nil {
			return nil, err
		}
		all[n.addr] = stats
	}
	return all, nil
}

// mostStats is how many lines of statistics are read.
const mostStats = 100_000

// ask sends a command and reads lines up to one of kind last, and statistics before
// it. hear, if not nil, gets each.
func (n *node) ask(ctx context.Context, reads bool, command string, last mcmeta.Kind, hear func(mcmeta.Reply)) error {
	var answer error
	err := n.run(ctx, reads, func(cn *conn) error {
		answer = nil
		cn.W = append(cn.W, command...)
		if err := cn.flush(true); err != nil {
			return err
		}
		for range mostStats {
			r, err := cn.read()
			switch {
			case err != nil:
				return err
			case r.Kind == mcmeta.Error:
				answer = serverError(r)
				return nil
			case r.Kind != last && (last != mcmeta.End || r.Kind != mcmeta.Stat):
				return errForeign()
			}
			if hear != nil {
				hear(r)
			}
			if r.Kind == last {
				return nil
			}
		}
		return readError(&mcmeta.ProtocolError{Reason: "too many statistics"})
	})
	if err == nil {
		err = answer
	}
	return err
}

// changedProbe stores an item with a CAS number of the client's choice, and asks for
// its value unless it has that number.
const changedProbe = "ms " + probeKey + "c 1 T5 E7\r\nx\r\nmg " + probeKey + "c v C7\r\n"

// Abilities returns those that all servers have. It opens a connection to each, if
// there was none, and may store an item that lives for seconds.
func (c *Client) Abilities(ctx context.Context) (Abilities, error) {
	all := Abilities{Meta: true, OwnCAS: true, IfChanged: true}
	for n := range c.nodes() {
		able, err := n.ready(ctx)
		if err == nil && able.OwnCAS {
			able.IfChanged, err = n.probeIfChanged(ctx)
		}
		if err != nil {
			return Abilities{}, err
		}
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
			_, err = cn.value(nil, r)
		}
		can = stored.Kind == mcmeta.HD && r.Size < 0 && r.Kind != mcmeta.EN && r.Kind != mcmeta.Error
		return err
	})
	return can, err
}
