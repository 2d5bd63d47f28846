// Package api is the JSON of the page of package admin: the answers to its requests,
// and the bodies of its actions. Durations are in nanoseconds, times in milliseconds since
// 1970. A program that reads the page decodes into these types; fields may be added.
//
//	GET  api/caches                              Overview
//	GET  api/cache?name=N[&samples=300][&after=0] Detail
//	GET  api/stream[?name=N]                     server-sent events: Overview, or with a name Detail
//	GET  api/explain?name=N&key=K                Explained
//	POST api/invalidate                          Key      → Outcome
//	POST api/tags                                Tags     → Outcome
//	POST api/all                                 All      → Outcome
//	POST api/tune                                Tune     → Outcome
//
// The address is relative to the address of the page, which ends with a slash. Bodies are
// JSON, or forms with the same names. A refused request has a status of 400 or above, and an
// object with the field "error".
package api

import "time"

// Bounds of requests and answers.
const (
	// MaxSamples is the number of samples that the page keeps of a cache: one each Interval.
	MaxSamples = 300
	Interval   = 2 * time.Second
	// Recent is the time up to now that the durations in Numbers cover.
	Recent = 5 * time.Minute
	// MaxKey is the length of a key or a tag in bytes, MaxTags the number of tags of a request.
	MaxKey  = 4096
	MaxTags = 100
	// SparkPoints is the number of points of Summary.Spark.
	SparkPoints = 60
)

// Overview is all caches of a page.
type Overview struct {
	// Time is when the numbers were read.
	Time int64 `json:"time"`
	// ReadOnly says that the page refuses actions.
	ReadOnly bool `json:"readOnly"`
	// Caches are in the order in which the program names them.
	Caches []Summary `json:"caches"`
}

// Summary is one cache in an Overview.
type Summary struct {
	// Name is the name of the cache on this page. It differs from the cache's own name if that is
	// empty, or if an earlier cache of the page has the same name.
	Name    string  `json:"name"`
	Info    Info    `json:"info"`
	Numbers Numbers `json:"numbers"`
	// Latest is the last sample; nil if there is none yet.
	Latest *Sample `json:"latest"`
	// Spark are the reads per second of ten minutes, in steps of ten seconds; the last step is
	// the present one. A step without samples is nil: there were no requests.
	Spark []*float64 `json:"spark"`
}

// Detail is everything about one cache. In a stream, each event has the samples and the
// events that the one before had not.
type Detail struct {
	// Time and ReadOnly are as in Overview, Name, Info and Numbers as in Summary.
	Time     int64   `json:"time"`
	ReadOnly bool    `json:"readOnly"`
	Name     string  `json:"name"`
	Info     Info    `json:"info"`
	Numbers  Numbers `json:"numbers"`
	// Samples and Events are in the order of their times.
	Samples  []Sample  `json:"samples"`
	Events   []Event   `json:"events"`
	Hot      Hot       `json:"hot"`
	Settings []Setting `json:"settings"`
}

// Info describes the parts of a cache.
type Info struct {
	// Name, Service and Instance are the names of the cache, its service and this
	// instance.
	Name      string `json:"name"`
	Service   string `json:"service"` // empty without one
	Instance  string `json:"instance"`
	Version   string `json:"version"`
	Schema    string `json:"schema"`
	L2        string `json:"l2"`       // a Go type; empty without a Tier
	Bus       string `json:"bus"`      // a Go type; empty without a Bus
	L2Server  string `json:"l2Server"` // the address of the server of L2, or of all, if it is known
	Partition string `json:"partition"`
	// ShowKeys says that keys are shown, TextKeys that they can be given as text.
	ShowKeys bool `json:"showKeys"`
	TextKeys bool `json:"textKeys"`
}

// Numbers are the numbers of a cache since it was made, or about the present.
type Numbers struct {
	Reads  Reads  `json:"reads"`
	Loads  Loads  `json:"loads"`
	Memory Memory `json:"memory"`
	Guard  *Guard `json:"guard"` // nil without a guard that has a limit
	Remote Remote `json:"remote"`
	Bus    Bus    `json:"bus"`
}

// Reads counts reads of a cache. Total is their number, L1 the number of hits in memory,
// Stale the number of served stale values; Degraded reads were answered while the bus was
// silent.
type Reads struct {
	Total      uint64 `json:"total"`
	L1         uint64 `json:"l1"`
	Joined     uint64 `json:"joined"`
	Remembered uint64 `json:"remembered"`
	Negative   uint64 `json:"negative"` // the part of Remembered by a negative entry
	Stale      uint64 `json:"stale"`
	StaleError uint64 `json:"staleError"` // the part of Stale because a load had failed
	Throttled  uint64 `json:"throttled"`
	Overloaded uint64 `json:"overloaded"`
	TurnedAway uint64 `json:"turnedAway"`
	Degraded   uint64 `json:"degraded"`
}

// Loads are about runs of the Loader. P50 and P99 are percentiles of the loads that ended within
// Recent before now, or a little more, and since the page began; 0 if there were none. They are
// upper bounds, up to twice the duration.
type Loads struct {
	OK               uint64        `json:"ok"`
	NotFound         uint64        `json:"notFound"`
	NotModified      uint64        `json:"notModified"`
	Compared         Compared      `json:"compared"` // with the values before
	Errors           uint64        `json:"errors"`
	Panics           uint64        `json:"panics"`
	Running          int64         `json:"running"` // now
	Waiters          uint64        `json:"waiters"`
	MostWaiters      uint64        `json:"mostWaiters"`
	Refreshes        uint64        `json:"refreshes"`
	RefreshesDropped uint64        `json:"refreshesDropped"`
	P50              time.Duration `json:"p50"`
	P99              time.Duration `json:"p99"`
	Saved            time.Duration `json:"saved"` // the time that callers did not wait for the origin
	// Failing and Slow say for how long loads have failed, and taken more than a quarter of their time.
	Failing time.Duration `json:"failing"`
	Slow    time.Duration `json:"slow"`
}

// Compared counts values of loads: the ones that differ from the value before, and the
// equal ones.
type Compared struct {
	Changed   uint64 `json:"changed"`
	Unchanged uint64 `json:"unchanged"`
}

// Memory is about L1. A limit of 0 is none. EvictionAgeP50 is the median of the ages of values
// that left to make room.
type Memory struct {
	Entries        int64         `json:"entries"`
	MaxEntries     int64         `json:"maxEntries"`
	Weight         int64         `json:"weight"`
	MaxWeight      int64         `json:"maxWeight"`
	Evicted        uint64        `json:"evicted"`
	Expired        uint64        `json:"expired"`
	Rejected       uint64        `json:"rejected"`
	EvictionAgeP50 time.Duration `json:"evictionAgeP50"`
	Refused        uint64        `json:"refused"`
	Mutations      uint64        `json:"mutations"`
	CallbackPanics uint64        `json:"callbackPanics"`
	// Calls of hooks, the Tracer and the Logger for which the cache did not wait until they returned, and
	// events, spans and lines left out because too many calls had not returned.
	CallbacksLate    uint64 `json:"callbacksLate"`
	CallbacksDropped uint64 `json:"callbacksDropped"`
	Off              bool   `json:"off"`         // reads pass the cache by, since Tune said so
	TuneRefused      uint64 `json:"tuneRefused"` // calls of Tune with a bad value
}

// Guard is about the guard of the memory of the process. Caches that share it have the same numbers.
type Guard struct {
	Limit   int64  `json:"limit"`   // of the memory of the process, in bytes
	Source  string `json:"source"`  // of the limit: "Limit", "GOMEMLIMIT" or "cgroup"
	Ceiling int64  `json:"ceiling"` // the live heap from which the guard evicts, in bytes
	Heap    int64  `json:"heap"`    // the live heap at the last look, in bytes
	Evicted uint64 `json:"evicted"` // entries, by the guard
	// Active says that the heap was too large in the last minute, Exhausted that it is, and that nothing is left
	// that the guard may evict.
	Active    bool `json:"active"`
	Exhausted bool `json:"exhausted"`
}

// Remote is about L2. P99 is the 99th percentile of the time of recent reads, as in Loads. Of
// several servers, ServersLeftAlone names the ones that failed too often, and ServersWithoutStores
// the ones that refused too often.
type Remote struct {
	Hits           uint64        `json:"hits"`
	Misses         uint64        `json:"misses"`
	Errors         uint64        `json:"errors"`
	TimedOut       uint64        `json:"timedOut"` // the part of Errors without an answer in time
	Foreign        uint64        `json:"foreign"`
	Refused        uint64        `json:"refused"`
	EncodeErrors   uint64        `json:"encodeErrors"`
	Compression    Compression   `json:"compression"`
	LeaseWaits     uint64        `json:"leaseWaits"`
	LeaseWins      uint64        `json:"leaseWins"` // the part of LeaseWaits that got the answer of the other instance
	BreakerOpen    bool          `json:"breakerOpen"`
	BreakerChanges uint64        `json:"breakerChanges"`
	StoringStopped bool          `json:"storingStopped"`
	P99            time.Duration `json:"p99"`

	ServersLeftAlone     []string `json:"serversLeftAlone"`
	ServersWithoutStores []string `json:"serversWithoutStores"`
}

// Compression counts values that a codec has made shorter, and values that it has left as they
// are.
type Compression struct {
	Compressed uint64 `json:"compressed"`
	Raw        uint64 `json:"raw"`
}

// Bus is about the bus and invalidations. Silence is the time since it last delivered
// something, EchoP99 the time that recent heartbeats took until they came back, Pending the number
// of drops that L2 or the bus has not confirmed.
type Bus struct {
	Connected     bool          `json:"connected"`
	Silence       time.Duration `json:"silence"`
	EchoP99       time.Duration `json:"echoP99"`
	Pending       int           `json:"pending"`
	Invalidations uint64        `json:"invalidations"`
	Heard         uint64        `json:"heard"`
	Gaps          uint64        `json:"gaps"`
	Unreadable    uint64        `json:"unreadable"` // messages without an effect
	Missed        uint64        `json:"missed"`
	Confirmed     uint64        `json:"confirmed"`
}

// Sample has the events of one Interval in numbers, and the state at its end.
type Sample struct {
	// At is the end of the interval.
	At int64 `json:"at"`
	// Answers are answers per second by source.
	Answers Answers `json:"answers"`
	// LoadP99 and EchoP99 are about loads and heartbeats that ended in the interval; 0 if there
	// were none. Saved is the time saved in an Interval; a late sample has the mean of those that it covers.
	LoadP99 time.Duration `json:"loadP99"`
	EchoP99 time.Duration `json:"echoP99"`
	Saved   time.Duration `json:"saved"`
	// Errors are failed loads per second, L2Errors failed operations on L2.
	Errors   float64 `json:"errors"`
	L2Errors float64 `json:"l2Errors"`
	// The state.
	Running     int64         `json:"running"`
	Entries     int64         `json:"entries"`
	Weight      int64         `json:"weight"`
	Heap        int64         `json:"heap"` // the live heap as the guard has seen it last, in bytes; 0 without one
	Pending     int           `json:"pending"`
	Silence     time.Duration `json:"silence"`
	BreakerOpen bool          `json:"breakerOpen"`
	Connected   bool          `json:"connected"`
}

// Answers are the answers to reads by their source. Their sum is the number of all reads,
// but for loads and look-ups in L2 that began without a read.
type Answers struct {
	L1         float64 `json:"l1"`
	L2         float64 `json:"l2"`
	Loaded     float64 `json:"loaded"`     // by a load of their own
	Joined     float64 `json:"joined"`     // by the load of another caller
	Stale      float64 `json:"stale"`      // a stale value
	Remembered float64 `json:"remembered"` // "not found", or the error of an earlier load
	None       float64 `json:"none"`       // no value: nothing to load, turned away, abandoned
}

// Total is the number of all answers.
func (a Answers) Total() float64 {
	return a.L1 + a.L2 + a.Loaded + a.Joined + a.Stale + a.Remembered + a.None
}

// Event is a change of state, or an invalidation.
type Event struct {
	Number uint64 `json:"number"`
	At     int64  `json:"at"`
	Level  string `json:"level"` // "info", "warn" or "error"
	Text   string `json:"text"`
}

// Hot are the hottest keys since Since, five to ten minutes ago. Sampled reads were looked at, at
// present one in Every.
type Hot struct {
	Since      int64         `json:"since"`
	Sampled    uint64        `json:"sampled"`
	Every      int           `json:"every"`
	Reads      uint64        `json:"reads"`    // all reads, estimated
	LoadTime   time.Duration `json:"loadTime"` // of all loads
	ByReads    []HotKey      `json:"byReads"`
	ByLoadTime []HotKey      `json:"byLoadTime"`
}

// HotKey is one of the hottest keys: its text, or a hash that begins with "#". The true reads
// or nanoseconds of loads are lower by Over at most.
type HotKey struct {
	Key      string        `json:"key"`
	Reads    uint64        `json:"reads"`
	Loads    uint64        `json:"loads"`
	LoadTime time.Duration `json:"loadTime"`
	Over     uint64        `json:"over"`
}

// Setting is one option and its effective value. Tuned says that it was changed at run time.
type Setting struct {
	Name    string `json:"name"`
	Value   string `json:"value"`
	Default bool   `json:"default"`
	Tuned   bool   `json:"tuned"`
}

// Explained is the state of a key on every known instance. Error is the reason why there
// is no state.
type Explained struct {
	Key       string        `json:"key"`
	Error     string        `json:"error"`
	Instances []Explanation `json:"instances"`
}

// Explanation is the state of a key on one instance. If the instance has not Answered within the
// time Took, Verdict says when it was last heard of, and the fields behind Verdict are empty. L1
// and L2 are "absent", "fresh", "stale", "negative", "suspect", "unknown", or "none" without the
// tier; Fresh is not positive for a stale value, and the greatest int64 for one that does not
// expire.
type Explanation struct {
	Instance string        `json:"instance"`
	Here     bool          `json:"here"`
	Answered bool          `json:"answered"`
	Took     time.Duration `json:"took"`
	Verdict  string        `json:"verdict"`
	L1       string        `json:"l1"`
	L2       string        `json:"l2"`
	L1Fresh  time.Duration `json:"l1Fresh"`
	L2Fresh  time.Duration `json:"l2Fresh"`
	L2Size   int           `json:"l2Size"`
	Tags     []string      `json:"tags"`
	Loading  bool          `json:"loading"`
	Waiters  int           `json:"waiters"`
	Failures int           `json:"failures"`
	RetryIn  time.Duration `json:"retryIn"`
	Err      string        `json:"err"`
}

// Key is the body of api/invalidate. Soft expires the key instead: its value is stale then.
type Key struct {
	Name string `json:"name"`
	Key  string `json:"key"`
	Soft bool   `json:"soft"`
}

// Tags is the body of api/tags.
type Tags struct {
	Name string   `json:"name"`
	Tags []string `json:"tags"`
	Soft bool     `json:"soft"`
}

// All is the body of api/all.
type All struct {
	Name string `json:"name"`
	Soft bool   `json:"soft"`
}

// Tune is the body of api/tune. A missing field changes nothing. Durations are in the
// form of Go, such as "1m30s"; "none" is no expiry, or no stale values.
type Tune struct {
	Name                 string  `json:"name"`
	MaxEntries           *int64  `json:"maxEntries,omitempty"`
	MaxWeight            *int64  `json:"maxWeight,omitempty"`
	TTL                  *string `json:"ttl,omitempty"`
	StaleWhileRevalidate *string `json:"staleWhileRevalidate,omitempty"`
	StaleOnError         *string `json:"staleOnError,omitempty"`
	Off                  *bool   `json:"off,omitempty"`
}

// Outcome is the answer to a tried action. OK says that the call of the cache has
// returned no error; else Error is its text. Did is one sentence about the result. The other
// fields are the state of L2 and of the bus after it.
type Outcome struct {
	OK          bool          `json:"ok"`
	Did         string        `json:"did"`
	Error       string        `json:"error"`
	Took        time.Duration `json:"took"`
	HasL2       bool          `json:"hasL2"`
	BreakerOpen bool          `json:"breakerOpen"`
	HasBus      bool          `json:"hasBus"`
	Connected   bool          `json:"connected"`
	Pending     int           `json:"pending"`
}
