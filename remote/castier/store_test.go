package castier_test

import (
	"testing"
	"testing/synctest"

	"github.com/strata-cache/strata/internal/testing/casmodel"
	"github.com/strata-cache/strata/internal/testing/casmodel/fleettest"
)

// TestModelIsAStore runs the checks of every Store on the model.
func TestModelIsAStore(t *testing.T) {
	fleettest.Run(t, func(t *testing.T, check func(*testing.T, fleettest.Fleet)) {
		synctest.Test(t, func(t *testing.T) {
			m := casmodel.New(t, 3)
			check(t, fleettest.Fleet{Fleet: m, Stop: func(server int) { m.Kill(server, true) }})
		})
	})
}
