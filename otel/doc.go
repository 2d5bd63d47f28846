// Package strataotel reports the work of caches to OpenTelemetry.
//
//	strata.Options[string, User]{Name: "users", TTL: time.Minute, Tracer: strataotel.NewTracer(nil)}
//
// Nil stands for the global provider.
//
// # Spans
//
// Reads that L1 answers have no span. "get users" is any other read of the cache users.
// "refresh users" is a trace of its own, linked to the read that caused it. "load users" is a run
// of the Loader, within the read or refresh that leads it. A read that shared the load of another
// caller is linked to this load. "set users" and "invalidate users" are writes and drops. All are
// of kind internal.
//
// A span has the status error only if the caller gets an error, and never because the caller
// itself has left. No key, no tag and no text of an error is in a span, since texts may hold
// keys or credentials: error.type has the kind of the error. A cache with Options.ShowKeys
// gives its keys; [WithErrorText] adds texts.
//
// # Metrics
//
//	stop, err := strataotel.RegisterMetrics(nil, users, products)
//
// Counters and gauges of caches have the names of package prometheus, with dots, and without the
// unit and _total: strata.tier.requests. The attribute strata.cache.service is its service, if there
// is one, and strata.cache.name is the name of the cache,
// others are strata. and the label: strata.tier. No attribute is a key or a tag. Histograms come
// from package producer, which needs the SDK.
//
// # Clients
//
// The clients redis and memcached have an Options.Trace. [NewTrace] makes each command a span of
// kind client and a record of db.client.operation.duration; [RegisterPool] observes connections.
// The span of a command that a cache sends names the cache. Commands that caches and clients send
// in the background have no span. [ClientProvider] does the same for go-redis.
//
//	trace, err := strataotel.NewTrace(nil, nil)
//	client, err := redis.New(redis.Options{Addr: addr, Trace: trace})
//	stop, err := strataotel.RegisterPool(nil, "redis", client.Stats)
package strataotel
