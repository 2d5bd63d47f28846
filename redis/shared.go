package redis

import (
	"context"
	"errors"
	"time"

	"github.com/strata-cache/strata/internal/netpool/mux"
	"github.com/strata-cache/strata/internal/resp"
)

const (
	// small is the size, in bytes, up to which commands are thought to be quick,
	// so that others can wait behind them, and smallReply that of replies: on a
	// connection of its own one costs several times as much.
	small      = 16 << 10
	smallReply = 64 << 10
	// lent is the size up to which who reads a reply for another leaves it to
	// that one to reserve memory for it.
	lent = 16 << 10
)

// question is a command as it goes over the shared connection.
type question struct {
	name string
	// key is what the size of the reply is remembered by.
	key string
	at  time.Time // now, if it is known
	// The first of these that is set appends the command, or else it is made of
	// args, or else it is SET of key to value with a life of ttl, or GET of key,
	// whose value is appended to dst.
	put  func(dst []byte) []byte
	read func(dst []byte, key string) []byte
	try  func(dst []byte) ([]byte, error)
	args []any

	set   bool
	value []byte
	ttl   time.Duration
	dst   []byte
}

// answer is what came of it.
type answer struct {
	// found says that dst has got the string that GET asked for. What else came
	// is in value.
	found bool
	dst   []byte
	value resp.Value
	size  int
}

// ticket is a call on the shared connection. Tickets are used again.
type ticket struct {
	mux.Ticket
	out, in []byte
	get     bool
	answer
}

// encode makes the command. An error is about an argument.
func (t *ticket) encode(q *question) error {
	var err error
	t.get, t.in = false, t.in[:0]
	switch {
	case q.put != nil:
		t.out = q.put(t.out[:0])
	case q.read != nil:
		t.out = q.read(t.out[:0], q.key)
	case q.try != nil:
		t.out, err = q.try(t.out[:0])
	case q.args != nil:
		t.out, err = resp.AppendCommand(t.out[:0], q.args...)
	case q.set:
		t.out = resp.AppendBulk(resp.AppendSetHead(t.out[:0], q.key, q.ttl), q.value)
		t.out = resp.AppendLife(t.out, q.ttl)
	default:
		t.get = true
		t.out = resp.AppendGet(t.out[:0], q.key)
	}
	t.answer = answer{dst: q.dst}
	if err != nil {
		return argError(err)
	}
	return nil
}

// free lets t be used again.
func (n *node) free(t *ticket) {
	if t.answer = (answer{}); cap(t.out) > 2*small {
		t.out = nil
	}
	n.tickets.Put(t)
}

// Answer implements mux.Answerer. Who reads for all only copies what needs
// new memory: to take it apart and to reserve that memory is left to the caller.
func (t *ticket) Answer(reply []byte) {
	t.size = len(reply)
	if t.get && cap(t.dst)-len(t.dst) >= len(reply) || len(reply) > lent {
		t.take(reply)
		return
	}
	t.in = append(t.in[:0], reply...)
}

// answered returns the answer, which is complete.
func (t *ticket) answered() answer {
	if len(t.in) > 0 {
		t.take(t.in)
	}
	return t.answer
}

// take makes the answer of a reply.
func (t *ticket) take(reply []byte) {
	v := resp.Parse(reply)
	if !t.get || v.Kind() != resp.Bulk {
		t.value = v.Clone()
		return
	}
	t.found = true
	if t.dst = append(t.dst, v.Bytes()...); t.dst == nil {
		t.dst = []byte{} // there is a string, if an empty one
	}
}

// errElsewhere is returned when a command has to go over a connection of its
// own. Nothing was sent.
var errElsewhere = errors.New("redis: not over the shared connection")

// share sends a command over the shared connection. If that was found dead
// before the reply came, and the command either was not sent or only reads, it
// is sent once more.
func (n *node) share(ctx context.Context, q question) (answer, error) {
	if n.o.MaxConns < 2 || n.sizes.large(q.key) {
		return answer{}, errElsewhere
	}
	now := q.at
	if now.IsZero() {
		now = time.Now()
	}
	reads := resp.ReadsOnly(q.name)
	for again := false; ; again = true {
		t, _ := n.tickets.Get().(*ticket)
		if t == nil {
			t = &ticket{}
		}
		if err := t.encode(&q); err != nil {
			n.free(t)
			return answer{}, err
		}
		if len(t.out) > small {
			n.free(t)
			return answer{}, errElsewhere
		}
		t.Repeatable = reads && !again
		line := n.line(reads)
		out, err := line.Do(ctx, now, &t.Ticket, t.out, t)
		if err == nil && line == n.past {
			n.mux.Reroute(time.Now()) // the server answers
		}
		var a answer
		if err == nil {
			a = t.answered()
		}
		if !out.Kept {
			n.free(t)
		}
		switch {
		case err == nil:
			n.sizes.note(q.key, a.size)
			if unfit(a.value) {
				n.renew()
			}
			return a, nil
		case errors.Is(err, mux.ErrBusy):
			return answer{}, errElsewhere
		case !out.Lost || again || !SafeToRetry(err) && !reads:
			return answer{}, err
		}
		n.pool.Retried()
	}
}

// line returns the shared connection for a call: what only reads gets past one
// that is stuck, as it is behind a command that the server holds back.
func (n *node) line(reads bool) *mux.Mux[*conn] {
	switch {
	case !reads:
	case n.mux.Stuck():
		n.strayed.Store(true)
		return n.past
	case n.strayed.Load() && n.strayed.CompareAndSwap(true, false):
		n.past.Renew() // the pool may have it
	}
	return n.mux
}

// do is Client.Do on this server.
func (n *node) do(ctx context.Context, name string, args []any) Reply {
	if resp.Quick(name) && weight(args) <= small {
		a, err := n.share(ctx, question{name: name, key: keyOf(args), args: args})
		if err != errElsewhere {
			return replyOf(a, err)
		}
	}
	reply := n.ask(ctx, name, func(cn *conn) error { return cn.command(args) })
	n.sizes.note(keyOf(args), reply.size())
	return reply
}

// eval is Client.Eval on this server. weight is that of the arguments.
func (n *node) eval(ctx context.Context, name string, weight int, put func([]byte) ([]byte, error)) Reply {
	if weight <= small {
		a, err := n.share(ctx, question{name: name, key: name, try: put})
		if err != errElsewhere {
			return replyOf(a, err)
		}
	}
	return n.ask(ctx, name, func(cn *conn) error {
		var err error
		if cn.w, err = put(cn.w); err != nil {
			return argError(err)
		}
		return nil
	})
}

// get is Client.AppendGet on this server.
func (n *node) get(ctx context.Context, dst []byte, key string) ([]byte, error) {
	a, err := n.share(ctx, question{name: "GET", key: key, dst: dst})
	switch {
	case err == errElsewhere:
		return n.appendGet(ctx, dst, key)
	case err != nil:
		return dst, err
	case !a.found:
		return dst, newReply(a.value).mismatch("string")
	}
	return a.dst, nil
}

func replyOf(a answer, err error) Reply {
	if err != nil {
		return Reply{err: err}
	}
	return newReply(a.value)
}

// weight is about how many bytes args are.
func weight(args []any) (n int) {
	for _, a := range args {
		switch v := a.(type) {
		case string:
			n += len(v)
		case []byte:
			n += len(v)
		}
	}
	return n
}

// keyOf is the argument that most commands have their key in.
func keyOf(args []any) string {
	if len(args) > 1 {
		key, _ := textArg(args[1])
		return key
	}
	return ""
}
