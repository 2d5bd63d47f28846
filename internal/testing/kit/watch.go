package kit

import (
	"os"
	"runtime/pprof"
	"testing"
	"time"
)

// Watch ends the process with the stacks of all goroutines if t takes longer than limit of
// real time. Call it outside a bubble of testing/synctest: there a loop without an end
// stops the time, and only the timeout of all tests would find it.
func Watch(t testing.TB, limit time.Duration) {
	t.Helper()
	name := t.Name()
	alarm := time.AfterFunc(limit, func() {
		_ = pprof.Lookup("goroutine").WriteTo(os.Stderr, 2) // the panic says the rest
		panic(name + " has not ended in " + limit.String())
	})
	t.Cleanup(func() { alarm.Stop() })
}
