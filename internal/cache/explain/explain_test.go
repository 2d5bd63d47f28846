package explain_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/strata-cache/strata/internal/cache/envelope"
	"github.com/strata-cache/strata/internal/cache/expiry"
	"github.com/strata-cache/strata/internal/cache/explain"
	"github.com/strata-cache/strata/remote"
)

func fresh(d time.Duration) explain.Place {
	return explain.Place{Entry: explain.Entry{Used: true, Present: true, Fresh: d}}
}

// TestVerdictsComeInTheOrderOfARead adds reasons. Each comes before the reasons added earlier.
func TestVerdictsComeInTheOrderOfARead(t *testing.T) {
	k := explain.Key{Name: "n", Hold: time.Minute}
	for i, step := range []struct {
		add  func()
		want string
	}{
		{func() {}, "The Loader runs; its value is stored nowhere, because the key is on hold for another 1m0s."},
		{func() { k.RetryIn = time.Second }, "The read fails with the error of the last load, for another 1s."},
		{func() { k.L2 = fresh(-1); k.L2.Fallback = true }, "L2 answers with a stale value: a load has failed, and is tried again in 1s."},
		{func() { k.L2 = fresh(math.MaxInt64) }, "L2 answers: its value is fresh."},
		{func() { k.L2.Err = errors.New("no") }, "L2 gives no value (no). The read fails with the error of the last load, for another 1s."},
		{func() { k.LeftAlone = true }, "The circuit breaker of L2 is open, because it has failed too often. The read fails with the error of the last load, for another 1s."},
		{func() { k.L1.Lasts = true }, "L1 answers, though L2 does not confirm its value: another instance may have invalidated it."},
		{func() { k.Pending = true }, "L2 is read past until it confirms a drop that is pending. The read fails with the error of the last load, for another 1s."},
		{func() { k.Name = "" }, "The read fails: no."},
		{func() { k.Loading, k.Waiters = true, 3 }, "The read joins the load that is running, for which 3 callers wait."},
		{func() { k.L1.Fallback = true }, "L1 answers with a stale value: a load has failed, and is tried again in 1s."},
		{func() { k.L1.Served = true }, "L1 answers with a stale value, which is refreshed in the background."},
		{func() { k.L1, k.Degraded = fresh(time.Minute), true }, "L1 answers: its value is fresh for another 1m0s. The bus is silent: another instance may have invalidated it."},
		{func() { k.L1.NotFound = true }, "L1 answers that the origin does not have the key for another 1m0s."},
		{func() { k.Off = true }, "The read joins the load that is running, for which 3 callers wait."},
		{func() { k.Loading = false }, "The read fails with the error of the last load, for another 1s."},
		{func() { k.RetryIn = 0 }, "The Loader runs: the cache is turned off on this instance."},
		{func() { k.Refused = errors.New("no key") }, "The read fails: no key."},
		{func() { k.Closed = true }, "The cache is closed."},
	} {
		if step.add(); k.Verdict() != step.want {
			t.Errorf("step %d: %s", i, k.Verdict())
		}
	}
}

func TestVerdictBesideASkipReadIsTheAnswerOfL2(t *testing.T) {
	k := explain.Key{Name: "n", Running: explain.Running{Loading: true, Reloading: true, Waiters: 1}}
	joins := "The read joins the load that is running, for which 1 callers wait."
	for i, step := range []struct {
		add  func()
		want string
	}{
		{func() {}, joins},
		{func() { k.L2 = fresh(-1); k.L2.Served = true }, joins},
		{func() { k.L2 = fresh(time.Minute) }, "L2 answers: its value is fresh for another 1m0s."},
		{func() { k.L2.Present, k.L2.NotFound = false, true }, "L2 answers that the origin does not have the key for another 1m0s."},
		{func() { k.Pending = true }, joins},
		{func() { k.Pending, k.Reloading = false, false }, joins},
	} {
		if step.add(); k.Verdict() != step.want {
			t.Errorf("step %d: %s", i, k.Verdict())
		}
	}
}

func TestTheTextsForAPageAreShort(t *testing.T) {
	long := strings.Repeat("long\n", 1000)
	k := explain.Key{Name: "n", Err: errors.New(long), L2: explain.Place{Entry: explain.Entry{Used: true, Err: errors.New(long)}}}
	k.L1.Tags = slices.Repeat([]string{long}, 30)
	e := k.Panel()
	if e.L1 != "none" || e.L2 != "unknown" || len(e.Tags) != 10 || len(e.Tags[0]) > 200 || len(e.Err) > 500 || len(e.Verdict) > 500 {
		t.Errorf("%+v", e)
	}
}

// TestEntryOfL2IsReadLikeAReadWould tries the entries that L2 may have.
func TestEntryOfL2IsReadLikeAReadWould(t *testing.T) {
	down, noTags := errors.New("down"), errors.New("no tags")
	tagged := envelope.AppendTags(envelope.Begin(nil), 5, []string{"t"})
	envelope.Seal(tagged, "n", 1, envelope.Tagged)
	plain := append(envelope.Begin(nil), "abc"...)
	envelope.Seal(plain, "n", 1, 0)
	for name, try := range map[string]struct {
		held     remote.Held
		err      error
		tag      remote.Tag
		untagged error
		want     explain.Place
	}{
		"silent":         {err: down, want: explain.Place{Entry: explain.Entry{Err: down}, Silent: true}},
		"absent":         {},
		"fresh":          {held: remote.Held{ID: 1, Data: plain, Fresh: 3, Left: 5}, want: explain.Place{Entry: explain.Entry{Present: true, Fresh: 3, Left: 5, Size: 3}}},
		"stale":          {held: remote.Held{ID: 1, Data: plain, Fresh: -3, Left: 5}, want: explain.Place{Entry: explain.Entry{Present: true, Fresh: -3, Left: 5, Size: 3}, Served: true, Fallback: true}},
		"dropped by tag": {held: remote.Held{ID: 1, Data: tagged, Fresh: 3, Left: 5}, tag: remote.Tag{Dropped: 6}, want: explain.Place{Entry: explain.Entry{Tags: []string{"t"}, DroppedByTag: true}}},
		"tag of before":  {held: remote.Held{ID: 1, Data: tagged, Fresh: 3, Left: 5}, tag: remote.Tag{Dropped: 5}, want: explain.Place{Entry: explain.Entry{Present: true, Fresh: 3, Left: 5, Tags: []string{"t"}}}},
		"expired by tag": {held: remote.Held{ID: 1, Data: tagged, Fresh: 3, Left: 5}, tag: remote.Tag{Expired: 6}, want: explain.Place{Entry: explain.Entry{Present: true, Expired: true, Left: 5, Tags: []string{"t"}}, Fallback: true}},
		"without tags":   {held: remote.Held{ID: 1, Data: tagged, Fresh: 3, Left: 5}, untagged: noTags, want: explain.Place{Entry: explain.Entry{Tags: []string{"t"}, Err: noTags}}},
	} {
		r := explain.Remote{
			Timeout: time.Minute, WhileRevalidate: 10, OnError: 10, Untagged: try.untagged,
			Read: func(context.Context, string) (remote.Held, error) { return try.held, try.err },
			Open: func(data []byte, name string) ([]byte, envelope.Flags, int, error) {
				payload, flags, err := envelope.Open(data, name, 1)
				return payload, flags, 0, err
			},
			Tags:   func(context.Context, []string) ([]remote.Tag, error) { return []remote.Tag{try.tag}, nil },
			Decode: func([]byte, int) error { return nil },
			Since: func(_ *remote.Held, byTag bool, _ []string, _ *expiry.Own) (time.Duration, bool, bool) {
				return 4, byTag, false
			},
		}
		var got explain.Place
		r.Look(t.Context(), "n", &got)
		if !errors.Is(got.Err, try.want.Err) {
			t.Errorf("%s: %v, want %v", name, got.Err, try.want.Err)
		}
		got.Err, try.want.Err = nil, nil
		if fmt.Sprintf("%+v", got) != fmt.Sprintf("%+v", try.want) {
			t.Errorf("%s: %+v", name, got)
		}
	}
}
