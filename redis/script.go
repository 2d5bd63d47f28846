package redis

import (
	"context"
	"crypto/sha1"
	"encoding/hex"
	"time"

	"github.com/strata-cache/strata/internal/redis/resp"
)

// Script is a Lua script that the server runs. It is sent once; later calls
// name it by its digest. Make it with [NewScript]; it can be shared.
type Script struct {
	text, digest string
}

// NewScript returns the script with this text. Nothing is sent.
func NewScript(text string) *Script {
	// SHA-1 is a name here, prescribed by the protocol.
	sum := sha1.Sum([]byte(text))
	return &Script{text: text, digest: hex.EncodeToString(sum[:])}
}

// Eval runs a script with keys and arguments, which may be of the types that
// [Client.Do] takes. A script that the server does not know is sent and run.
//
// In a cluster all keys must be in one slot, or else the error is ErrCrossSlot;
// a script without keys runs on any primary.
func (c *Client) Eval(ctx context.Context, s *Script, keys []string, args ...any) Reply {
	if err := c.o.checkSizes(args); err != nil {
		return Reply{err: err}
	}
	start := time.Now()
	reply := c.eval(ctx, "EVALSHA", s.digest, s.digest, keys, args)
	// The server has lost its scripts, by a restart for example. The text runs this one and makes
	// it known again.
	if unknownScript(reply.err) {
		ctx, cancel := within(ctx, start, c.o.Timeout)
		defer cancel()
		reply = c.eval(ctx, "EVAL", s.digest, s.text, keys, args)
	}
	return reply
}

func (c *Client) eval(ctx context.Context, name, digest, script string, keys []string, args []any) (reply Reply) {
	put := func(dst []byte) ([]byte, error) { return resp.AppendEval(dst, name, script, keys, args) }
	if c.cluster == nil {
		return route{n: c.home}.eval(ctx, name, digest, weight(args), put)
	}
	slot, err := sameSlot(keys)
	if err == nil {
		err = c.cluster.follow(ctx, c.cluster.target(name, slot), func(ctx context.Context, r route) error {
			reply = r.eval(ctx, name, digest, weight(args), put)
			return reply.err
		})
	}
	if err != nil {
		return Reply{err: err}
	}
	return reply
}

// Eval queues a call of a script. Arguments are copied. If the server does not
// know the script, the call is repeated with the script's text after all other
// commands of the pipeline, or in a cluster after those that its node has
// answered with it; in a transaction the text is always sent. In a cluster the
// keys are subject to the same rule as the keys of [Client.Eval].
func (p *Pipeline) Eval(s *Script, keys []string, args ...any) {
	slot := -1
	err := p.c.o.checkSizes(args)
	if err == nil && p.c.cluster != nil {
		slot, err = sameSlot(keys)
	}
	if err == nil {
		err = p.eval(s, keys, args)
	}
	if err != nil {
		p.fail(err)
		return
	}
	p.note(false, slot)
	if n := len(p.cmds); n > 0 && !p.multi {
		p.cmds[n-1].text = func() *resp.Batch { return p.calls.WithText(&p.b, n-1) }
	}
}

func (p *Pipeline) eval(s *Script, keys []string, args []any) error {
	if !p.multi {
		return p.calls.Add(&p.b, s.text, s.digest, keys, args)
	}
	// In a transaction an unknown script could not be repeated: the commands behind it would have
	// run without it.
	out, err := resp.AppendEval(p.b.Text, "EVAL", s.text, keys, args)
	if err == nil {
		p.b.Text = out
		p.b.End()
	}
	return err
}
