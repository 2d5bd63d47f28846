package castier_test

import (
	"testing"
	"testing/synctest"

	"github.com/strata-cache/strata/internal/testing/coherence/lab"
)

// TestModelIsAStore runs the checks of every Store on the model.
func TestModelIsAStore(t *testing.T) {
	lab.CheckFleet(t, func(t *testing.T, check func(*testing.T, lab.FleetFixture)) {
		synctest.Test(t, func(t *testing.T) {
			m := lab.NewModel(t, 3)
			check(t, lab.FleetFixture{Fleet: m, Stop: func(server int) { m.Kill(server, true) }})
		})
	})
}
