package origin_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/strata-cache/strata/internal/cache/limit"
	"github.com/strata-cache/strata/internal/cache/origin"
)

var errDown = errors.New("down")

// course is an origin at a time, and its log.
type course struct {
	t   *testing.T
	g   *origin.Origin
	now time.Duration
	log strings.Builder
}

func start(t *testing.T) *course {
	c := &course{t: t, now: 1}
	c.g = origin.New(origin.Options{Name: "users", Logger: c.logger(), Within: 40 * time.Second})
	return c
}

func (c *course) logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(&c.log, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}}))
}

func (c *course) ok(took time.Duration)   { c.g.Succeeded(int64(c.now), took) }
func (c *course) fail(took time.Duration) { c.g.Failed(int64(c.now), took, "secret", errDown) }

// want compares the state with the given one, of durations rounded to seconds.
func (c *course) want(failing, slow time.Duration) {
	c.t.Helper()
	f, s := c.g.Read(int64(c.now))
	if f.Round(time.Second) != failing || s.Round(time.Second) != slow || (f > 0) != (failing > 0) || (s > 0) != (slow > 0) {
		c.t.Errorf("at %v: failing %v, slow %v; want %v, %v\n%s", c.now, f, s, failing, slow, c.log.String())
	}
}

// said returns the number of lines with a text.
func (c *course) said(text string) int { return strings.Count(c.log.String(), "strata: "+text+"\"") }

func TestLoadsFailSinceTheFirstOfSeveralInARow(t *testing.T) {
	c := start(t)
	for range 100 { // a well origin, 10 loads a second
		c.ok(time.Millisecond)
		c.now += 100 * time.Millisecond
	}
	c.want(0, 0)
	began := c.now
	for c.now < began+9*time.Second {
		c.fail(time.Millisecond)
		c.now += 100 * time.Millisecond
	}
	c.want(9*time.Second, 0)
	if c.said("loads fail") != 1 || c.said("a load has failed") != 1 || strings.Contains(c.log.String(), "secret") {
		t.Errorf("the log says: %s", c.log.String())
	}
	for range 100 {
		c.ok(time.Millisecond)
		c.now += 100 * time.Millisecond
	}
	c.want(0, 0)
	if c.said("loads succeed again") != 1 || c.said("loads fail") != 1 {
		t.Errorf("the log says: %s", c.log.String())
	}
}

func TestFewLoadsThatFailAreEnough(t *testing.T) {
	c := start(t)
	c.ok(time.Millisecond)
	c.now += time.Minute
	c.fail(time.Second)
	c.want(0, 0)
	c.now += 5 * time.Second
	c.fail(time.Second)
	c.want(6*time.Second, 0) // since its load began
	c.now += 24 * time.Second
	c.want(30*time.Second, 0) // no load runs
	c.ok(time.Millisecond)
	c.want(0, 0)
}

func TestThreeAtOnceAreEnoughForANewCache(t *testing.T) {
	c := start(t)
	c.fail(time.Millisecond)
	c.fail(time.Millisecond)
	c.want(0, 0)
	c.fail(time.Millisecond)
	c.now += 2 * time.Second
	c.want(2*time.Second, 0)
}

func TestFailuresAmongSuccessesAreNoState(t *testing.T) {
	for name, each := range map[string]func(c *course, i int){
		"one in ten": func(c *course, i int) {
			if i%10 == 0 {
				c.fail(time.Millisecond)
			}
		},
		"twenty in an instant": func(c *course, i int) {
			for range 20 {
				if i%2000 == 1000 {
					c.fail(time.Millisecond)
				}
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := start(t)
			for i := range 60 * 100 { // ten minutes
				c.now += 100 * time.Millisecond
				for range 10 {
					c.ok(time.Millisecond)
				}
				each(c, i)
				c.want(0, 0)
			}
			if n := c.said("a load has failed"); n < 2 || n > 3 || c.said("loads fail") > 0 {
				t.Errorf("the log says: %s", c.log.String())
			}
		})
	}
}

func TestLoadsSucceedAgainWhenFewFail(t *testing.T) {
	c := start(t)
	for range 10 {
		c.fail(time.Millisecond)
	}
	for range 10 * 10 { // one in three fails, so the state goes on
		c.ok(time.Millisecond)
		c.ok(time.Millisecond)
		c.fail(time.Millisecond)
		c.now += 100 * time.Millisecond
	}
	c.want(10*time.Second, 0)
	for range 10 * 15 { // one in twenty
		for range 19 {
			c.ok(time.Millisecond)
		}
		c.fail(time.Millisecond)
		c.now += 100 * time.Millisecond
	}
	c.want(0, 0)
	if c.said("loads fail") != 1 || c.said("loads succeed again") != 1 {
		t.Errorf("the log says: %s", c.log.String())
	}
}

func TestAStateThatLastsIsLoggedEachFiveMinutes(t *testing.T) {
	c := start(t)
	for range 11 * 60 * 10 { // eleven minutes
		c.fail(time.Millisecond)
		c.now += 100 * time.Millisecond
	}
	if c.said("loads fail") != 1 || c.said("loads still fail") != 2 || strings.Count(c.log.String(), "\n") != 4 || !strings.Contains(c.log.String(), "for=5m0s") {
		t.Errorf("the log says: %s", c.log.String())
	}
}

func TestAnOriginThatComesAndGoesFillsNoLog(t *testing.T) {
	c := start(t)
	for range 30 { // half an hour: 30 s down, 30 s up
		for range 300 {
			c.fail(time.Millisecond)
			c.now += 100 * time.Millisecond
		}
		if failing, _ := c.g.Read(int64(c.now)); failing == 0 {
			t.Fatalf("%v: it does not fail", c.now)
		}
		for range 300 {
			c.ok(time.Millisecond)
			c.now += 100 * time.Millisecond
		}
		c.want(0, 0)
	}
	if n := c.said("loads fail"); n < 5 || n > 20 || c.said("loads succeed again") != n {
		t.Errorf("%d lines of the begin in half an hour:\n%s", n, c.log.String())
	}
	for range 1300 { // it stays down
		c.fail(time.Millisecond)
		c.now += 100 * time.Millisecond
	}
	if all := strings.TrimSpace(c.log.String()); !strings.Contains(all[strings.LastIndex(all, "\n")+1:], "loads fail") {
		t.Errorf("the last line is not true:\n%s", all)
	}
}

func TestTheLastOutcomeIsForgottenAfterTenMinutes(t *testing.T) {
	c := start(t)
	for range 3 {
		c.fail(time.Millisecond)
	}
	c.now += 9 * time.Minute
	c.want(9*time.Minute, 0)
	c.now += 2 * time.Minute
	c.want(0, 0)
}

func TestLoadsThatTakeAQuarterOfTheirTimeAreSlow(t *testing.T) {
	c := start(t) // a quarter of the time is 10 s
	for range 100 {
		c.ok(time.Second)
		c.now += 100 * time.Millisecond
	}
	c.ok(11 * time.Second) // others were quick meanwhile
	c.want(0, 0)
	for i := range 100 {
		c.now += 100 * time.Millisecond
		if i%2 == 0 {
			c.ok(time.Second)
		} else {
			c.ok(11 * time.Second)
		}
	}
	if _, slow := c.g.Read(int64(c.now)); slow == 0 {
		t.Error("half of the loads take long, and are not slow")
	}
	for range 400 {
		c.ok(time.Second)
		c.now += 100 * time.Millisecond
	}
	c.want(0, 0)
	c.now += time.Minute
	c.ok(12 * time.Second) // none was quick since it began
	c.want(0, 12*time.Second)
	if c.said("loads are slow") != 2 || c.said("loads are quick again") != 1 {
		t.Errorf("the log says: %s", c.log.String())
	}
}

// work is a load to cut short.
type work struct{}

func (work) CutShort() {}

func TestLoadsThatHangAreSlowBeforeTheyEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &course{t: t}
		began := time.Now()
		clock := func() int64 { return int64(time.Since(began)) + 1 }
		ends := limit.NewDeadlines(time.Minute, errDown, clock)
		defer ends.Close()
		c.g = origin.New(origin.Options{Name: "users", Logger: c.logger(), Within: time.Minute, Deadlines: ends})
		scope := new(limit.Scope)
		scope.Begin(context.Background(), nil)
		var loads [5]limit.Bound
		for i := range loads {
			loads[i].Begin(scope, work{}, ends, clock())
			time.Sleep(time.Second)
		}
		time.Sleep(9 * time.Second)
		c.now = time.Since(began)
		c.want(0, 0)
		time.Sleep(2 * time.Second)
		c.now = time.Since(began)
		c.want(0, 16*time.Second)
		for i := range loads {
			loads[i].InTime()
			loads[i].End()
		}
		for range 120 {
			c.now = time.Since(began)
			c.g.Succeeded(int64(c.now), time.Millisecond)
			time.Sleep(time.Second)
		}
		c.want(0, 0)
		if c.said("loads are slow") != 1 || c.said("loads are quick again") != 1 {
			t.Errorf("the log says: %s", c.log.String())
		}
		scope.End(nil)
	})
}

func TestKeysAreInTheLogIfTheyMay(t *testing.T) {
	var log strings.Builder
	g := origin.New(origin.Options{Name: "users", ShowKeys: true, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	for i := range 3 {
		g.Failed(int64(i), 0, fmt.Sprint("key", i), errDown)
	}
	g.Panicked(0, "key3", errDown, []byte("stack"))
	if n := strings.Count(log.String(), " key=key"); n != 3 {
		t.Errorf("the log says: %s", log.String())
	}
}
