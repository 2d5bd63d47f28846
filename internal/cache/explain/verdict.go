package explain

import (
	"fmt"
	"math"
	"time"

	"github.com/strata-cache/strata/internal/observe"
)

// Verdict returns a sentence about the result of a GetOrLoad of key now. The cases
// come in the order in which a read meets them.
func (k *Key) Verdict() string {
	switch {
	case k.Closed:
		return "The cache is closed."
	case k.Refused != nil:
		return fmt.Sprintf("The read fails: %v.", k.Refused)
	case k.Off:
		return k.whileOff()
	case k.L1.NotFound:
		return "L1 answers that the origin does not have the key" + lasting(k.L1.Fresh) + "."
	case k.L1.Present && k.L1.Fresh > 0:
		return "L1 answers: its value is fresh" + lasting(k.L1.Fresh) + "." + k.degradedNote()
	case k.L1.Served:
		return "L1 answers with a stale value, which is refreshed in the background."
	case k.L1.Fallback && k.RetryIn > 0:
		return fmt.Sprintf("L1 answers with a stale value: a load has failed, and is tried again in %v.", observe.RoundDuration(k.RetryIn))
	case k.Loading && !k.besideReload():
		return k.joins()
	}
	// L1 does not answer: the read goes on to L2, and from there to the origin.
	past, stop := k.ofTier()
	switch {
	case stop:
		return past
	case k.RetryIn > 0 && k.L2.Used && !k.Pending && !k.LeftAlone && k.L2.Fallback:
		return fmt.Sprintf("L2 answers with a stale value: a load has failed, and is tried again in %v.", observe.RoundDuration(k.RetryIn))
	case k.RetryIn > 0:
		return past + k.throttled()
	}
	return past + k.ofLoad()
}

// whileOff is Verdict of a cache that is turned off. Callers still share loads and failures.
func (k *Key) whileOff() string {
	switch {
	case k.Loading:
		return k.joins()
	case k.RetryIn > 0:
		return k.throttled()
	}
	return "The Loader runs: the cache is turned off on this instance."
}

func (k *Key) joins() string {
	return fmt.Sprintf("The read joins the load that is running, for which %d callers wait.", k.Waiters)
}

// besideReload reports whether L2 answers a read although a SkipRead loads the key: with a fresh value, or with
// the answer that there is none. A read that L2 could answer with a stale value joins the load.
func (k *Key) besideReload() bool {
	if !k.Reloading || k.Name == "" {
		return false
	}
	beside := *k
	beside.L2.Served = false
	_, answers := beside.ofTier()
	return answers
}

func (k *Key) throttled() string {
	return fmt.Sprintf("The read fails with the error of the last load, for another %v.", observe.RoundDuration(k.RetryIn))
}

// ofTier returns a sentence about the part of L2 in a read that L1 does not
// answer, and whether L2 answers the read.
func (k *Key) ofTier() (sentence string, stop bool) {
	p := &k.L2
	switch {
	case !p.Used:
		return "", false
	case k.Name == "" && p.Err != nil:
		return fmt.Sprintf("The read fails: %v.", p.Err), true
	case k.Pending:
		return "L2 is read past until it confirms a drop that is pending. ", false
	case k.L1.Lasts && (k.LeftAlone || p.Silent):
		return "L1 answers, though L2 does not confirm its value: another instance may have invalidated it.", true
	case k.LeftAlone:
		return "The circuit breaker of L2 is open, because it has failed too often. ", false
	case p.Err != nil:
		return fmt.Sprintf("L2 gives no value (%v). ", p.Err), false
	case p.NotFound && p.Fresh > 0:
		return "L2 answers that the origin does not have the key" + lasting(p.Fresh) + ".", true
	case p.Present && p.Fresh > 0:
		return "L2 answers: its value is fresh" + lasting(p.Fresh) + ".", true
	case p.Served:
		return "L2 answers with a stale value, which is refreshed in the background.", true
	case p.Fallback:
		return "L2 has a stale value, in case the load fails. ", false
	case p.DroppedByTag:
		return "The entry of L2 was dropped by one of its tags. ", false
	}
	return "", false
}

// ofLoad returns a sentence about a load that nothing prevents.
func (k *Key) ofLoad() string {
	if k.Hold > 0 {
		return fmt.Sprintf("The Loader runs; its value is stored nowhere, because the key is on hold for another %v.", observe.RoundDuration(k.Hold))
	}
	if p := &k.L2; p.Used && !k.Pending && !k.LeftAlone && !p.Silent && !k.StoringStopped {
		return "The Loader runs, unless another instance is loading the key."
	}
	return "The Loader runs."
}

// lasting returns the end of a sentence that holds for d.
func lasting(d time.Duration) string {
	if d == math.MaxInt64 {
		return ""
	}
	return fmt.Sprintf(" for another %v", observe.RoundDuration(d))
}

func (k *Key) degradedNote() string {
	if k.Degraded {
		return " The bus is silent: another instance may have invalidated it."
	}
	return ""
}
