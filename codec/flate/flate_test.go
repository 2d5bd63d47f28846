package flate_test

import (
	"testing"

	"github.com/strata-cache/strata/codec/flate"
	"github.com/strata-cache/strata/internal/testkit"
)

func TestFlateKeepsThePromisesOfACompressor(t *testing.T) {
	testkit.CheckCompressor(t, flate.New())
}
