package snapshot

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"time"

	"github.com/strata-cache/strata/internal/snapshot/carrier"
	"github.com/strata-cache/strata/internal/snapshot/format"
	"github.com/strata-cache/strata/internal/wire"
)

// Pull fills caches with the entries of another instance. The [Handler] of that instance
// serves them at a URL. Call it before the new instance listens; it can also run while the
// caches are in use, since it replaces no entry. It asks for a share of the entries by
// each of several connections.
//
// If Pull fails, it logs a warning and returns an error. The program can start in spite
// of it: the entries so far are in use. It returns the errors of Load, an error of the
// network, one that wraps [ErrStalled] if no bytes came for Options.Stall, and one with
// the status of an answer other than a snapshot.
func Pull(ctx context.Context, from string, o Options, caches ...Cache) (Report, error) {
	rd, err := newReading(ctx, o, format.Values, caches)
	if err != nil {
		return Report{}, err
	}
	defer rd.cancel()
	return rd.end("entries are taken over", "entries are taken over in part", rd.pull(from))
}

func (rd *reading) pull(from string) error {
	at, err := wire.ParseHTTP(from)
	if err == nil {
		_, err = wire.Query(at)
	}
	if err != nil {
		return fmt.Errorf("snapshot: %w", err)
	}
	client := rd.o.Client
	if client == nil {
		client = carrier.NewClient()
		defer client.CloseIdleConnections()
	}
	// All streams ask for one snapshot by this number. An answer with another one was made for
	// another request, for instance one that a proxy has kept.
	var id [16]byte
	_, _ = rand.Read(id[:]) // does not fail
	n := cmp.Or(rd.o.Streams, defaultStreams)
	errs := make([]error, n)
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() { errs[i] = rd.pullShare(client, share(at, id, i, n), id) })
	}
	all.Wait()
	// The streams do not end each other: what one of them brings is of use without the rest.
	return errors.Join(errs...)
}

var errOtherSnapshot = errors.New("the answer is another snapshot than the one that was asked for")

// share is the URL of one of n streams.
func share(at *url.URL, id [16]byte, i, n int) *url.URL {
	u := *at
	q := u.Query()
	q.Set("stream", strconv.Itoa(i))
	q.Set("of", strconv.Itoa(n))
	q.Set("id", hex.EncodeToString(id[:]))
	u.RawQuery = q.Encode()
	return &u
}

// pullShare takes in one stream. Its clock is the clock of this machine: the other
// instance begins the snapshot after the request.
func (rd *reading) pullShare(client *http.Client, at *url.URL, id [16]byte) error {
	in, err := rd.begin()
	if err != nil {
		return err
	}
	defer in.close()
	// Taken before the request, so that the entries seem older than they are, not younger.
	begun := time.Now()
	from, err := carrier.Pull(rd.ctx, carrier.Request{Client: client, URL: at, Header: rd.o.Header, Stall: cmp.Or(rd.o.Stall, defaultStall)})
	if err != nil {
		return fmt.Errorf("snapshot: %w", err)
	}
	defer from.Close()
	rd.meter.expect(from.Entries, 0)
	return in.stream(&pipe{ctx: rd.ctx, pace: rd.pace, meter: rd.meter, r: from}, func(h format.Header) (func() time.Duration, error) {
		if h.ID != id {
			return nil, errOtherSnapshot
		}
		return func() time.Duration { return time.Since(begun) }, nil
	})
}
