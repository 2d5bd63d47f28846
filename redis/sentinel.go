package redis

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/strata-cache/strata/internal/resp"
)

// A sentinel is asked over a connection of its own, which is closed afterwards.
// Its answer is an address and the number of a configuration: of two answers, the
// one with the higher number is newer. primary.go decides between the answers of
// several sentinels.

// ErrNoPrimary is in the chain of the error of a call when no sentinel knows a
// primary of that name, or when the server that they name says that it is none.
// Nothing was sent.
var ErrNoPrimary = errors.New("redis: no primary")

// mostTold is the largest answer of a sentinel, in bytes. An answer takes some
// 1500.
const mostTold = 64 << 10

// switched is the channel on which a sentinel tells of a failover.
const switched = "+switch-master"

// sentinelAt returns the options for the sentinel at addr.
func (o Options) sentinelAt(addr string) Options {
	s := o.Sentinel
	o.Username, o.Password, o.Credentials, o.TLS = s.Username, s.Password, nil, s.TLS
	o.DB, o.ClientName, o.Protocol = 0, "", 2
	o.MaxValue, o.MaxReply = mostTold, mostTold
	return o.at(addr)
}

// told is the answer of a sentinel.
type told struct {
	addr string
	// epoch is the number of the configuration, zero if the sentinel does not
	// tell it.
	epoch int64
}

// askSentinel asks the sentinel at addr for the primary. The number is asked for
// before the address: if a failover comes in between, the address is newer than
// its number, which is harmless.
func askSentinel(ctx context.Context, o *Options, steps *resp.Steps, addr string) (t told, err error) {
	at := o.sentinelAt(addr)
	cn, err := connect(ctx, &at, steps)
	if err != nil {
		return told{}, err
	}
	defer cn.Close()
	v, err := cn.once(ctx, o.DialTimeout, "SENTINEL", "MASTER", o.Sentinel.Primary)
	var refused *Error
	switch {
	case err == nil:
		t.epoch = epochOf(v)
	case !errors.As(err, &refused): // a refusal may be for want of a right
		return told{}, err
	}
	v, err = cn.once(ctx, o.DialTimeout, "SENTINEL", "GET-MASTER-ADDR-BY-NAME", o.Sentinel.Primary)
	if err != nil {
		return told{}, err
	}
	t.addr, err = primaryAddr(v)
	return t, err
}

// epochOf returns the number of the configuration in the reply to SENTINEL
// MASTER, or zero.
func epochOf(v resp.Value) int64 {
	name := true
	wanted := false
	for e := range v.Elems() {
		if wanted && !name {
			n, err := strconv.ParseInt(string(e.Bytes()), 10, 64)
			if err != nil || n < 0 {
				return 0
			}
			return n
		}
		wanted = name && string(e.Bytes()) == "config-epoch"
		name = !name
	}
	return 0
}

// primaryAddr parses the reply to SENTINEL GET-MASTER-ADDR-BY-NAME.
func primaryAddr(v resp.Value) (string, error) {
	if v.Kind() == resp.Null {
		return "", &ConnError{Op: "route", Err: fmt.Errorf("%w: the sentinel knows none of this name", ErrNoPrimary)}
	}
	var parts []string
	for e := range v.Elems() {
		if len(parts) < 3 {
			parts = append(parts, string(e.Bytes()))
		}
	}
	if v.Kind() != resp.Array || len(parts) != 2 || !plausible(parts[0], parts[1]) {
		return "", &ConnError{Op: "route", Err: fmt.Errorf("%w: the answer of a sentinel is no address", ErrProtocol)}
	}
	return net.JoinHostPort(parts[0], parts[1]), nil
}

// plausible reports whether a host and a port can be those of a server.
func plausible(host, port string) bool {
	n, err := strconv.ParseUint(port, 10, 16)
	odd := func(r rune) bool { return r <= ' ' || r >= 0x7f || strings.ContainsRune("/@[]", r) }
	return err == nil && n > 0 && host != "" && len(host) <= 255 && !strings.ContainsFunc(host, odd)
}

// checkPrimary returns an error unless the server of a connection says that it is
// a primary. A server that permits neither ROLE nor INFO says so later, by
// refusing writes.
func (c *conn) checkPrimary(ctx context.Context, timeout time.Duration) error {
	role, err := c.role(ctx, timeout)
	var refused *Error
	switch {
	case errors.As(err, &refused):
		return nil
	case err != nil:
		return err
	case role != "master":
		return &ConnError{Op: "route", Err: fmt.Errorf("%w: the server that the sentinels name is a replica", ErrNoPrimary)}
	}
	return nil
}

// role returns the role of the server of a connection, which is master for a
// primary.
func (c *conn) role(ctx context.Context, timeout time.Duration) (string, error) {
	v, err := c.once(ctx, timeout, "ROLE")
	var refused *Error
	if !errors.As(err, &refused) {
		if err != nil {
			return "", err
		}
		for e := range v.Elems() {
			return string(e.Bytes()), nil
		}
		return "", nil
	}
	if v, err = c.once(ctx, timeout, "INFO", "replication"); err != nil {
		return "", err
	}
	for line := range strings.Lines(string(v.Bytes())) {
		if role, ok := strings.CutPrefix(strings.TrimSpace(line), "role:"); ok {
			return role, nil
		}
	}
	return "", nil
}
