package redis

import (
	"context"

	"github.com/strata-cache/strata/internal/redis/resp"
)

// MGet reads the values of keys with one MGET and calls f with each, in order:
// i is the position in keys, found whether there is a string. The value holds
// during the call only, so nothing is allocated for values of less than 64 KiB.
// Without keys nothing happens. In a cluster there is an MGET for each slot, and
// all values are read before f is called, into memory of their own.
//
// When f returns an error it is not called again. MGet reads the rest of the
// reply and returns this error. After any other error f may have been called
// for some of the keys. Limits such as Options.MaxReply hold for each value.
// The time that f takes counts as time of the call.
func (c *Client) MGet(ctx context.Context, keys []string, f func(i int, value []byte, found bool) error) error {
	if len(keys) == 0 {
		return nil
	}
	if c.cluster == nil {
		return c.home.mget(ctx, keys, f)
	}
	args := []any{"MGET"}
	for _, k := range keys {
		args = append(args, k)
	}
	reply := c.cluster.do(ctx, "MGET", args)
	if reply.err == nil && (reply.v.Kind() != resp.Array || reply.v.Len() != len(keys)) {
		return errParts
	}
	for i, r := range reply.All() {
		if err := f(i, r.v.Bytes(), r.v.Kind() == resp.Bulk); err != nil {
			return err
		}
	}
	return reply.err
}

func (n *node) mget(ctx context.Context, keys []string, f func(i int, value []byte, found bool) error) error {
	if n.o.Trace == nil {
		return n.mgetAlone(ctx, keys, f)
	}
	return n.traced(ctx, single("MGET"), func() error { return n.mgetAlone(ctx, keys, f) })
}

func (n *node) mgetAlone(ctx context.Context, keys []string, f func(i int, value []byte, found bool) error) error {
	var answer error
	err := n.run(ctx, "MGET", func(cn *conn) (err error) {
		cn.W = resp.AppendArray(cn.W[:0], len(keys)+1)
		cn.W = append(cn.W, "$4\r\nMGET\r\n"...)
		for _, k := range keys {
			cn.W = resp.AppendString(cn.W, k)
		}
		if err = cn.flush(true); err == nil {
			defer cn.r.Release()
			answer, err = cn.values(len(keys), f)
		}
		return err
	})
	if err != nil {
		return err
	}
	return answer
}

// values reads an array of n strings or nulls and calls f with each. answer is
// the error of the server or of f, err is about the connection.
func (c *conn) values(n int, f func(i int, value []byte, found bool) error) (answer, err error) {
	have, v, err := c.arrayHeader()
	switch {
	case err != nil:
		return nil, err
	case have < 0 && v.Kind() == resp.Error:
		return serverError(v.Bytes()), nil
	case have != n:
		return nil, readError(&resp.ProtocolError{Reason: "not as many values as keys"})
	}
	for i := range n {
		value, found, err := c.r.BorrowString()
		if err != nil {
			return answer, readError(err)
		}
		if answer == nil {
			// The rest of the reply is read in any case, so that the connection can be used again.
			answer = f(i, value, found)
		}
	}
	return answer, nil
}

// arrayHeader is read for the header of an array.
func (c *conn) arrayHeader() (n int, v resp.Value, err error) {
	for {
		n, v, err = c.r.ArrayHeader()
		if err != nil {
			return -1, v, readError(err)
		}
		// A push can come in front of any reply.
		if v.Kind() != resp.Push {
			return n, v, c.judge(v)
		}
	}
}
