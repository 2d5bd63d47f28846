package admin

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/strata-cache/strata"
	"github.com/strata-cache/strata/admin/api"
	"github.com/strata-cache/strata/internal/observe/page"
)

// maxName is the length of a name of a cache in a query.
const maxName = 200

func (p *Page) serveCaches(w http.ResponseWriter, _ *http.Request) {
	page.Write(w, p.overview())
}

func (p *Page) serveCache(w http.ResponseWriter, r *http.Request) {
	q := page.QueryOf(r)
	_, i, err := p.named(q)
	if err != nil {
		page.Fail(w, statusOf(err), err)
		return
	}
	most, err := q.Number("samples", 0, api.MaxSamples, api.MaxSamples)
	if err != nil {
		page.Fail(w, http.StatusBadRequest, err)
		return
	}
	after, err := q.Number("after", 0, 1<<53, 0)
	if err != nil {
		page.Fail(w, http.StatusBadRequest, err)
		return
	}
	page.Write(w, p.detail(i, int(most), 0, uint64(after)))
}

// serveStream streams the overview, or one cache if the query has a name. It repeats no samples, and
// of the events of the cache only the last one, as long as its count may grow.
func (p *Page) serveStream(w http.ResponseWriter, r *http.Request) {
	q := page.QueryOf(r)
	next := func(context.Context) any { return p.overview() }
	if len(r.URL.Query()["name"]) > 0 {
		_, i, err := p.named(q)
		if err != nil {
			page.Fail(w, statusOf(err), err)
			return
		}
		// The stream remembers what it has sent, so that each event has only the news.
		var sample int64
		var event uint64
		next = func(context.Context) any {
			d := p.detail(i, api.MaxSamples, sample, event)
			if n := len(d.Samples); n > 0 {
				sample = d.Samples[n-1].At
			}
			if n := len(d.Events); n > 0 {
				event = d.Events[n-1].Number
				if d.Time-d.Events[n-1].At <= api.Interval.Milliseconds() {
					event--
				}
			}
			return d
		}
	}
	p.streams.Serve(w, r, api.Interval, next)
}

// unknown is the error of a name that no cache has.
type unknown struct{ error }

func statusOf(err error) int {
	if errors.As(err, new(unknown)) {
		return http.StatusNotFound
	}
	return http.StatusBadRequest
}

// named returns the cache that a query names.
func (p *Page) named(q page.Query) (*shown, int, error) {
	name, err := q.Text("name", maxName)
	if err != nil {
		return nil, 0, err
	}
	c, i, err := p.find(name)
	if err != nil {
		return nil, 0, unknown{err}
	}
	return c, i, nil
}

func (p *Page) overview() api.Overview {
	now := time.Now()
	o := api.Overview{Time: now.UnixMilli(), ReadOnly: p.o.ReadOnly, Caches: []api.Summary{}}
	for i, c := range p.caches {
		s := api.Summary{Name: c.name, Info: c.info(), Numbers: p.numbers(i)}
		s.Latest, s.Spark = p.history.summary(i, now)
		o.Caches = append(o.Caches, s)
	}
	return o
}

// detail returns everything about one cache: samples after a time, events after a number.
func (p *Page) detail(i, most int, sample int64, event uint64) api.Detail {
	c := p.caches[i]
	d := api.Detail{
		Time: time.Now().UnixMilli(), ReadOnly: p.o.ReadOnly, Name: c.name, Info: c.info(),
		Numbers: p.numbers(i), Samples: p.history.of(i, most, sample),
		Events: []api.Event{}, Settings: []api.Setting{}, Hot: c.hot(),
	}
	// Package api has the names in the answers: the page is an interface that other programs
	// use.
	for _, e := range c.panel.Events(event) {
		d.Events = append(d.Events, api.Event{Number: e.Number, At: e.At.UnixMilli(), Level: e.Level, Text: e.Text})
	}
	for _, s := range c.panel.Settings() {
		d.Settings = append(d.Settings, api.Setting(s))
	}
	return d
}

// millis is the time in milliseconds since 1970; 0 for the zero time.
func millis(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

func (c *shown) info() api.Info { return api.Info(c.panel.Info()) }

func (c *shown) hot() api.Hot {
	h := c.panel.Hot()
	a := api.Hot{
		Since: millis(h.Since), Sampled: h.Sampled, Every: h.Every, Reads: h.Reads, LoadTime: h.LoadTime,
		ByReads: []api.HotKey{}, ByLoadTime: []api.HotKey{},
	}
	for _, k := range h.ByReads {
		a.ByReads = append(a.ByReads, api.HotKey(k))
	}
	for _, k := range h.ByLoadTime {
		a.ByLoadTime = append(a.ByLoadTime, api.HotKey(k))
	}
	return a
}

// numbers returns the numbers of a cache, by its place on the page.
func (p *Page) numbers(cache int) api.Numbers {
	s := p.caches[cache].cache.Stats()
	return numbersOf(&s, p.history.recent(cache, &s))
}

func numbersOf(s *strata.Stats, recent durations) api.Numbers {
	l := &s.Loads
	return api.Numbers{
		Reads: api.Reads{
			Total: s.Reads, L1: s.L1.Hits, Joined: s.Joins, Remembered: s.Remembered, Negative: s.Negative, Throttled: s.Throttled,
			Stale:      s.StaleRevalidating + s.StaleOnError + s.StaleAllowed,
			StaleError: s.StaleOnError, Overloaded: s.Overloaded, TurnedAway: s.TurnedAway, Degraded: s.Degraded,
		},
		Loads: api.Loads{
			OK: l.OK, NotFound: l.NotFound, NotModified: l.NotModified, Compared: api.Compared{Changed: l.Changed, Unchanged: l.Unchanged}, Errors: l.Errors, Panics: l.Panics,
			Running: l.Running, Waiters: l.Waiters, MostWaiters: l.MostWaiters,
			Refreshes: s.Refreshes, RefreshesDropped: s.RefreshesDropped,
			P50: recent.loads.Quantile(0.5), P99: recent.loads.Quantile(0.99), Saved: s.Saved,
			Failing: s.OriginFailing, Slow: s.OriginSlow,
		},
		Memory: api.Memory{
			Entries: s.Entries, MaxEntries: s.MaxEntries, Weight: s.Weight, MaxWeight: s.MaxWeight,
			Evicted: s.Evicted, Expired: s.Expired, Rejected: s.Rejected, EvictionAgeP50: s.EvictionAge.Quantile(0.5),
			Refused: s.Refused, Mutations: s.Mutations, CallbackPanics: s.CallbackPanics,
			CallbacksLate: s.CallbacksLate, CallbacksDropped: s.CallbacksDropped,
			Off: s.Off, TuneRefused: s.TuneRefused,
		},
		Guard: guardOf(s),
		Remote: api.Remote{
			Hits: s.L2.Hits, Misses: s.L2.Misses, Errors: s.L2.Errors, TimedOut: s.L2.TimedOut, Foreign: s.L2.Foreign, Refused: s.RemoteRefused,
			EncodeErrors: s.EncodeErrors, Compression: api.Compression{Compressed: s.Compressed, Raw: s.StoredRaw},
			LeaseWaits: s.LeaseWaits, LeaseWins: s.LeaseWins, BreakerOpen: s.BreakerOpen,
			BreakerChanges: s.BreakerChanges, StoringStopped: s.StoringStopped, P99: recent.l2Reads.Quantile(0.99),
			ServersLeftAlone: s.ServersLeftAlone, ServersWithoutStores: s.ServersWithoutStores,
		},
		Bus: api.Bus{
			Connected: s.Connected, Silence: s.BusSilence, EchoP99: recent.echo.Quantile(0.99), Pending: s.Pending,
			Invalidations: s.Invalidations, Heard: s.Heard, Gaps: s.Gaps, Unreadable: s.Unreadable, Missed: s.Missed, Confirmed: s.Confirmed,
		},
	}
}

// guardOf returns the numbers of the guard of a cache; nil without one that has a limit.
func guardOf(s *strata.Stats) *api.Guard {
	g := &s.Guard
	if g.Limit == 0 {
		return nil
	}
	return &api.Guard{
		Limit: g.Limit, Source: g.Source, Ceiling: g.Ceiling, Heap: g.Heap, Evicted: g.Evicted, Active: g.Active, Exhausted: g.Exhausted,
	}
}
