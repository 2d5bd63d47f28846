package wire

import (
	"bufio"
	"bytes"
	"context"
	"net"
	"strconv"

	"github.com/couchbase/gomemcached"
	couchbase "github.com/couchbase/gomemcached/client"
)

// openCouchbase opens a client of the binary protocol for each goroutine, since a client is
// one connection. A bulk set sends quiet commands and a NOOP.
func openCouchbase(at endpoint) (family, error) {
	var all [maxGoroutines]*couchbase.Client
	end := func() {
		for _, c := range all {
			if c != nil {
				c.Close()
			}
		}
	}
	for g := range all {
		var err error
		if all[g], err = couchbase.Connect(at.network, at.addr); err != nil {
			end()
			return family{}, err
		}
	}
	read := func(_ context.Context, g int, key string) ([]byte, error) {
		r, err := all[g].Get(0, key)
		if err != nil {
			return nil, err
		}
		return r.Body, nil
	}
	write := func(_ context.Context, g int, key string, value []byte) error {
		_, err := all[g].Set(0, key, 0, 0, value)
		return err
	}
	get, set := reads(read), writesBy(write)
	return family{close: end, subjects: []subject{{
		name: "couchbase", kind: peer,
		get: get, set: set, setGet: both(set, get),
		mget: readsAll(func(_ context.Context, keys []string, f see) error {
			items := make(map[string]*gomemcached.MCResponse, len(keys))
			err := all[0].GetBulk(0, keys, items, nil)
			return seeAll(keys, items, err, func(r *gomemcached.MCResponse) []byte { return r.Body }, f)
		}),
		setAll: writesAll(couchbaseSetMany(all[0])),
	}, {
		name: "couchbase-bytes", kind: whole,
		getTo: copies(read),
		setFrom: collects(func(ctx context.Context, key string, value []byte) error {
			return write(ctx, 0, key, value)
		}),
	}}}, nil
}

func couchbaseSetMany(c *couchbase.Client) func(context.Context, []string, func(int) []byte) error {
	extras := make([]byte, 8)
	return func(_ context.Context, keys []string, value func(int) []byte) error {
		for k, key := range keys {
			err := c.Transmit(&gomemcached.MCRequest{Opcode: gomemcached.SETQ, Key: []byte(key), Extras: extras, Body: value(k)})
			if err != nil {
				return err
			}
		}
		r, err := c.Send(&gomemcached.MCRequest{Opcode: gomemcached.NOOP})
		if err == nil && r.Opcode != gomemcached.NOOP { // a quiet command replies only with an error
			err = errWrong
		}
		return err
	}
}

// byHand is a client as programs write it for themselves: a connection, lines, and no
// care for errors of the server. No value may contain a line with END alone.
type byHand struct {
	nc net.Conn
	rw *bufio.ReadWriter
}

// openByHand opens such a client for each goroutine.
func openByHand(at endpoint) (family, error) {
	var all [maxGoroutines]*byHand
	end := func() {
		for _, c := range all {
			if c != nil {
				c.nc.Close()
			}
		}
	}
	for g := range all {
		nc, err := net.Dial(at.network, at.addr)
		if err != nil {
			end()
			return family{}, err
		}
		all[g] = &byHand{nc, bufio.NewReadWriter(bufio.NewReader(nc), bufio.NewWriter(nc))}
	}
	get := reads(func(_ context.Context, g int, key string) ([]byte, error) { return all[g].get(key) })
	set := writesBy(func(_ context.Context, g int, key string, value []byte) error { return all[g].set(key, value) })
	return family{close: end, subjects: []subject{{
		name: "by-hand", kind: peer,
		get: get, set: set, setGet: both(set, get),
	}}}, nil
}

func (c *byHand) get(key string) (value []byte, err error) {
	if _, err := c.rw.WriteString("get " + key + "\r\n"); err != nil {
		return nil, err
	}
	if err := c.rw.Flush(); err != nil {
		return nil, err
	}
	for {
		line, more, err := c.rw.ReadLine()
		switch {
		case err != nil:
			return nil, err
		case string(line) == "END" && !more:
			return value, nil
		case !bytes.HasPrefix(line, []byte("VALUE ")):
			value = append(value, line...)
		}
	}
}

func (c *byHand) set(key string, value []byte) error {
	if _, err := c.rw.WriteString("set " + key + " 0 0 " + strconv.Itoa(len(value)) + "\r\n"); err != nil {
		return err
	}
	if _, err := c.rw.Write(append(bytes.Clone(value), "\r\n"...)); err != nil {
		return err
	}
	if err := c.rw.Flush(); err != nil {
		return err
	}
	line, _, err := c.rw.ReadLine()
	if err == nil && string(line) != "STORED" {
		err = errWrong
	}
	return err
}
