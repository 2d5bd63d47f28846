package redis

import (
	"errors"
	"slices"
	"testing"
	"time"
)

// TestAnswerToEachQuestionOfARoundCounts: a sentinel may be asked before the last one is,
// and its answer must not pass for one from before the round. On a busy machine it takes
// many sentinels until that happens.
func TestAnswerToEachQuestionOfARoundCounts(t *testing.T) {
	type asked struct {
		at    time.Time
		early bool // before the last one
	}
	o := Options{DialTimeout: time.Second}
	for n := 100_000; ; n *= 2 {
		newSentinel := func() *sentinel { return &sentinel{due: make(chan struct{}, 1)} }
		first, last := newSentinel(), newSentinel()
		p := newPrimary(&o, nil, &terms{})
		p.askers = slices.Concat([]*sentinel{first}, slices.Repeat([]*sentinel{newSentinel()}, n), []*sentinel{last})
		answer := make(chan asked)
		go func() {
			<-first.due
			at := time.Now()
			answer <- asked{at, len(last.due) == 0}
		}()
		r := p.beginRound()
		a := <-answer
		if !a.early {
			continue
		}
		if a.at.Before(r.begun) {
			t.Errorf("the first sentinel was asked %v before the round began", r.begun.Sub(a.at))
		}
		return
	}
}

// TestMoreTellingErrorIsTakenInAnyOrder: of two servers, whichever was asked first.
func TestMoreTellingErrorIsTakenInAnyOrder(t *testing.T) {
	down, loading := errors.New("down"), error(&Error{Code: "LOADING"})
	refused := &ConnError{Op: "greet", Err: &Error{Code: "NOAUTH"}}
	for _, tt := range []struct{ more, less error }{
		{refused, down}, {refused, loading}, {ErrProtocol, down}, {ErrProtocol, loading}, {ErrNoPrimary, ErrProtocol}, {ErrNoPrimary, refused},
	} {
		if telling(tt.more, tt.less) != tt.more || telling(tt.less, tt.more) != tt.more {
			t.Errorf("%v is not more telling than %v", tt.more, tt.less)
		}
	}
	if telling(nil, down) != down {
		t.Error("the first error is not taken")
	}
}

// TestSentinelHasOneVoteInARound: a newer answer to a question from before the round
// begins a term, but the same sentinel is asked in the round as well.
func TestSentinelHasOneVoteInARound(t *testing.T) {
	o := Options{Addr: "a:1", Addrs: []string{"b:1", "c:1"}, DialTimeout: time.Second}
	p := newPrimary(&o, nil, &terms{})
	p.terms.begin("old:1")
	early := time.Now()
	r := round{running: true, begun: early.Add(1)}
	newer := told{addr: "new:1", epoch: 2}
	p.hear(&r, answered{told: newer, at: early})
	if p.addr() != "new:1" {
		t.Error("the newer answer was not heeded")
	}
	p.hear(&r, answered{told: newer, at: r.begun})
	if r.complete(3, p.addr()) {
		t.Error("one sentinel of three has proven a primary")
	}
	p.hear(&r, answered{at: r.begun, err: errors.New("down")})
	p.hear(&r, answered{told: newer, at: r.begun})
	if !r.most(3, p.addr()) {
		t.Error("two of three have not proven it")
	}
}

// TestSentinelsThatDisagreeEndNoTerm: two of them know the primary by different names, and
// answer in any order.
func TestSentinelsThatDisagreeEndNoTerm(t *testing.T) {
	o := Options{Addr: "a:1", Addrs: []string{"b:1"}, DialTimeout: time.Second}
	p := newPrimary(&o, nil, &terms{})
	for _, order := range [][]string{{"ip:1", "name:1"}, {"name:1", "ip:1"}, {"ip:1", "name:1"}} {
		r := round{running: true, begun: time.Now()}
		for _, addr := range order {
			p.hear(&r, answered{told: told{addr: addr, epoch: 1}, at: r.begun})
		}
		p.conclude(&r)
	}
	if n := p.terms.number(); n != 1 {
		t.Errorf("%d terms, want 1", n)
	}
}
