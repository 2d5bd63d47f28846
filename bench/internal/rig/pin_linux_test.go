package rig

import (
	"errors"
	"os"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"
)

func TestServerAndClientArePinnedApart(t *testing.T) {
	s, err := StartRedis(t.Context())
	if errors.Is(err, ErrNoRedis) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer s.Stop()
	all := processors(t, "self")
	if all.Count() < 2 {
		t.Skip("one processor only")
	}
	restore, err := PinApart(s)
	if err != nil {
		t.Fatal(err)
	}
	server, client := processors(t, strconv.Itoa(s.cmd.Process.Pid)), processors(t, "self")
	if server.Count() != 1 || client.Count() != 1 || server == client {
		t.Errorf("the server has %d processors and the client %d, the same: %v", server.Count(), client.Count(), server == client)
	}
	restore()
	if got := processors(t, "self"); got != all {
		t.Errorf("%d processors afterwards, %d before", got.Count(), all.Count())
	}
}

// processors returns those that any thread of a process may run on.
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
