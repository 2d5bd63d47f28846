package redis

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/strata-cache/strata/internal/redis/resp"
)

// A sentinel is asked over a connection of its own, which is kept for the next
// question. Its answer is an address and the number of a configuration: of two answers, the
// one with the higher number is newer. primary.go decides between the answers of
// several sentinels.

// ErrNoPrimary is in the chain of the error of a call when no sentinel knows a
// primary of that name, or when the server that they name denies to be a primary.
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

// sentinel is one sentinel, asked over a connection that stays open between
// questions.
type sentinel struct {
	o     *Options
	steps *resp.Steps
	addr  string
	cn    *conn         // nil without one
	due   chan struct{} // holds one question
}

// askSoon makes a question due.
func (s *sentinel) askSoon() {
	select {
	case s.due <- struct{}{}:
	default:
	}
}

// close closes the connection.
func (s *sentinel) close() {
	if s.cn != nil {
		s.cn.Close()
		s.cn = nil
	}
}

// ask asks for the primary. known is the last answer of all sentinels: an answer
// that repeats its address has its number. A kept connection may have died long
// ago; then the question is asked again over another one.
func (s *sentinel) ask(ctx context.Context, known told) (told, error) {
	kept := s.cn != nil
	t, err := s.askOnce(ctx, known)
	if err != nil && kept && s.cn == nil && ctx.Err() == nil {
		t, err = s.askOnce(ctx, known)
	}
	return t, err
}

// askOnce asks for the address. If the address is new, it asks for the number and then
// for the address again: if a failover comes in between, the address is newer than its
// number, which is harmless.
func (s *sentinel) askOnce(ctx context.Context, known told) (t told, err error) {
	if t.addr, err = s.address(ctx); err != nil || t.addr == known.addr {
		t.epoch = known.epoch
		return t, err
	}
	v, err := s.send(ctx, "MASTER")
	var refused *Error
	switch {
	case err == nil:
		t.epoch = epochOf(v)
	case !errors.As(err, &refused): // a refusal may be for want of a right
		return told{}, err
	}
	t.addr, err = s.address(ctx)
	return t, err
}

func (s *sentinel) address(ctx context.Context) (string, error) {
	v, err := s.send(ctx, "GET-MASTER-ADDR-BY-NAME")
	if err != nil {
		return "", err
	}
	return primaryAddr(v)
}

// send sends a command about the primary. An error of the connection ends the
// connection.
func (s *sentinel) send(ctx context.Context, command string) (v resp.Value, err error) {
	if s.cn == nil {
		at := s.o.sentinelAt(s.addr)
		if s.cn, err = connect(ctx, &at, s.steps); err != nil {
			s.cn = nil
			return v, err
		}
	}
	v, err = s.cn.once(ctx, s.o.DialTimeout, "SENTINEL", command, s.o.Sentinel.Primary)
	var refused *Error
	if err != nil && !errors.As(err, &refused) {
		s.close()
	}
	return v, err
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

// plausible reports whether a host and a port can belong to a server.
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
