package memcached

import (
	"context"
	"crypto/tls"
	"errors"
	"strings"
	"sync/atomic"
	"time"

	"github.com/strata-cache/strata/internal/memcached/meta"
	"github.com/strata-cache/strata/internal/wire/pool"
)

// A connection is opened in steps: dial, TLS, credentials, and a probe that finds the
// abilities of the server by their effect. Invariant: a returned connection owes no
// reply, and its dialer knows the abilities of its server.

// Abilities are the features of a server that a client uses. The client finds
// them by trying: a version number says nothing about a proxy.
type Abilities struct {
	// Meta says that meta commands are used; otherwise the client is in classic
	// mode.
	Meta bool
	// OwnCAS says that an item can be stored with a CAS number of the client's
	// choice, and that a delete can leave a marked item without a value, as from
	// 1.6.27 on.
	OwnCAS bool
	// IfChanged says that a read can ask for a value only if it has another CAS
	// number, as from 1.6.40 on.
	IfChanged bool
}

// probeKey is a key that no program uses.
const probeKey = "stratas/probe/1="

// metaProbe asks for four replies of one line each, and changes nothing. The flag b
// came with the present form of the meta commands, in 1.6.10; x and E in 1.6.27.
const metaProbe = "mg c3RyYXRhcHJvYmU= b\r\nmd " + probeKey + " x\r\nmd " + probeKey + " E1\r\n" + meta.NoOp

// classicProbe works with every server and proxy.
const classicProbe = "get " + probeKey + "\r\n"

// errHungUp says that a server has closed the connection in answer to the probe.
var errHungUp = errors.New("memcached: the server closes the connection on meta commands")

// dialer opens the connections of one server.
type dialer struct {
	o     *Options
	addr  string
	tls   *tls.Config // nil without encryption
	steps *meta.Steps
	// able are the abilities of the server when a connection was opened last;
	// nil before the first. refused is when it last closed connections on meta
	// commands, in nanoseconds, or zero.
	able    atomic.Pointer[Abilities]
	refused atomic.Int64
}

// note notes the abilities of the server.
func (d *dialer) note(able Abilities) {
	if old := d.able.Load(); old == nil || old.Meta != able.Meta || old.OwnCAS != able.OwnCAS {
		d.able.Store(&able)
	}
}

// open opens a connection and finds the abilities of its server.
func (d *dialer) open(ctx context.Context) (*conn, error) {
	switch {
	case d.o.Protocol == Classic, d.o.Protocol == Auto && d.refusesMeta(time.Now()):
		return d.openAs(ctx, false)
	case d.o.Protocol == Meta:
		return d.openAs(ctx, true)
	}
	cn, err := d.openAs(ctx, true)
	if !errors.Is(err, errHungUp) {
		return cn, err
	}
	// A proxy without meta commands, or a server that died just now.
	classic, err := d.openAs(ctx, false)
	if err != nil {
		return nil, err
	}
	if cn, err = d.openAs(ctx, true); errors.Is(err, errHungUp) {
		d.refused.Store(time.Now().UnixNano())
		d.able.Store(&Abilities{})
		return classic, nil
	}
	classic.Close()
	return cn, err
}

// refusedFor is how long a server without meta commands is not asked again.
const refusedFor = time.Minute

// refusesMeta reports whether the server has lately closed connections on meta
// commands.
func (d *dialer) refusesMeta(now time.Time) bool {
	at := d.refused.Load()
	return at != 0 && now.Sub(time.Unix(0, at)) < refusedFor
}

// openAs opens a connection and greets the server, with meta commands if isMeta is
// set.
func (d *dialer) openAs(ctx context.Context, isMeta bool) (*conn, error) {
	nc, err := pool.Connect(ctx, faults, d.o.DialContext, network(d.addr), d.addr, d.tls)
	if err != nil {
		return nil, err
	}
	c := &conn{Socket: pool.NewSocket(nc), r: meta.NewReader(nc, meta.Limits{Value: d.o.MaxValue})}
	c.r.Share(d.steps)
	err = pool.Greet(ctx, faults, c, func(c *conn) (calm bool, err error) {
		return c.exchange(ctx, time.Now(), d.o.DialTimeout, func(c *conn) error { return d.greet(c, isMeta) })
	})
	if err != nil {
		return nil, err
	}
	return c, nil
}

// greet sends the credentials and the probe. No bytes may lie behind the last
// answer, or the first call would get them.
func (d *dialer) greet(c *conn, isMeta bool) error {
	if d.o.Password != "" {
		if err := d.authenticate(c); err != nil {
			return err
		}
	}
	probe := c.probeClassic
	if isMeta {
		probe = c.probeMeta
	}
	able, err := probe()
	switch {
	case err != nil:
		return err
	case d.o.Protocol == Meta && !able.Meta:
		return ErrClassic
	}
	if err := c.Look(true); err != nil {
		return readError(err)
	}
	d.note(able)
	return nil
}

// authenticate sends the credentials: the value of a set, under any key.
func (d *dialer) authenticate(c *conn) error {
	value := d.o.Username + " " + d.o.Password
	c.W = meta.AppendNumber(append(c.W, "set auth 0 0"...), int64(len(value)))
	c.W = meta.AppendBlock(meta.AppendEnd(c.W), []byte(value))
	if err := c.flush(true); err != nil {
		return err
	}
	r, err := c.read()
	switch {
	case err != nil:
		return err
	case r.Kind == meta.Error:
		return serverError(r)
	case r.Kind != meta.Stored:
		return errForeign()
	}
	return nil
}

// probeClassic finds out whether the server answers.
func (c *conn) probeClassic() (able Abilities, err error) {
	c.W = append(c.W, classicProbe...)
	if err := c.flush(true); err != nil {
		return able, err
	}
	r, err := c.read()
	switch {
	case err != nil:
		return able, err
	case r.Kind == meta.Error:
		return able, serverError(r)
	case r.Kind != meta.End:
		return able, errForeign()
	}
	return able, nil
}

// probeMeta finds the abilities of the server, by four commands.
func (c *conn) probeMeta() (able Abilities, err error) {
	before := c.r.Received()
	c.W = append(c.W, metaProbe...)
	if err := c.flush(false); err != nil {
		return able, err
	}
	var kinds [4]meta.Kind
	var refusal *ServerError // of the first command
	for i := range kinds {
		r, err := c.read()
		switch {
		case c.r.Received() == before && faults.Lost(err):
			return able, errHungUp
		case refusal != nil && faults.Lost(err):
			if strings.Contains(refusal.Error(), "open connections") {
				return able, refusal // there is no place for any connection
			}
			return able, errHungUp // some proxies answer by an error, and close
		case err != nil:
			return able, err
		case r.Code == "CLIENT_ERROR" && string(r.Text) == "unauthenticated":
			return able, serverError(r)
		case i == 0 && r.Code == "SERVER_ERROR": // a proxy without its server says nothing about either
			return able, serverError(r)
		case r.Size >= 0:
			return able, errForeign()
		case i == 0 && r.Kind == meta.Error:
			refusal = serverError(r)
		}
		kinds[i] = r.Kind
	}
	// The commands have no value, so after an error the stream goes on.
	c.spoilt = false
	able.Meta = (kinds[0] == meta.EN || kinds[0] == meta.HD) && kinds[3] == meta.MN
	able.OwnCAS = able.Meta && kinds[1] == meta.NF && kinds[2] == meta.NF
	return able, nil
}
