package redis_test

import (
	"testing"

	"github.com/strata-cache/strata/internal/testing/fakeredis"
	"github.com/strata-cache/strata/redis"
)

// TestConnectionLeftInATransactionIsNotUsedAgain: a server that refuses
// the end of one leaves keys watched, or takes the next command for a part of it.
func TestConnectionLeftInATransactionIsNotUsedAgain(t *testing.T) {
	for _, refused := range []string{"UNWATCH", "MULTI", "EXEC"} {
		t.Run(refused, func(t *testing.T) {
			fake(t, nil, func(t *testing.T, s *fakeredis.Server, c *redis.Client) {
				mustSet(t, c, "n", "1")
				before := s.Handle(refused, func(ss *fakeredis.Session, _ [][]byte) { ss.Error("NOPERM") })
				_, err := c.Watch(t.Context(), []string{"n"}, func(tx *redis.Tx) error {
					if refused != "UNWATCH" {
						tx.Queue().Get("n")
					}
					return nil
				})
				if (err == nil) != (refused == "UNWATCH") {
					t.Error(err)
				}
				s.Handle(refused, before)
				mustSet(t, c, "n", "2")
				p := c.Pipeline()
				p.Get("n")
				if replies, err := p.Do(t.Context()); texts(replies) != "2;" || err != nil {
					t.Errorf("%s, %v", texts(replies), err)
				}
				tx := c.Multi()
				tx.Get("n")
				if replies, err := tx.Do(t.Context()); texts(replies) != "2;" || err != nil {
					t.Errorf("%s, %v", texts(replies), err)
				}
				s.Handle(refused, func(ss *fakeredis.Session, _ [][]byte) { ss.Error("NOPERM") })
				if tx.Get("n"); refused != "UNWATCH" {
					if _, err := tx.Do(t.Context()); err == nil {
						t.Error("the transaction was not refused")
					}
				}
				p.Get("n")
				if replies, err := p.Do(t.Context()); texts(replies) != "2;" || err != nil {
					t.Errorf("%s, %v", texts(replies), err)
				}
			})
		})
	}
}
