package rig

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"

	"golang.org/x/sys/unix"
)

// PinApart gives a server, by the number of its process, one processor and this
// process another, so that neither is moved and they do not take turns on one.
// The time of a round trip depends on that more than on any client. restore
// undoes the change to this process. If there are no two processors, or the
// system does not allow it, PinApart changes nothing that matters and returns
// an error; restore is never nil.
func PinApart(server int) (restore func(), err error) {
	none := func() {}
	var all unix.CPUSet
	if err := unix.SchedGetaffinity(0, &all); err != nil {
		return none, fmt.Errorf("rig: processors: %w", err)
	}
	if all.Count() < 2 {
		return none, errors.New("rig: one processor only")
	}
	var sets [2]unix.CPUSet
	cpu := 0
	for i := range sets {
		for !all.IsSet(cpu) {
			cpu++
		}
		sets[i].Set(cpu)
		cpu++
	}
	if err := pin(strconv.Itoa(server), &sets[0]); err != nil {
		return none, err
	}
	// A value set by hand stays: the runtime then does not follow the set of processors.
	runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	restore = func() { _ = pin("self", &all) } // no error: a set that could be narrowed can be widened again
	if err := pin("self", &sets[1]); err != nil {
		restore()
		return none, err
	}
	return restore, nil
}

// pin lets all threads of a process run on a set of processors only. A new
// thread inherits the set of its parent, so pin looks until it finds no thread
// that it has not seen.
func pin(process string, set *unix.CPUSet) error {
	seen := map[int]bool{}
	for before := -1; len(seen) != before; {
		before = len(seen)
		tasks, err := os.ReadDir("/proc/" + process + "/task")
		if err != nil {
			return fmt.Errorf("rig: threads: %w", err)
		}
		for _, t := range tasks {
			id, err := strconv.Atoi(t.Name())
			if err != nil || seen[id] {
				continue
			}
			seen[id] = true
			if err := unix.SchedSetaffinity(id, set); err != nil && !errors.Is(err, unix.ESRCH) {
				return fmt.Errorf("rig: processors: %w", err)
			}
		}
	}
	return nil
}
