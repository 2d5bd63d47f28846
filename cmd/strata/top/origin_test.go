package top

import (
	"strings"
	"testing"
	"time"

	"github.com/strata-cache/strata/admin/api"
)

func TestOriginAndL2AreNamedInTheListAndInTheDetail(t *testing.T) {
	for _, tt := range []struct {
		failing, slow time.Duration
		list, detail  string
	}{
		{0, 0, "", "well"},
		{0, 20 * time.Second, "origin is slow for 20 s", "slow for 20 s"},
		{5 * time.Minute, 20 * time.Second, "origin is failing for 5 min", "failing for 5 min"},
	} {
		s := summary("users", 100, 90)
		s.Numbers.Loads.Failing, s.Numbers.Loads.Slow = tt.failing, tt.slow
		if got := strings.Join(states(&s), ", "); got != tt.list {
			t.Errorf("the list says %q, want %q", got, tt.list)
		}
		m := view(t, s)
		press(m, "enter")
		m.Update(detailMsg{api.Detail{Name: "users", Numbers: s.Numbers, Info: api.Info{L2: "*redis.Tier", L2Server: "10.0.0.1:6379"}}, nil, "users"})
		if screen := m.draw(); !strings.Contains(screen, left("origin", titles)+tt.detail) || !strings.Contains(screen, left("L2 at", titles)+"10.0.0.1:6379") {
			t.Errorf("the detail does not say %q:\n%s", tt.detail, screen)
		}
	}
	s := summary("users", 100, 90)
	s.Numbers.Remote.BreakerOpen, s.Info.L2Server = true, "10.0.0.1:6379"
	if got := strings.Join(states(&s), ", "); got != "L2 10.0.0.1:6379: breaker is open" {
		t.Errorf("the list says %q", got)
	}
}
