package wire

import (
	"context"
	"crypto/tls"
	"io"
	"net"

	"github.com/redis/rueidis"
)

// openRueidis opens rueidis with its defaults, and tuned to one connection for
// all goroutines (rueidis-one), on which most commands share a write.
func openRueidis(at endpoint) (family, error) {
	o := rueidis.ClientOption{
		InitAddress:       []string{at.addr},
		ForceSingleClient: true,
		DialCtxFn: func(ctx context.Context, addr string, d *net.Dialer, _ *tls.Config) (net.Conn, error) {
			return d.DialContext(ctx, at.network, addr)
		},
	}
	c, err := rueidis.NewClient(o)
	if err != nil {
		return family{}, err
	}
	o.PipelineMultiplex = -1
	one, err := rueidis.NewClient(o)
	if err != nil {
		c.Close()
		return family{}, err
	}
	all := rueidisSubject("rueidis", c)
	all.getAll, all.setAll = readsAll(rueidisGetAll(c)), writesAll(rueidisSetAll(c))
	all.mget = readsAll(rueidisMGet(c))
	all.getTo = streams(func(ctx context.Context, key string, w io.Writer) error {
		s := c.DoStream(ctx, c.B().Get().Key(key).Build())
		_, err := s.WriteTo(w)
		return err
	})
	return family{
		close: func() { one.Close(); c.Close() },
		subjects: []subject{all, rueidisSubject("rueidis-one", one), {
			name: "rueidis-bytes", kind: whole,
			getTo: copies(rueidisGet(c)), setFrom: collects(rueidisSet(c)),
		}},
	}, nil
}

func rueidisSubject(name string, c rueidis.Client) subject {
	return subject{name: name, kind: peer, get: reads(rueidisGet(c)), set: writes(rueidisSet(c))}
}

func rueidisGet(c rueidis.Client) func(context.Context, int, string) ([]byte, error) {
	return func(ctx context.Context, _ int, key string) ([]byte, error) {
		return c.Do(ctx, c.B().Get().Key(key).Build()).AsBytes()
	}
}

func rueidisSet(c rueidis.Client) func(context.Context, string, []byte) error {
	return func(ctx context.Context, key string, value []byte) error {
		return c.Do(ctx, c.B().Set().Key(key).Value(rueidis.BinaryString(value)).Build()).Error()
	}
}

func rueidisMGet(c rueidis.Client) func(context.Context, []string, see) error {
	return func(ctx context.Context, keys []string, f see) error {
		values, err := c.Do(ctx, c.B().Mget().Key(keys...).Build()).ToArray()
		for k := 0; k < len(values) && err == nil; k++ {
			var v []byte
			if v, err = values[k].AsBytes(); err == nil {
				err = f(k, v)
			}
		}
		return err
	}
}

func rueidisGetAll(c rueidis.Client) func(context.Context, []string, see) error {
	var commands []rueidis.Completed
	return func(ctx context.Context, keys []string, f see) error {
		commands = commands[:0]
		for _, key := range keys {
			commands = append(commands, c.B().Get().Key(key).Build())
		}
		for k, r := range c.DoMulti(ctx, commands...) {
			v, err := r.AsBytes()
			if err == nil {
				err = f(k, v)
			}
			if err != nil {
				return err
			}
		}
		return nil
	}
}

func rueidisSetAll(c rueidis.Client) func(context.Context, []string, func(int) []byte) error {
	var commands []rueidis.Completed
	return func(ctx context.Context, keys []string, value func(int) []byte) error {
		commands = commands[:0]
		for k, key := range keys {
			commands = append(commands, c.B().Set().Key(key).Value(rueidis.BinaryString(value(k))).Build())
		}
		for _, r := range c.DoMulti(ctx, commands...) {
			if err := r.Error(); err != nil {
				return err
			}
		}
		return nil
	}
}
