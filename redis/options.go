package redis

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"time"

	"github.com/strata-cache/strata/internal/redis/resp"
	"github.com/strata-cache/strata/internal/wire"
	"github.com/strata-cache/strata/internal/wire/pool"
	"github.com/strata-cache/strata/remote"
)

// Options say how a [Client] reaches its server. The zero Options reach
// localhost:6379.
//
// Options print and log without credentials, and so do the Client and all other values
// made of them. But package fmt does not call the print methods of values in unexported
// fields: do not keep Options in an unexported field of a printed type.
type Options struct {
	// Network is tcp (the default), tcp4, tcp6 or unix.
	Network string
	// Addr is host:port, or the path of a unix socket. Default
	// localhost:6379.
	Addr string
	// Cluster says that Addr belongs to a Redis Cluster: calls find the node
	// that serves their key, and follow it where it goes. Network must be tcp
	// and DB zero.
	Cluster bool
	// Sentinel, if its Primary is set, says that Addr and Addrs are sentinels,
	// and which primary they are asked for. Network must be tcp, and Addr is
	// localhost:26379 by default. All other fields are about the primary.
	Sentinel Sentinel
	// Addrs are further nodes of the cluster, or further sentinels, each
	// host:port. Nodes are asked for the others when Addr does not answer;
	// sentinels are all asked at once.
	Addrs []string
	// ReplicaReads makes replicas answer commands that only read. Replicas may be behind
	// their primary; a pipeline reads the slots that it writes at their primaries. It is
	// for a Cluster. A [Tier] never reads from replicas.
	ReplicaReads bool
	// Username and Password are sent on every new connection. A Password without
	// Username belongs to the default user. A Username without Password names a
	// user that needs no password; in a URL a colon follows it.
	Username, Password string
	// Credentials, if set, is asked for them for each connection, so that they
	// can change. Username and Password must be empty. ctx ends when the
	// connection is given up, at the latest after DialTimeout; Credentials must
	// return then. It is called by several goroutines.
	Credentials func(ctx context.Context) (username, password string, err error)
	// Protocol is the version of the protocol: 2, or 3, which servers from
	// Redis 6 on speak. Zero is 3 with servers that do, and 2 with others.
	Protocol int
	// DB is the database selected on every new connection.
	DB int
	// ClientName names the connections in the server's CLIENT LIST.
	ClientName string
	// TLS switches encryption on. Without ServerName, the host under which a
	// server is reached is expected in its certificate.
	TLS *tls.Config
	// DialContext opens connections; TLS is put on top of them. It must return
	// soon after its context has ended: if it does not, it is left behind, and
	// the connection that it opens is closed. The default uses net.Dialer, but tries all
	// addresses of a name in parallel, each with a head start of 250 ms before the next. In
	// a cluster it is called with the addresses by which the nodes know each other. A
	// connection that wraps a socket should have a method NetConn() net.Conn that returns
	// the socket, as tls.Conn has. Without it, an unasked reply is not seen while it waits
	// in the socket.
	DialContext func(ctx context.Context, network, addr string) (net.Conn, error)

	// Trace, if set, is told of each command, and again of a command repeated elsewhere in
	// a cluster. It is not told of subscriptions and greetings. Package otel of this
	// repository has one for OpenTelemetry.
	Trace remote.Trace

	// DialTimeout bounds the opening of one connection, greeting included.
	// Default 5 s. A context that ends earlier ends its call, not the
	// opening: the connection is kept for the next one.
	DialTimeout time.Duration
	// Timeout bounds a call without a deadline, by up to an eighth more. Default 1 s.
	Timeout time.Duration

	// MaxConns is the most connections open at once, subscriptions apart; in a
	// cluster, to each node. Calls beyond it wait. Default 8 for each
	// processor, at least 16.
	MaxConns int
	// MaxIdle is the most connections kept while unused. Default MaxConns.
	MaxIdle int
	// IdleTimeout is the time for which a connection is kept unused, at least; the pool
	// checks it whenever it is used. Default 5 min.
	IdleTimeout time.Duration
	// MaxLifetime is the time for which a connection is used before another replaces it.
	// The default is a minute with one address, where only a new connection shows that
	// another server has taken the address over. In a Cluster and with a Sentinel there
	// is no limit by default.
	MaxLifetime time.Duration

	// MaxValue is the largest string sent as an argument or accepted from the
	// server, in bytes. Default 512 MiB. A Tier needs 16 KiB at least: INFO, by which it knows its server, is one string.
	MaxValue int
	// MaxReply is the largest reply accepted, in bytes. Default 1 GiB. Besides,
	// a reply has at most 1,048,576 elements, nested 32 deep, and lines of
	// 64 KiB; larger collections are read in parts, with SCAN and its like. A Tier
	// stores only values that fit in with 1 KiB to spare.
	MaxReply int
}

// Sentinel says for which primary sentinels are asked, and how they are reached.
// The zero Sentinel names no primary: then Addr is a server, not a sentinel. It
// prints and logs without credentials.
type Sentinel struct {
	// Primary is the name under which the sentinels watch the primary, such as
	// mymaster.
	Primary string
	// Username and Password log in at the sentinels. The servers have their own in
	// [Options].
	Username, Password string
	// TLS switches encryption to the sentinels on, as Options.TLS does to the
	// servers.
	TLS *tls.Config
}

// server returns the name of the server, or of all servers, for people.
func (o *Options) server() string {
	all := o.Addr
	for _, addr := range o.Addrs {
		if addr != o.Addr {
			all += ", " + addr
		}
	}
	switch {
	case o.Cluster:
		return "cluster of " + all
	case o.Sentinel.Primary != "":
		return o.Sentinel.Primary + " by sentinels " + all
	}
	return all
}

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
	if o.Network == "" {
		o.Network = "tcp"
	}
	if o.Addr == "" && o.Network != "unix" {
		o.Addr = "localhost:6379"
		if o.Sentinel.Primary != "" {
			o.Addr = "localhost:26379"
		}
		if len(o.Addrs) > 0 {
			o.Addr = o.Addrs[0]
		}
	}
	if o.DialContext == nil {
		o.DialContext = pool.Dialer{}.DialContext
	}
	o.setLimits(o.limits().WithDefaults())
	if !o.Cluster && o.Sentinel.Primary == "" {
		o.MaxLifetime = cmp.Or(o.MaxLifetime, time.Minute)
	}
	return o
}

// at returns the options for the server at addr.
func (o Options) at(addr string) Options {
	o.Addr = addr
	if o.Network != "unix" {
		o.TLS = pool.ServerName(o.TLS, addr)
	}
	return o
}

// validate reports every mistake in o, after the defaults were filled in.
func (o Options) validate() error {
	var errs []error
	bad := func(wrong bool, field, text string) {
		if wrong {
			errs = append(errs, fmt.Errorf("redis: Options.%s: %s", field, text))
		}
	}
	switch o.Network {
	case "tcp", "tcp4", "tcp6":
		bad(!isHostPort(o.Addr), "Addr", "not host:port")
	case "unix":
		bad(o.Addr == "", "Addr", "path of the unix socket missing")
	default:
		bad(true, "Network", "not tcp, tcp4, tcp6 or unix")
	}
	for _, addr := range o.Addrs {
		bad(!isHostPort(addr), "Addrs", "not host:port")
	}
	sentinel := o.Sentinel.Primary != ""
	bad(len(o.Addrs) > 0 && !o.Cluster && !sentinel, "Addrs", "given without Cluster or Sentinel")
	bad(o.ReplicaReads && !o.Cluster, "ReplicaReads", "given without Cluster")
	bad(o.Cluster && o.Network == "unix", "Cluster", "cannot be reached over a unix socket")
	o.Sentinel.check(bad)
	bad(sentinel && o.Cluster, "Sentinel", "given with Cluster")
	bad(sentinel && o.Network == "unix", "Sentinel", "cannot be reached over a unix socket")
	bad(o.Cluster && o.DB != 0, "DB", "a cluster has no other than 0")
	bad(o.Credentials != nil && o.Username+o.Password != "", "Credentials", "given with Username or Password")
	bad(o.Protocol != 0 && o.Protocol != 2 && o.Protocol != 3, "Protocol", "not 2 or 3")
	bad(o.DB < 0, "DB", "negative")
	bad(strings.ContainsFunc(o.ClientName, func(r rune) bool { return r <= ' ' || r > '~' }),
		"ClientName", "holds a space or a character that is not printable ASCII")
	o.limits().Check(bad)
	bad(o.MaxValue < 0, "MaxValue", "negative")
	bad(o.MaxReply < 0, "MaxReply", "negative")
	return errors.Join(errs...)
}

// LogValue implements slog.LogValuer. It leaves credentials out.
func (o Options) LogValue() slog.Value {
	attrs := []slog.Attr{
		slog.String("network", o.Network),
		slog.String("addr", wire.CleanAddr(o.Addr)),
		slog.Int("db", o.DB),
		slog.Bool("cluster", o.Cluster),
		slog.Bool("auth", o.Username+o.Password != "" || o.Credentials != nil),
		slog.Bool("tls", o.TLS != nil),
	}
	if o.Sentinel != (Sentinel{}) {
		attrs = append(attrs, slog.Any("sentinel", o.Sentinel))
	}
	return slog.GroupValue(attrs...)
}

// String describes the options without credentials.
func (o Options) String() string { return "redis.Options" + o.LogValue().String() }

// GoString is String.
func (o Options) GoString() string { return o.String() }

// isHostPort reports whether addr names a host and a port. With an @ it is a part of a URL, with a password.
func isHostPort(addr string) bool {
	_, port, err := net.SplitHostPort(addr)
	return err == nil && port != "" && !strings.Contains(addr, "@")
}

// check reports the mistakes in s.
func (s Sentinel) check(bad func(wrong bool, field, text string)) {
	bad(strings.ContainsFunc(s.Primary, func(r rune) bool { return r <= ' ' || r == 0x7f }),
		"Sentinel.Primary", "holds a space or a control character")
	bad(s.Primary == "" && s != Sentinel{}, "Sentinel.Primary", "missing")
}

// LogValue implements slog.LogValuer. It leaves credentials out.
func (s Sentinel) LogValue() slog.Value {
	return slog.GroupValue(
		slog.String("primary", s.Primary), slog.Bool("auth", s.Username+s.Password != ""), slog.Bool("tls", s.TLS != nil),
	)
}

// String describes the sentinels without credentials.
func (s Sentinel) String() string { return "redis.Sentinel" + s.LogValue().String() }

// GoString is String.
func (s Sentinel) GoString() string { return s.String() }

// ParseURL reads options from a URL:
//
//	redis://user:password@host:port/db
//	rediss://user:password@host:port/db     with TLS
//	unix://user:password@/path/to.sock?db=n
//	redis://host1:port1,host2:port2/?cluster=true
//	redis://host1:port1,host2:port2/db?sentinel=name
//
// Every part but the scheme, and the path for unix, may be left out. Special
// characters in user and password are written as %XX. Errors never repeat the
// URL; they name the parameter, if it is unknown or has a bad value.
//
// The parameters are db; cluster=true, where the hosts are some of the nodes of a cluster;
// sentinel=name, where the hosts are sentinels, and name the primary that they watch under this
// name, with sentinel_username and sentinel_password for the sentinels, and with TLS to all or
// none; protocol (2 or 3); client_name; timeout and dial_timeout; pool_size for MaxConns,
// max_idle_conns for MaxIdle, conn_max_idle_time for IdleTimeout and conn_max_lifetime for
// MaxLifetime. Times are written as 1500ms or 2s, or in seconds.
func ParseURL(s string) (Options, error) {
	e, err := resp.ParseURL(s)
	if err != nil {
		return Options{}, fmt.Errorf("redis: url: %w", err)
	}
	o := Options{
		Network: "tcp", Addr: net.JoinHostPort(e.Host, e.Port), Cluster: e.Cluster, Addrs: e.Others,
		Username: e.Username, Password: e.Password, DB: e.DB, Protocol: e.Protocol, ClientName: e.Name,
	}
	o.setLimits(e.Limits)
	o.Sentinel = Sentinel{Primary: e.Sentinel, Username: e.SentinelUsername, Password: e.SentinelPassword}
	if e.Path != "" {
		o.Network, o.Addr = "unix", e.Path
	}
	if e.TLS {
		o.TLS = &tls.Config{MinVersion: tls.VersionTLS12} // each node has a name of its own
		switch {
		case e.Sentinel != "":
			o.Sentinel.TLS = o.TLS.Clone()
		case !e.Cluster:
			o.TLS.ServerName = e.Host
		}
	}
	return o, nil
}
