package strataprom_test

import (
	"bytes"
	"os/exec"
	"testing"

	"github.com/prometheus/common/expfmt"

	"github.com/strata-cache/strata/internal/testing/coherence/lab"
	"github.com/strata-cache/strata/memcached"
	strataprom "github.com/strata-cache/strata/prometheus"
)

// program is the path of a program of Prometheus. Without it the test is skipped; on Debian
// the package prometheus has it.
func program(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		t.Skipf("%s is not installed", name)
	}
	return path
}

// run runs a program, with an input, and fails the test if the program does.
func run(t *testing.T, input []byte, path string, args ...string) (output string) {
	t.Helper()
	c := exec.CommandContext(t.Context(), path, args...)
	c.Stdin = bytes.NewReader(input)
	out, err := c.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", c, err, out)
	}
	return string(out)
}

func TestPromtoolFindsNothingInTheMetrics(t *testing.T) {
	promtool := program(t, "promtool")
	source, _ := lab.NumberedCache("users")
	reg := registry(t, source)
	reg.MustRegister(strataprom.NewPoolCollector("memcached", func() memcached.PoolStats { return memcached.PoolStats{} }))
	all, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var text bytes.Buffer
	for _, f := range all {
		if _, err := expfmt.MetricFamilyToText(&text, f); err != nil {
			t.Fatal(err)
		}
	}
	if out := run(t, text.Bytes(), promtool, "check", "metrics"); out != "" {
		t.Error(out)
	}
}
