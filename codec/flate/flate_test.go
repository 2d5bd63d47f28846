package flate_test

import (
	"testing"

	"github.com/strata-cache/strata/codec/flate"
	"github.com/strata-cache/strata/internal/testing/kit"
)

func TestFlateKeepsThePromisesOfACompressor(t *testing.T) {
	kit.CheckCompressor(t, flate.New())
}
