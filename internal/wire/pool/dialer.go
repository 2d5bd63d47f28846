package pool

import (
	"context"
	"net"
	"net/netip"
	"sync"
	"time"
)

// A dial by name looks the name up and tries its addresses, each a head start
// after the one before, until one dial succeeds or all have failed. Invariant:
// when DialContext returns no dial runs, and no connection is open but the one
// that it returns.

const (
	// headStart is the time for which a dial to one address of a name goes on
	// before the next address is tried beside it, as in RFC 8305.
	headStart = 250 * time.Millisecond
	// mostAddresses bounds the addresses of a name to try.
	mostAddresses = 16
	keepAlive     = 30 * time.Second
)

// Dialer dials all addresses of a name, one after the other with a head start for
// each. So a silent address costs one head start. The zero Dialer uses package
// net.
type Dialer struct {
	// Resolve looks a name up. Network is ip, ip4 or ip6.
	Resolve func(ctx context.Context, network, host string) ([]netip.Addr, error)
	// Dial dials one address. It must return soon when ctx ends.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)
}

// DialContext has the form of [net.Dialer.DialContext].
func (d Dialer) DialContext(ctx context.Context, network, addr string) (net.Conn, error) {
	if d.Resolve == nil {
		d.Resolve = net.DefaultResolver.LookupNetIP
	}
	if d.Dial == nil {
		d.Dial = (&net.Dialer{KeepAlive: keepAlive}).DialContext
	}
	host, port, err := net.SplitHostPort(addr)
	families := map[string]string{"tcp": "ip", "tcp4": "ip4", "tcp6": "ip6"}
	// There is one address only, or a form that package net knows better.
	if _, literal := netip.ParseAddr(host); err != nil || families[network] == "" || host == "" || literal == nil {
		return d.Dial(ctx, network, addr)
	}
	ips, err := d.Resolve(ctx, families[network], host)
	if err != nil {
		return nil, &net.OpError{Op: "dial", Net: network, Err: err}
	}
	var addrs []string
	for _, ip := range alternate(ips) {
		addrs = append(addrs, net.JoinHostPort(ip.Unmap().String(), port))
	}
	if len(addrs) == 0 {
		return nil, &net.OpError{Op: "dial", Net: network, Err: &net.AddrError{Err: "no address", Addr: host}}
	}
	return d.race(ctx, network, addrs[:min(len(addrs), mostAddresses)])
}

// alternate makes addresses of the two families alternate, beginning with the
// family of the first one.
func alternate(ips []netip.Addr) []netip.Addr {
	var same, other []netip.Addr
	for _, ip := range ips {
		if ip.Unmap().Is4() == ips[0].Unmap().Is4() {
			same = append(same, ip)
		} else {
			other = append(other, ip)
		}
	}
	// If one family does not work here, every second address is of the other.
	var all []netip.Addr
	for i := range same {
		all = append(all, same[i])
		if i < len(other) {
			all = append(all, other[i])
		}
	}
	return append(all, other[min(len(same), len(other)):]...)
}

// dialled is the outcome of a dial to one address.
type dialled struct {
	nc  net.Conn
	err error
}

// race returns the first connection that opens. The error is the first that a
// dial has returned.
func (d Dialer) race(ctx context.Context, network string, addrs []string) (won net.Conn, err error) {
	ctx, cancel := context.WithCancel(ctx)
	results := make(chan dialled, len(addrs))
	var dials sync.WaitGroup
	defer func() {
		cancel()
		dials.Wait()
		close(results)
		for r := range results { // came too late
			if r.nc != nil {
				r.nc.Close()
			}
		}
	}()
	next := time.NewTimer(headStart)
	defer next.Stop()
	// The next dial begins after the head start, or at once if one has failed: a refused address
	// costs nothing.
	due := true
	for begun, ended := 0, 0; ended < len(addrs); {
		if due && begun < len(addrs) {
			addr := addrs[begun]
			begun++
			dials.Go(func() {
				nc, err := d.Dial(ctx, network, addr)
				results <- dialled{nc, err}
			})
			next.Reset(headStart)
		}
		due = false
		select {
		case <-next.C:
			due = true
		case r := <-results:
			if r.err == nil {
				return r.nc, nil
			}
			if ended++; err == nil {
				err = r.err
			}
			due = true
		}
	}
	return nil, err
}
