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
	"runtime"
	"strings"
	"time"

	"github.com/strata-cache/strata/internal/endpoint"
	"github.com/strata-cache/strata/internal/mcmeta"
	"github.com/strata-cache/strata/internal/netpool"
)

// Protocol is the set of commands that a client uses.
type Protocol uint8

// The protocols.
const (
	// Auto is Meta with servers that have it, and Classic with others.
	Auto Protocol = iota
	// Meta has meta commands, as servers from 1.6.10 on.
	Meta
	// Classic has none.
	Classic
)

// Options say how a [Client] reaches its server. The zero Options reach
// localhost:11211.
//
// Options print and log without credentials, and so does all that is made of
// them. But package fmt does not ask the value of an unexported field how to print
// it: do not keep Options in such a field of a type that is printed.
type Options struct {
	// Servers has the server: host:port, or the path of a unix socket, which
	// begins with a slash. Default localhost:11211. So far there can be one.
	Servers []string
	// Username and Password are sent on every new connection, as a server wants
	// them that was started with -Y.
	Username, Password string
	// Protocol is Auto, Meta or Classic.
	Protocol Protocol
	// Keys says what becomes of keys that cannot be sent as they are. By default
	// they are refused.
	Keys Keys
	// TLS switches encryption on. Without ServerName, the host of the server is
	// expected in its certificate.
	TLS *tls.Config
	// DialContext opens connections; TLS is put on top of them. Its network is tcp
	// or unix. It must return soon after its context has ended: if it does not, it
	// is left behind, and the connection that it opens is closed. The default is
	// that of net.Dialer, but that of all addresses of a name each gets a head
	// start of 250 ms before the next is tried beside it. A connection that wraps
	// a socket should have a method NetConn() net.Conn that returns it, as that of
	// TLS has: without, a reply that no call has asked for is not seen while it
	// waits there.
	DialContext func(ctx context.Context, network, addr string) (net.Conn, error)

	// DialTimeout bounds the opening of one connection, greeting included. Default
	// 5 s. A context that ends earlier ends its call, not the opening: the
	// connection is kept for the next one.
	DialTimeout time.Duration
	// Timeout bounds a call without a deadline, by up to an eighth more. Default 1 s.
	Timeout time.Duration

	// MaxConns is the most connections open at once. Calls beyond it wait. Default
	// 8 for each processor, at least 16.
	MaxConns int
	// MaxIdle is the most connections kept while unused. Default MaxConns.
	MaxIdle int
	// IdleTimeout is how long a connection is kept unused, at least; it is looked
	// at when the pool is used. Default 5 min.
	IdleTimeout time.Duration
	// MaxLifetime is how long a connection is used before another replaces it.
	// Zero means no limit.
	MaxLifetime time.Duration

	// MaxValue is the largest value that is sent or accepted, in bytes. Default
	// 1 GiB, the most that a server can be told to take.
	MaxValue int
}

const defaultPort = "11211"

// forever is the longest of all times: those of a century can be added.
const forever = 100 * 365 * 24 * time.Hour

func (o Options) withDefaults() Options {
	if len(o.Servers) == 0 {
		o.Servers = []string{net.JoinHostPort("localhost", defaultPort)}
	}
	if o.DialContext == nil {
		o.DialContext = netpool.Dialer{}.DialContext
	}
	for d, def := range map[*time.Duration]time.Duration{&o.DialTimeout: 5 * time.Second, &o.Timeout: time.Second, &o.IdleTimeout: 5 * time.Minute} {
		if *d == 0 {
			*d = def
		}
		*d = min(*d, forever)
	}
	if o.MaxConns == 0 {
		o.MaxConns = max(16, 8*runtime.GOMAXPROCS(0))
	}
	if o.MaxIdle == 0 {
		o.MaxIdle = o.MaxConns
	}
	if o.MaxValue == 0 {
		o.MaxValue = 1 << 30
	}
	return o
}

// validate reports everything that is wrong with o, defaults filled in.
func (o Options) validate() error {
	var errs []error
	bad := func(wrong bool, field, text string) {
		if wrong {
			errs = append(errs, fmt.Errorf("memcached: Options.%s: %s", field, text))
		}
	}
	bad(len(o.Servers) > 1, "Servers", "more than one")
	for _, s := range o.Servers {
		_, port, err := net.SplitHostPort(s)
		bad(network(s) == "tcp" && (err != nil || port == ""), "Servers", "neither host:port nor a path")
	}
	bad((o.Username == "") != (o.Password == ""), "Username", "goes with Password")
	bad(strings.ContainsAny(o.Username, " \r\n") || strings.ContainsAny(o.Password, "\r\n"), "Username", "holds a space or a line end")
	bad(o.Protocol > Classic, "Protocol", "unknown")
	bad(o.Keys > KeysHashed, "Keys", "unknown")
	bad(o.Keys == KeysBase64 && o.Protocol == Classic, "Keys", "base64 needs meta commands")
	bad(o.DialTimeout < 0, "DialTimeout", "negative")
	bad(o.Timeout < 0, "Timeout", "negative")
	bad(o.MaxConns < 0, "MaxConns", "negative")
	bad(o.MaxIdle < 0, "MaxIdle", "negative")
	bad(o.MaxConns >= 0 && o.MaxIdle > o.MaxConns, "MaxIdle", "larger than MaxConns")
	bad(o.IdleTimeout < 0, "IdleTimeout", "negative")
	bad(o.MaxLifetime < 0, "MaxLifetime", "negative")
	bad(o.MaxValue < 0, "MaxValue", "negative")
	return errors.Join(errs...)
}

// network returns the network of a server.
func network(server string) string {
	if strings.HasPrefix(server, "/") {
		return "unix"
	}
	return "tcp"
}

// limits returns the limits of replies.
func (o *Options) limits() mcmeta.Limits { return mcmeta.Limits{Value: o.MaxValue} }

// LogValue implements slog.LogValuer. It leaves credentials out.
func (o Options) LogValue() slog.Value {
	return slog.GroupValue(
		slog.String("servers", strings.Join(o.Servers, ",")),
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
//	memcacheds://user:password@host:port     with TLS
//	unix:///path/to.sock
//
// Every part but the scheme, and the path for unix, may be left out. Special
// characters in user and password are written as %XX. Errors never repeat the URL;
// they name the parameter that is not known or has a bad value.
//
// The parameters are timeout and dial_timeout; pool_size for MaxConns,
// max_idle_conns for MaxIdle, conn_max_idle_time for IdleTimeout and
// conn_max_lifetime for MaxLifetime. Times are written as 1500ms or 2s, or in
// seconds.
func ParseURL(s string) (Options, error) {
	o, err := parseURL(s)
	if err != nil {
		return Options{}, fmt.Errorf("memcached: url: %w", err)
	}
	return o, nil
}

func parseURL(s string) (o Options, err error) {
	u, err := url.Parse(s)
	if err != nil || u.Opaque != "" {
		// The parser's own error contains the URL, and with it the password.
		return o, errors.New("cannot be parsed (special characters in user and password are written as %XX)")
	}
	if o.Username, o.Password, err = endpoint.Credentials(u); err != nil {
		return o, err
	}
	switch u.Scheme {
	case "memcached", "memcacheds":
		host, port, err := endpoint.HostPort(u, defaultPort)
		switch {
		case err != nil:
			return o, err
		case u.Path != "" && u.Path != "/":
			return o, errors.New("path behind a host")
		}
		o.Servers = []string{net.JoinHostPort(host, port)}
		if u.Scheme == "memcacheds" {
			o.TLS = &tls.Config{MinVersion: tls.VersionTLS12, ServerName: host}
		}
	case "unix":
		if u.Host != "" || u.Path == "" {
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
	var p endpoint.Pool
	if err := endpoint.Check(query, p.Set); err != nil {
		return o, err
	}
	o.Timeout, o.DialTimeout, o.IdleTimeout, o.MaxLifetime = p.Timeout, p.DialTimeout, p.IdleTimeout, p.Lifetime
	o.MaxConns, o.MaxIdle = p.MaxConns, p.MaxIdle
	return o, nil
}
