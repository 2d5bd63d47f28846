package rig

import (
	"errors"
	"os"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/strata-cache/strata/internal/testing/servers"
)

func TestServerAndClientArePinnedApart(t *testing.T) {
	s, err := servers.RunRedis()
	if errors.Is(err, servers.ErrMissing) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	all := processors(t, "self")
	if all.Count() < 2 {
		t.Skip("one processor only")
	}
	restore, err := PinApart(s.Pid())
	if err != nil {
		t.Fatal(err)
	}
	server, client := processors(t, strconv.Itoa(s.Pid())), processors(t, "self")
	if server.Count() != 1 || client.Count() != 1 || server == client {
		t.Errorf("the server has %d processors and the client %d, the same: %v", server.Count(), client.Count(), server == client)
	}
	restore()
	if got := processors(t, "self"); got != all {
		t.Errorf("%d processors afterwards, %d before", got.Count(), all.Count())
	}
}

// processors returns the processors that any thread of a process may run on.
func processors(t *testing.T, process string) (all unix.CPUSet) {
	t.Helper()
	tasks, err := os.ReadDir("/proc/" + process + "/task")
	if err != nil {
		t.Fatal(err)
	}
	for _, task := range tasks {
		id, err := strconv.Atoi(task.Name())
		if err != nil {
			t.Fatal(err)
		}
		var set unix.CPUSet
		if err := unix.SchedGetaffinity(id, &set); err != nil && !errors.Is(err, unix.ESRCH) {
			t.Fatal(err)
		}
		for i := range set {
			all[i] |= set[i]
		}
	}
	return all
}
