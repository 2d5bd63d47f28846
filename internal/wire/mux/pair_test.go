package mux_test

import (
	"bufio"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/strata-cache/strata/internal/testing/netsim"
	"github.com/strata-cache/strata/internal/wire/mux"
)

// TestPairSendsACommandAgainOnlyIfThatIsHarmless has a server that ends its first connection
// after one reply: at once, or upon the next command.
func TestPairSendsACommandAgainOnlyIfThatIsHarmless(t *testing.T) {
	for name, c := range map[string]struct{ reads, atOnce, again bool }{
		"a read that was sent":      {true, false, true},
		"a write that was sent":     {false, false, false},
		"a write that was not sent": {false, true, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &server{t: t}
				s.serve = func(n int, nc *netsim.Conn) {
					if n > 0 {
						echo(func(string) {})(n, nc)
						return
					}
					r := bufio.NewReader(nc)
					line, _ := r.ReadString('\n')
					nc.Write([]byte("re " + line))
					if !c.atOnce {
						r.ReadString('\n')
					}
				}
				p := mux.NewPair(config(s), nil)
				do := func(text string) (string, error) {
					r := &reply{t: t}
					_, err := p.Do(t.Context(), time.Now(), c.reads, &r.Ticket, []byte(text+"\n"), r)
					return r.text, err
				}
				if got, err := do("a"); got != "re a" || err != nil {
					t.Errorf("%q, %v", got, err)
				}
				synctest.Wait()
				got, err := do("b")
				if c.again != (err == nil && got == "re b") {
					t.Errorf("%q, %v", got, err)
				}
				if f := new(failure); err != nil && (!errors.As(err, &f) || !f.sent) {
					t.Error(err)
				}
				if n := p.Pool.Stats().Retried; n != map[bool]uint64{true: 1}[c.again] {
					t.Errorf("%d calls are counted as sent again", n)
				}
				p.Close()
				s.wg.Wait()
			})
		})
	}
}
