package redis

import (
	"errors"
	"testing"
	"time"
)

// TestAnswerToEachQuestionOfARoundCounts: a sentinel may be asked before the last one is,
// and its answer must not pass for one from before the round.
func TestAnswerToEachQuestionOfARoundCounts(t *testing.T) {
	o := Options{DialTimeout: time.Second}
	p := newPrimary(&o, nil, &terms{})
	for range 100_000 {
		p.askers = append(p.askers, &sentinel{due: make(chan struct{}, 1)})
	}
	at := make(chan time.Time, 1)
	go func() {
		<-p.askers[0].due
		at <- time.Now()
	}()
	r := p.beginRound()
	if asked := <-at; asked.Before(r.begun) {
		t.Errorf("the first sentinel was asked %v before the round began", r.begun.Sub(asked))
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
