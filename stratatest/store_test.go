package stratatest

import (
	"bytes"
	"context"
	"hash/fnv"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/strata-cache/strata/remote"
	"github.com/strata-cache/strata/remote/castier"
	"github.com/strata-cache/strata/stratatest/internal/checks"
)

// storeBugs are ways to break a Store, each with the check that must find it. It is read-only.
var storeBugs = map[string]string{
	"absent items have a version":                "AbsentItemHasNoVersion",
	"empty values are no items":                  "AbsentItemHasNoVersion",
	"no version writes over an item":             "SwapWithoutVersionMakesAnItem",
	"versions are not compared":                  "SwapNeedsThePresentVersion",
	"any version makes an item":                  "SwapNeedsThePresentVersion",
	"some swaps are reported and not done":       "SwapThatIsReportedIsDone",
	"some swaps are done and not reported":       "SwapThatIsLostChangesNothing",
	"lost swaps change the version":              "SwapThatIsLostChangesNothing",
	"versions are hashes of values":              "VersionsAreNeverUsedAgain",
	"versions begin again with an item":          "VersionsOutliveTheirItems",
	"lives are halved":                           "ItemsAreKeptForTheirLife",
	"items without a life live for a second":     "ItemsAreKeptForTheirLife",
	"long lives are none":                        "ItemsAreKeptForTheirLife",
	"values are made UTF-8":                      "ValuesAndKeysAreKeptAsTheyAre",
	"keys fold case":                             "ValuesAndKeysAreKeptAsTheyAre",
	"keys are made UTF-8":                        "ValuesAndKeysAreKeptAsTheyAre",
	"keys end at 249 bytes":                      "ValuesAndKeysAreKeptAsTheyAre",
	"written values are kept":                    "SlicesHaveOneOwner",
	"read values are kept":                       "SlicesHaveOneOwner",
	"contexts are not looked at":                 "EndedContextEndsCalls",
	"a batch is one transaction":                 "EachSwapOfABatchHasItsResult",
	"a batch ends at 100 swaps":                  "EachSwapOfABatchHasItsResult",
	"a lost swap is an error":                    "EachSwapOfABatchHasItsResult",
	"items that are absent are left out":         "ResultsLineUp",
	"items are sorted by key":                    "ResultsLineUp",
	"a value that is too large fails the batch":  "FailureOfOneIsNotThatOfAll",
	"a value that is too large is cut":           "FailureOfOneIsNotThatOfAll",
	"compare and swap are two steps":             "OneOfManySwapsWins",
	"the second swap of a batch is in two steps": "NoSwapIsLostOrDoneTwice",
	"the clock stands":                           "ClockGoesOn",
	"the clock is set back":                      "ClockGoesOn",
	"the clock jumps":                            "ClockGoesOn",
	"the clock has steps of an hour":             "ClockGoesOn",
	"the clock begins in the year 1":             "ClockGoesOn",
	"counters begin beyond First":                "CountersBeginWhereTheyAreToldTo",
	"counters begin without First":               "CountersBeginWhereTheyAreToldTo",
	"counters are shown in hex":                  "CountersBeginWhereTheyAreToldTo",
	"damaged counters stay":                      "DamagedCountersAreReplaced",
	"damaged counters count from zero":           "DamagedCountersAreReplaced",
	"additions are two steps":                    "NoAdditionIsLost",
	"touched items keep their lives":             "TouchedItemsHaveAnotherLife",
	"touched items are made":                     "TouchedItemsHaveAnotherLife",
	"a touch brings the last version back":       "TouchedItemsHaveAnotherLife",
}

// TestStoreChecksFindBrokenStores proves that each check can fail, and does not for a good store.
func TestStoreChecksFindBrokenStores(t *testing.T) {
	for _, c := range checks.StoreChecks() {
		bugs := []string{""}
		for bug, check := range storeBugs {
			if check == c.Name {
				bugs = append(bugs, bug)
			}
		}
		if len(bugs) == 1 {
			t.Errorf("no bug proves that %s can fail", c.Name)
		}
		for _, bug := range bugs {
			t.Run(c.Name+"/"+strings.ReplaceAll(bug, " ", "_"), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					f := checks.StoreFixture{Store: &rows{bug: bug, all: map[string]storeRow{}}, Sleep: time.Sleep}
					r := recorded(t, func(t testing.TB) { c.Run(t, f) })
					if r.failed() != (bug != "") || r.skipped {
						t.Errorf("skipped %t, failures %q; want some: %t", r.skipped, r.failures, bug != "")
					}
				})
			})
		}
	}
}

// bareStore is a Store without abilities.
type bareStore struct{ castier.Store }

// goodStores are stores that use their freedom: they are as good as the plain one.
var goodStores = map[string]func(*rows){ // read-only
	"touches give versions":     func(s *rows) { s.touchVersions = true },
	"the clock has no steps":    func(s *rows) { s.stepless = true },
	"the clock is a year ahead": func(s *rows) { s.ahead = 365 * 24 * time.Hour },
}

func TestStoreChecksPassStoresThatUseTheirFreedom(t *testing.T) {
	for name, use := range goodStores {
		for _, c := range checks.StoreChecks() {
			synctest.Test(t, func(t *testing.T) {
				s := &rows{all: map[string]storeRow{}}
				use(s)
				r := recorded(t, func(t testing.TB) { c.Run(t, checks.StoreFixture{Store: s, Sleep: time.Sleep}) })
				if r.failed() || r.skipped {
					t.Errorf("%s, %s: skipped %t, failures %q", name, c.Name, r.skipped, r.failures)
				}
			})
		}
	}
}

// TestStoreChecksSkipAbilities that a Store does not have, and pass on it.
func TestStoreChecksSkipAbilities(t *testing.T) {
	skipped := 0
	for _, c := range checks.StoreChecks() {
		synctest.Test(t, func(t *testing.T) {
			f := checks.StoreFixture{Store: bareStore{&rows{all: map[string]storeRow{}}}, Sleep: time.Sleep}
			r := recorded(t, func(t testing.TB) { c.Run(t, f) })
			if r.failed() {
				t.Errorf("%s: %q", c.Name, r.failures)
			}
			if r.skipped {
				skipped++
				if !strings.HasPrefix(r.reason, "the Store is no castier.") {
					t.Errorf("%s is skipped because %q", c.Name, r.reason)
				}
			}
		})
	}
	if skipped != 5 {
		t.Errorf("%d checks are skipped", skipped)
	}
}

// rows is a Store in memory, broken in one way, or not at all if bug is empty.
type rows struct {
	bug    string
	mu     sync.Mutex // guards below
	all    map[string]storeRow
	writes uint64
	calls  int

	touchVersions bool          // a touch gives the item another version
	stepless      bool          // the clock has no steps
	ahead         time.Duration // the time of the clock, less the true time
}

type storeRow struct {
	value   []byte
	version uint64
	ends    time.Time
}

var (
	_ castier.Clock   = (*rows)(nil)
	_ castier.Counter = (*rows)(nil)
	_ castier.Toucher = (*rows)(nil)
)

// is reports whether the store has a bug.
func (s *rows) is(bug string) bool {
	if _, ok := storeBugs[bug]; !ok {
		panic("no such bug: " + bug)
	}
	return s.bug == bug
}

// row returns the row of key, or the zero row if its life is over. s.mu is locked.
func (s *rows) row(key string) storeRow {
	r := s.all[s.key(key)]
	if !r.ends.IsZero() && !time.Now().Before(r.ends) {
		return storeRow{}
	}
	return r
}

func (s *rows) key(key string) string {
	switch {
	case s.is("keys fold case"):
		return strings.ToLower(key)
	case s.is("keys are made UTF-8"):
		return strings.ToValidUTF8(key, "?")
	case s.is("keys end at 249 bytes"):
		return key[:min(len(key), 249)]
	}
	return key
}

// version returns the version of a new row over the one before it. s.mu is locked.
func (s *rows) version(before storeRow, value []byte) uint64 {
	s.writes++
	switch {
	case s.is("versions are hashes of values"):
		h := fnv.New64a()
		h.Write(value)
		return h.Sum64()
	case s.is("versions begin again with an item"):
		return before.version + 1
	}
	return s.writes
}

func (s *rows) ended(ctx context.Context) error {
	if s.is("contexts are not looked at") {
		return nil
	}
	return ctx.Err()
}

// pause lets other callers in. s.mu is locked.
func (s *rows) pause() {
	s.mu.Unlock()
	time.Sleep(time.Millisecond) // in a bubble
	s.mu.Lock()
}

func (s *rows) GetMany(ctx context.Context, keys []string) ([]castier.Item, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.is("items are sorted by key") {
		keys = slices.Sorted(slices.Values(keys))
	}
	var items []castier.Item
	for _, key := range keys {
		r := s.row(key)
		is := castier.Item{Value: r.value, Version: castier.Version{Number: r.version}}
		if !s.is("read values are kept") {
			is.Value = bytes.Clone(is.Value)
		}
		if r.version == 0 && s.is("items that are absent are left out") {
			continue
		}
		if r.version == 0 && s.is("absent items have a version") {
			is.Version.Number = 1 << 60
		}
		if len(is.Value) == 0 && s.is("empty values are no items") {
			is = castier.Item{}
		}
		items = append(items, is)
	}
	return items, s.ended(ctx)
}

const largest = 1 << 20

func (s *rows) SwapMany(ctx context.Context, swaps []castier.Swap) ([]bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.ended(ctx); err != nil {
		return nil, err
	}
	lost := func(w castier.Swap) bool { return s.row(w.Key).version != w.Version.Number }
	swapped, errs := make([]bool, len(swaps)), make([]error, len(swaps))
	switch {
	case s.is("a batch is one transaction") && slices.ContainsFunc(swaps, lost):
		return swapped, nil
	case s.is("a lost swap is an error") && slices.ContainsFunc(swaps, lost):
		return nil, errMutant
	}
	for i, w := range swaps {
		if i >= 100 && s.is("a batch ends at 100 swaps") {
			break
		}
		if len(w.Value) > largest {
			if s.is("a value that is too large fails the batch") {
				return nil, remote.ErrValueTooLarge
			}
			if !s.is("a value that is too large is cut") {
				errs[i] = remote.ErrValueTooLarge
				continue
			}
			w.Value = w.Value[:largest]
		}
		swapped[i] = s.swap(i, w)
	}
	return swapped, remote.JoinKeys(errs)
}

// swap writes one row. s.mu is locked.
func (s *rows) swap(i int, w castier.Swap) bool {
	r := s.row(w.Key)
	s.calls++
	same := r.version == w.Version.Number ||
		s.is("no version writes over an item") && w.Version == castier.Version{} ||
		s.is("versions are not compared") && w.Version != castier.Version{} && r.version != 0 ||
		s.is("any version makes an item") && r.version == 0
	if s.is("compare and swap are two steps") || i == 1 && s.is("the second swap of a batch is in two steps") {
		s.pause()
	}
	switch {
	case !same && s.is("lost swaps change the version"):
		r.version = s.version(r, r.value)
		s.all[s.key(w.Key)] = r
		return false
	case !same:
		return false
	case s.calls%7 == 0 && s.is("some swaps are reported and not done"):
		return true
	}
	value := w.Value
	if !s.is("written values are kept") {
		value = append([]byte{}, value...)
	}
	if s.is("values are made UTF-8") {
		value = bytes.ToValidUTF8(value, []byte("?"))
	}
	s.all[s.key(w.Key)] = storeRow{value: value, version: s.version(r, value), ends: s.end(w.Life)}
	return s.calls%7 != 0 || !s.is("some swaps are done and not reported")
}

// end returns the end of a life that begins now.
func (s *rows) end(life time.Duration) time.Time {
	switch {
	case life == 0 && s.is("items without a life live for a second"):
		life = time.Second
	case life > 30*24*time.Hour && s.is("long lives are none"): // memcached takes them for a date
		life = time.Nanosecond
	case s.is("lives are halved"):
		life /= 2
	}
	if life == 0 {
		return time.Time{}
	}
	return time.Now().Add(life)
}

func (s *rows) Now(context.Context) (time.Time, time.Duration, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls++
	t, step := time.Now().Add(s.ahead), time.Millisecond
	switch {
	case s.stepless:
		step = 0
	case s.is("the clock stands"):
		t = time.Unix(1e9, 0)
	case s.calls == 3 && s.is("the clock is set back"):
		t = t.Add(-time.Minute)
	case s.calls >= 3 && s.is("the clock jumps"):
		t = t.Add(time.Minute)
	case s.is("the clock has steps of an hour"):
		t, step = t.Truncate(time.Hour), time.Hour
	case s.is("the clock begins in the year 1"):
		t = time.Time{}.Add(time.Since(time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)))
	}
	return t, step, nil
}

func (s *rows) AddMany(ctx context.Context, adds []castier.Add) ([]uint64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	sums := make([]uint64, len(adds))
	base := 10
	if s.is("counters are shown in hex") {
		base = 16
	}
	for i, a := range adds {
		r := s.row(a.Key)
		n, err := strconv.ParseUint(string(r.value), base, 64)
		damaged := r.version != 0 && err != nil
		switch {
		case err == nil:
			n += a.Delta
		case damaged && s.is("damaged counters stay"):
			continue
		case damaged && s.is("damaged counters count from zero"):
			n = a.Delta
		case s.is("counters begin beyond First") && a.First > 0:
			n = a.First + a.Delta
		case s.is("counters begin without First"):
			n = max(a.First, 1)
		default:
			n = a.First
		}
		if n == 0 {
			continue
		}
		if s.is("additions are two steps") {
			s.pause()
		}
		value := strconv.AppendUint(nil, n, base)
		sums[i] = n
		s.all[s.key(a.Key)] = storeRow{value: value, version: s.version(r, value)}
	}
	return sums, s.ended(ctx)
}

func (s *rows) TouchMany(ctx context.Context, touches []castier.Touch) ([]bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	touched := make([]bool, len(touches))
	for i, touch := range touches {
		r := s.row(touch.Key)
		if touched[i] = r.version != 0 || s.is("touched items are made"); !touched[i] {
			continue
		}
		if r.ends = s.end(touch.Life); s.is("touched items keep their lives") {
			continue
		}
		if s.touchVersions {
			r.version = s.version(r, r.value)
		}
		if s.is("a touch brings the last version back") {
			r.version--
		}
		s.all[s.key(touch.Key)] = r
	}
	return touched, s.ended(ctx)
}

func (*rows) Large() int { return 0 }
