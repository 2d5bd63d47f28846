package memcached

import (
	"context"
	"errors"
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/strata-cache/strata/internal/memcached/meta"
	"github.com/strata-cache/strata/internal/memcached/roster"
	"github.com/strata-cache/strata/internal/observe"
	"github.com/strata-cache/strata/internal/wire"
	"github.com/strata-cache/strata/internal/wire/mux"
	"github.com/strata-cache/strata/internal/wire/pool"
	"github.com/strata-cache/strata/remote"
)

// A node is one server with its pool of connections. do sends a request over the
// connection that calls share, if its command and reply are expected to be small, and
// otherwise over one of its own. Invariant: a connection that run takes from the pool
// goes back, and only a clean one is used again; while a request is shared, the
// reader of the connection writes to its call, and afterwards only the caller does.
// Each outcome of a call is noted in the server's record.

const (
	// small is the size, in bytes, up to which commands are sent over the shared
	// connection: others wait behind them.
	small = 16 << 10
	// smallReply is the size, in bytes, up to which values are read over the shared
	// connection: with its line it fits into the buffer, and a larger one is collected.
	smallReply = wire.BufferSize - 2<<10
	// lent is the size, in bytes, up to which the reader copies a reply and
	// leaves it to the caller to reserve memory for the value.
	lent = 16 << 10
)

// node is one server as a client uses it.
type node struct {
	dialer
	pool *pool.Pool[*conn]
	// lines shares a connection for small commands; sizes knows which keys have
	// large values.
	lines  *mux.Pair[*conn]
	sizes  wire.LargeKeys
	calls  sync.Pool // of *call
	opaque atomic.Uint32
	record *roster.Outlier
}

// newNode returns a node with no connection.
func newNode(o *Options, addr string, steps *meta.Steps) *node {
	n := &node{sizes: wire.LargeKeys{Small: smallReply}, dialer: dialer{o: o, addr: addr, steps: steps, tls: o.TLS}, record: roster.NewOutlier(o.Fleet.EjectAfter)}
	if network(addr) == "tcp" {
		n.tls = pool.ServerName(o.TLS, addr)
	}
	n.lines = mux.NewPair(pool.Config[*conn]{
		Dial: func(ctx context.Context) (*conn, error) {
			return pool.Open(ctx, faults, n.open)
		},
		Limits: o.limits(),
		Errors: faults,
	}, nil)
	n.pool = n.lines.Pool
	return n
}

// Name is the name of the server.
func (n *node) Name() string { return n.addr }

// Stats returns the counters of the pool.
func (n *node) Stats() pool.Stats { return n.pool.Stats() }

// Renew closes all connections: idle ones at once, used ones when they come back.
func (n *node) Renew() {
	n.lines.Renew(time.Now())
}

// Close closes all connections and waits for the goroutines of the node.
func (n *node) Close() {
	n.lines.Close()
}

// ready returns the abilities of the server. It opens a connection if there was none.
func (n *node) ready(ctx context.Context) (Abilities, error) {
	if able := n.able.Load(); able != nil {
		return *able, nil
	}
	return n.look(ctx)
}

// look returns the abilities of the server as a connection in use shows them.
func (n *node) look(ctx context.Context) (Abilities, error) {
	now := time.Now()
	cn, err := n.pool.Get(ctx, now)
	if err != nil {
		n.heard(err)
		return Abilities{}, err
	}
	n.pool.Put(cn, true, now)
	return *n.able.Load(), nil
}

// heard notes whether the server has answered a call that ended with err.
func (n *node) heard(err error) {
	switch {
	case err == nil, errors.Is(err, remote.ErrRefused):
		n.record.Answered()
	case dead(err):
		n.record.Failed(time.Now(), err)
	}
}

// do carries out a request: it appends the value, if there is one, to dst.
func (n *node) do(ctx context.Context, q request, dst []byte) (a answer, err error) {
	if n.o.Trace == nil {
		return n.doEither(ctx, q, dst)
	}
	_ = n.traced(ctx, n.name(q.Op), 1, func() error {
		a, err = n.doEither(ctx, q, dst)
		return err
	})
	return a, err
}

// doEither is do over the shared connection, or one of its own.
func (n *node) doEither(ctx context.Context, q request, dst []byte) (answer, error) {
	able, err := n.ready(ctx)
	if err != nil {
		return answer{}, err
	}
	if q.Meta = able.Meta; !q.Meta && q.Key.Binary {
		return answer{}, ErrClassic
	}
	if !able.OwnCAS {
		q.Own = 0
	}
	q.Opaque = n.opaque.Add(1)
	if c := n.share(&q); c != nil {
		a, err := n.send(ctx, c, dst)
		if err != mux.ErrElsewhere {
			return a, err
		}
	}
	return n.alone(ctx, &q, dst)
}

// call is a request on the shared connection.
type call struct {
	mux.Ticket
	request
	// text is the command as it is sent, raw a reply not yet taken apart.
	text, raw []byte
	// dst is where the value goes.
	dst []byte
	answer
}

// share returns a call for the shared connection, or nil if the request has to go
// over a connection of its own.
func (n *node) share(q *request) *call {
	if n.o.MaxConns < 2 || len(q.Value)+len(q.Key.Full) > small || n.sizes.Large(q.Key.Text) {
		return nil
	}
	c, _ := n.calls.Get().(*call)
	if c == nil {
		c = &call{}
	}
	c.request = *q
	c.text = c.AppendAll(c.text[:0])
	c.Value = nil // the caller's, and copied
	return c
}

// free lets c be used again.
func (n *node) free(c *call) {
	c.request, c.dst, c.answer = request{}, nil, answer{}
	if c.raw = c.raw[:0]; cap(c.text) > 2*small {
		c.text = nil
	}
	n.calls.Put(c)
}

// send sends c over the shared connection. If the connection was found dead
// before the reply came, and the command either was not sent or only reads, it
// is sent once more. c belongs to send.
func (n *node) send(ctx context.Context, c *call, dst []byte) (answer, error) {
	c.dst = dst
	kept, err := n.lines.Do(ctx, time.Now(), c.Op.Reads(), &c.Ticket, c.text, c)
	var a answer
	if err == nil {
		a = c.accept()
		n.sizes.Note(c.Key.Text, a.size)
	}
	if !kept {
		if c.Begun() && errors.Is(err, ErrProtocol) { // it may be over the limit, and fails all calls behind it
			n.sizes.Note(c.Key.Text, math.MaxInt32)
		}
		n.free(c)
	}
	if err != mux.ErrElsewhere {
		n.heard(err)
	}
	if err == nil {
		err = a.err
	}
	return a, err
}

// Answer implements mux.Answerer. The reader of the connection only copies a
// value that needs new memory: the caller reserves that memory.
func (c *call) Answer(reply []byte) bool {
	r, _ := meta.Parse(reply)
	if !c.Fits(&r) {
		return false
	}
	if r.Size < 0 || cap(c.dst)-len(c.dst) >= len(r.Data) || len(reply) > lent {
		c.finish(&r)
		return true
	}
	c.raw = append(c.raw[:0], reply...)
	return true
}

// accept returns the answer.
func (c *call) accept() answer {
	if len(c.raw) > 0 {
		r, _ := meta.Parse(c.raw)
		c.finish(&r)
	}
	return c.answer
}

// finish makes the answer of a fitting reply.
func (c *call) finish(r *meta.Reply) {
	c.take(r)
	if r.Size >= 0 && c.err == nil {
		c.takeValue(&c.request, c.dst, r.Data)
	}
}

// alone carries out a request over a connection of its own: a value is read straight
// into dst if it has room.
func (n *node) alone(ctx context.Context, q *request, dst []byte) (a answer, err error) {
	err = n.run(ctx, q.Op.Reads(), func(cn *conn) error {
		cn.put(q)
		err := cn.flush(true)
		if err != nil {
			return err
		}
		a, err = cn.answer(q, dst)
		return err
	})
	if err != nil {
		return answer{}, err
	}
	n.sizes.Note(q.Key.Text, a.size)
	return a, a.err
}

// answer reads the reply to a request.
func (c *conn) answer(q *request, dst []byte) (a answer, err error) {
	r, err := c.read()
	switch {
	case err != nil:
		return a, err
	case !q.Fits(&r):
		return a, errForeign()
	}
	a.take(&r)
	if r.Size < 0 {
		return a, nil
	}
	item := r.Kind == meta.Item
	data, err := c.value(dst, r.Size)
	if err == nil && item {
		err = c.end()
	}
	if err != nil {
		return a, err
	}
	a.value = data
	if q.Key.Full != "" {
		a.takeValue(q, dst, data[len(dst):])
	}
	return a, nil
}

// run gives f a connection and takes it back. If the connection was found dead
// before any byte of a reply came, and the command either was not sent or only
// reads, f runs once more on another one. An error of f is about the connection.
func (n *node) run(ctx context.Context, reads bool, f func(*conn) error) error {
	return n.attempt(ctx, func(err error) bool { return SafeToRetry(err) || reads }, f)
}

// runOnce is run for an f that cannot run twice.
func (n *node) runOnce(ctx context.Context, f func(*conn) error) error {
	return n.attempt(ctx, func(error) bool { return false }, f)
}

// attempt is run with a choice of the errors after which f runs again.
func (n *node) attempt(ctx context.Context, repeat func(error) bool, f func(*conn) error) error {
	now := time.Now()
	once := func(cn *conn) (bool, error) { return cn.exchange(ctx, now, n.o.Timeout, f) }
	cn, calm, err := pool.Attempt(ctx, n.pool, now, once, repeat)
	if cn != nil {
		n.pool.Put(cn, calm && err == nil && cn.Quiet(), now)
	}
	n.heard(err)
	return err
}

// ping asks the server for an answer.
func (n *node) ping(ctx context.Context) error {
	able, err := n.ready(ctx)
	if err != nil {
		return err
	}
	command, want := classicProbe, meta.End
	if able.Meta {
		command, want = meta.NoOp, meta.MN
	}
	return n.ask(ctx, true, command, want, nil)
}

// mostStats is how many lines of statistics are read.
const mostStats = 100_000

// ask sends a command and reads lines up to one of kind last, and statistics before
// it. hear, if not nil, gets each.
func (n *node) ask(ctx context.Context, reads bool, command string, last meta.Kind, hear func(meta.Reply)) error {
	return n.traced(ctx, strings.Fields(command)[0], 1, func() error { return n.askAlone(ctx, reads, command, last, hear) })
}

func (n *node) askAlone(ctx context.Context, reads bool, command string, last meta.Kind, hear func(meta.Reply)) error {
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
			case r.Kind == meta.Error:
				answer = serverError(r)
				return nil
			case r.Kind != last && (last != meta.End || r.Kind != meta.Stat):
				return errForeign()
			}
			if hear != nil {
				hear(r)
			}
			if r.Kind == last {
				return nil
			}
		}
		return readError(&meta.ProtocolError{Reason: "too many statistics"})
	})
	if err == nil {
		err = answer
	}
	return err
}

// traced runs f, which sends n commands of a name to the server, and tells Options.Trace of it.
func (n *node) traced(ctx context.Context, name string, batch int, f func() error) error {
	if n.o.Trace == nil {
		return f()
	}
	c := remote.Command{System: "memcached", Name: name, Network: network(n.addr), Addr: n.addr}
	if batch > 1 {
		c.Name, c.Batch = "PIPELINE "+name, batch
	}
	return observe.RunTraced(ctx, n.o.Trace, c, f, status)
}

// name returns the name of a command. While it is unknown whether the server has meta commands,
// name assumes that it has them.
func (n *node) name(o meta.Op) string {
	able := n.able.Load()
	return o.Name(n.o.Protocol != Classic && (able == nil || able.Meta))
}

// status returns the code of the error reply in err, and whether it is about the state of an item.
func status(err error) (code string, answer bool) {
	var refused *ServerError
	if errors.As(err, &refused) {
		code = refused.Code
	}
	return code, errors.Is(err, ErrMiss) || errors.Is(err, ErrConflict) || errors.Is(err, ErrNotStored)
}
