package wire

import (
	"context"
	"crypto/tls"
	"io"
	"net"

	"github.com/valkey-io/valkey-go"
)

// openValkey opens valkey-go with its defaults.
func openValkey(at endpoint) (family, error) {
	o := valkey.ClientOption{
		InitAddress:       []string{at.addr},
		ForceSingleClient: true,
		DialCtxFn: func(ctx context.Context, addr string, d *net.Dialer, _ *tls.Config) (net.Conn, error) {
			return d.DialContext(ctx, at.network, addr)
		},
	}
	c, err := valkey.NewClient(o)
	if err != nil {
		return family{}, err
	}
	get, set := valkeyGet(c), valkeySet(c)
	return family{close: c.Close, subjects: []subject{{
		name: "valkey-go", kind: peer,
		get: reads(get), set: writes(set),
		getAll: readsAll(valkeyGetAll(c)), setAll: writesAll(valkeySetAll(c)),
		mget: readsAll(valkeyMGet(c)),
		getTo: streams(func(ctx context.Context, key string, w io.Writer) error {
			s := c.DoStream(ctx, c.B().Get().Key(key).Build())
			_, err := s.WriteTo(w)
			return err
		}),
	}, {
		name: "valkey-go-bytes", kind: whole,
		getTo: copies(get), setFrom: collects(set),
	}}}, nil
}

func valkeyMGet(c valkey.Client) func(context.Context, []string, see) error {
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

func valkeyGet(c valkey.Client) func(context.Context, int, string) ([]byte, error) {
	return func(ctx context.Context, _ int, key string) ([]byte, error) {
		return c.Do(ctx, c.B().Get().Key(key).Build()).AsBytes()
	}
}

func valkeySet(c valkey.Client) func(context.Context, string, []byte) error {
	return func(ctx context.Context, key string, value []byte) error {
		return c.Do(ctx, c.B().Set().Key(key).Value(valkey.BinaryString(value)).Build()).Error()
	}
}

func valkeyGetAll(c valkey.Client) func(context.Context, []string, see) error {
	var commands []valkey.Completed
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

func valkeySetAll(c valkey.Client) func(context.Context, []string, func(int) []byte) error {
	var commands []valkey.Completed
	return func(ctx context.Context, keys []string, value func(int) []byte) error {
		commands = commands[:0]
		for k, key := range keys {
			commands = append(commands, c.B().Set().Key(key).Value(valkey.BinaryString(value(k))).Build())
		}
		for _, r := range c.DoMulti(ctx, commands...) {
			if err := r.Error(); err != nil {
				return err
			}
		}
		return nil
	}
}
