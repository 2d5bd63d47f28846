package memcached

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/strata-cache/strata/internal/memcached/roster"
	"github.com/strata-cache/strata/internal/wire"
	"github.com/strata-cache/strata/internal/wire/pool"
	"github.com/strata-cache/strata/remote"
)

// Protocol is the set of commands that a client uses.
type Protocol uint8

// The protocols.
const (
	// Auto is Meta with servers that have it, and Classic with others.
	Auto Protocol = iota
	// Meta uses meta commands, which servers from 1.6.10 on have.
	Meta
	// Classic uses no meta commands.
	Classic
)

// Placement is a way to say which server of a fleet a key belongs to. All clients of a
// fleet need the same one, the same texts of the servers, since two names of a host are
// two servers, and with Modula the same order.
type Placement uint8

// The placements.
const (
	// Ketama places keys as libmemcached and the clients over it (pylibmc, the
	// extension memcached of PHP) do with KETAMA_WEIGHTED, which is compatible with
	// libketama. With plain KETAMA they place keys otherwise. A fleet that grows from
	// n servers moves one key in n+1.
	Ketama Placement = iota
	// KetamaSpy places keys as spymemcached does with its KetamaConnectionFactory, on
	// servers given by IPv4 addresses.
	KetamaSpy
	// KetamaSpyLibmemcached places keys as libmemcached does with the distribution
	// CONSISTENT_KETAMA_SPY. It is not the placement of spymemcached.
	KetamaSpyLibmemcached
	// Modula places keys as gomemcache does with its ServerList: by the remainder of a
	// checksum. A fleet that grows moves almost all keys.
	Modula
	// Jump places keys as the package dskit of Mimir, Loki and Tempo does: by jump
	// hash over the servers sorted by name, numbers in it by value. A fleet that grows
	// at the end of that order moves one key in n+1; elsewhere it moves many.
	Jump
)

// String returns the name of p, such as ketama-spy, by which URLs call it.
func (p Placement) String() string { return roster.Mode(p).String() }

// Dead is the treatment of calls for the keys of a server that does not answer.
type Dead uint8

// The treatments of such calls.
const (
	// DeadFails lets them fail with a [*ConnError].
	DeadFails Dead = iota
	// DeadMisses lets calls that read or touch miss, as if the server had no items;
	// others fail.
	DeadMisses
	// DeadMoves gives the keys of an ejected server to the others, until it answers
	// again. Then it still has its old items, although clients may have changed or
	// deleted them on the other servers meanwhile; and clients do not agree on when
	// it went and came. So DeadMoves is for values that may be old until their TTL
	// ends.
	DeadMoves
)

// Fleet says how several servers share the keys. The zero Fleet is a fine one.
//
// A server is ejected when its calls have failed for EjectAfter, and at least three in
// a row: its calls do not wait for it any longer. While calls ask for its keys, it is
// tried beside them, after 1 s first, then after longer pauses of up to 4.5 s.
// With its first answer it is back. A single server is never ejected.
type Fleet struct {
	// Placement says which server a key belongs to. Default Ketama.
	Placement Placement
	// Weights are the shares of the servers, in the order of Options.Servers, in
	// proportion to each other. Default 1, also for a zero. Modula and Jump
	// accept only 1.
	Weights []int
	// Dead is the treatment of calls for the keys of a server that does not answer.
	// Default DeadFails.
	Dead Dead
	// EjectAfter is how long calls to a server fail before it is ejected. Default
	// 1 s. With math.MaxInt64 none is.
	EjectAfter time.Duration
}

// Options say how a [Client] reaches its servers. The zero Options reach
// localhost:11211.
//
// Options print and log without credentials, and so does everything made of them.
// But package fmt does not ask the value of an unexported field how to print it:
// do not keep Options in such a field of a printed type.
type Options struct {
	// Servers are host:port, or the path of a unix socket, which begins with a
	// slash. Default localhost:11211. No server may occur twice.
	Servers []string
	// Fleet says how several servers share the keys.
	Fleet Fleet
	// Username and Password are sent on every new connection, as a server
	// started with -Y wants them.
	Username, Password string
	// Protocol is Auto, Meta or Classic.
	Protocol Protocol
	// Keys selects the treatment of keys that cannot be sent as they are. By
	// default they are refused.
	Keys Keys
	// TLS switches encryption on. Without ServerName, the host of the server is
	// expected in its certificate.
	TLS *tls.Config
	// DialContext opens connections; TLS is put on top of them. Its network is tcp
	// or unix. It must return soon after its context has ended: if it does not, it
	// is left behind, and the connection that it opens is closed. The default uses
	// net.Dialer, but tries all addresses of a name in parallel, each with a head
	// start of 250 ms before the next (RFC 8305). A connection that wraps a socket
	// should have a method NetConn() net.Conn that returns the socket, as tls.Conn
	// has. Without it, a reply that no call asked for is not seen while it waits
	// in the socket.
	DialContext func(ctx context.Context, network, addr string) (net.Conn, error)

	// Trace, if set, is told of each command, but not of greetings. Package otel of this
	// repository has one for OpenTelemetry.
	Trace remote.Trace

	// DialTimeout bounds the opening of one connection, greeting included. Default
	// 5 s. A context that ends earlier ends its call, not the opening: the
	// connection is kept for the next one.
	DialTimeout time.Duration
	// Timeout bounds a call without a deadline, by up to an eighth more. Default 1 s.
	Timeout time.Duration

	// MaxConns is the most connections open to a server at once. Calls beyond it
	// wait. Default 8 for each processor, at least 16.
	MaxConns int
	// MaxIdle is the most connections to a server kept while unused. Default MaxConns.
	MaxIdle int
	// IdleTimeout is how long a connection is kept unused, at least; it is looked
	// at when the pool is used. Default 5 min.
	IdleTimeout time.Duration
	// MaxLifetime is how long a connection is used before another replaces it.
	// Zero means no limit.
	MaxLifetime time.Duration

	// MaxValue is the size of the largest value that the client sends or
	// accepts, in bytes. Default 1 GiB, the highest limit that a server can be
	// given.
	MaxValue int
}

const defaultPort = "11211"

// limits returns the limits of the connections to a server, and setLimits sets them.
func (o *Options) limits() wire.Limits {
	return wire.Limits{
		DialTimeout: o.DialTimeout, Timeout: o.Timeout, MaxConns: o.MaxConns, MaxIdle: o.MaxIdle,
		IdleTimeout: o.IdleTimeout, MaxLifetime: o.MaxLifetime,
	}
}

func (o *Options) setLimits(l wire.Limits) {
	o.DialTimeout, o.Timeout, o.MaxConns, o.MaxIdle = l.DialTimeout, l.Timeout, l.MaxConns, l.MaxIdle
	o.IdleTimeout, o.MaxLifetime = l.IdleTimeout, l.MaxLifetime
}

func (o Options) withDefaults() Options {
	if len(o.Servers) == 0 {
		o.Servers = []string{net.JoinHostPort("localhost", defaultPort)}
	}
	o.Servers, o.Fleet.Weights = slices.Clone(o.Servers), slices.Clone(o.Fleet.Weights)
	if o.DialContext == nil {
		o.DialContext = pool.Dialer{}.DialContext
	}
	o.setLimits(o.limits().WithDefaults())
	o.Fleet.EjectAfter = wire.Time(o.Fleet.EjectAfter, time.Second)
	if o.MaxValue == 0 {
		o.MaxValue = 1 << 30
	}
	return o
}

// validate reports every wrong field of o. The defaults must be filled in.
func (o Options) validate() error {
	var errs []error
	bad := func(wrong bool, field, text string) {
		if wrong {
			errs = append(errs, fmt.Errorf("memcached: Options.%s: %s", field, text))
		}
	}
	for i, s := range o.Servers { // a wrong one may hold a password, as one with an @ does
		_, port, err := net.SplitHostPort(s)
		bad(network(s) == "tcp" && (err != nil || port == "" || strings.Contains(s, "@")) || strings.ContainsAny(s, "\x00\r\n"), "Servers", fmt.Sprintf("server %d of %d is neither host:port nor a path", i+1, len(o.Servers)))
	}
	weights := len(o.Fleet.Weights)
	bad(weights > 0 && weights != len(o.Servers), "Fleet.Weights", fmt.Sprintf("%d weights for %d servers", weights, len(o.Servers)))
	bad(o.Fleet.Placement > Jump, "Fleet.Placement", "unknown")
	bad(o.Fleet.Dead > DeadMoves, "Fleet.Dead", "unknown")
	bad(o.Fleet.EjectAfter < 0, "Fleet.EjectAfter", "negative")
	bad((o.Username == "") != (o.Password == ""), "Username", "goes with Password")
	bad(strings.ContainsAny(o.Username, " \r\n") || strings.ContainsAny(o.Password, "\r\n"), "Username", "holds a space or a line end")
	bad(o.Protocol > Classic, "Protocol", "unknown")
	bad(o.Keys > KeysHashed, "Keys", "unknown")
	bad(o.Keys == KeysBase64 && o.Protocol == Classic, "Keys", "base64 needs meta commands")
	o.limits().Check(bad)
	bad(o.MaxValue < 0, "MaxValue", "negative")
	return errors.Join(errs...)
}

// ring returns the placement of keys on the servers of valid Options.
func (o Options) ring() (*roster.Ring, error) {
	r, err := roster.NewRing(roster.Mode(o.Fleet.Placement), o.places())
	if err != nil {
		return nil, fmt.Errorf("memcached: Options.Servers: %s", strings.TrimPrefix(err.Error(), "ring: "))
	}
	return r, nil
}

// places are the servers with their weights.
func (o Options) places() []roster.Server {
	servers := make([]roster.Server, len(o.Servers))
	for i, s := range o.Servers {
		if servers[i].Address = s; len(o.Fleet.Weights) > 0 {
			servers[i].Weight = o.Fleet.Weights[i]
		}
	}
	return servers
}

// network returns the network of a server.
func network(server string) string {
	if strings.HasPrefix(server, "/") {
		return "unix"
	}
	return "tcp"
}

// LogValue implements slog.LogValuer. It leaves credentials out.
func (o Options) LogValue() slog.Value {
	var servers []string
	for _, s := range o.Servers {
		servers = append(servers, wire.CleanAddr(s))
	}
	return slog.GroupValue(
		slog.String("servers", strings.Join(servers, ",")),
		slog.String("placement", o.Fleet.Placement.String()),
		slog.Bool("auth", o.Password != ""),
		slog.Bool("tls", o.TLS != nil),
	)
}

// String describes the options without credentials.
func (o Options) String() string { return "memcached.Options" + o.LogValue().String() }

// GoString is String.
func (o Options) GoString() string { return o.String() }

// Format implements [fmt.Formatter] by String.
func (o Options) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, o.String()) }

// ParseURL reads options from a URL:
//
//	memcached://user:password@host:port
//	memcached://host:port,host:port          a fleet
//	memcacheds://user:password@host:port     with TLS
//	unix:///path/to.sock
//
// Every part but the scheme, and the path for unix, may be left out. Special
// characters in user and password are written as %XX. Errors never repeat the URL;
// they name the parameter with an unknown name or a bad value.
//
// The parameters are placement, by its name, such as modula; timeout and dial_timeout;
// pool_size for MaxConns, max_idle_conns for MaxIdle, conn_max_idle_time for IdleTimeout
// and conn_max_lifetime for MaxLifetime. Times are written as 1500ms or 2s, or in
// seconds.
func ParseURL(s string) (Options, error) {
	o, err := parseURL(s)
	if err != nil {
		return Options{}, fmt.Errorf("memcached: url: %w", err)
	}
	return o, nil
}

func parseURL(s string) (o Options, err error) {
	s, others := wire.CutHosts(s)
	u, err := url.Parse(s)
	if err != nil || u.Opaque != "" {
		// The parser's own error contains the URL, and with it the password.
		return o, errors.New("cannot be parsed (special characters in user and password are written as %XX)")
	}
	if o.Username, o.Password, err = wire.Credentials(u); err != nil {
		return o, err
	}
	switch u.Scheme {
	case "memcached", "memcacheds":
		host, port, err := wire.HostPort(u, defaultPort)
		switch {
		case err != nil:
			return o, err
		case u.Path != "" && u.Path != "/":
			return o, errors.New("path behind a host")
		}
		more, err := wire.ParseServers(others, defaultPort)
		if err != nil {
			return o, err
		}
		o.Servers = append([]string{net.JoinHostPort(host, port)}, more...)
		if u.Scheme == "memcacheds" {
			o.TLS = &tls.Config{MinVersion: tls.VersionTLS12} // without ServerName: each server has its own
		}
	case "unix":
		if u.Host != "" || u.Path == "" || len(others) > 0 {
			return o, errors.New("unix needs an absolute path, as in unix:///run/memcached.sock")
		}
		o.Servers = []string{u.Path}
	default:
		return o, errors.New("scheme is not memcached, memcacheds or unix")
	}
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil || u.Fragment != "" {
		return o, errors.New("bad query")
	}
	var l wire.Limits
	if err := wire.CheckQuery(query, func(name, value string) (known, ok bool) {
		if name == "placement" {
			mode, ok := roster.ModeOf(value)
			o.Fleet.Placement = Placement(mode)
			return true, ok
		}
		return wire.SetLimit(&l, name, value)
	}); err != nil {
		return o, err
	}
	o.setLimits(l)
	return o, nil
}
