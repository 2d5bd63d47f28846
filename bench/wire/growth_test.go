package wire

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"

	"github.com/strata-cache/strata/bench/internal/rig"
)

// growthVariable gives a child process its task, as JSON of a growthTask.
const growthVariable = "STRATA_WIRE_GROWTH"

type growthTask struct {
	System        string
	Network, Addr string
	Subject       string
	Stores        bool
	Size          int // of a value in bytes
}

// growth returns the growth in bytes of a process that has nothing but one
// subject and streams 32 values. The process has streamed small values before,
// so the growth leaves out the memory that any use would cost.
func (s *setting) growth(name string, c scenario) (uint64, error) {
	warm := newJob(1, 1, 64)
	if err := s.server.set(context.Background(), warm.keys[0], warm.value(0)); err != nil {
		return 0, err
	}
	task, err := json.Marshal(growthTask{
		System: s.system.name, Network: s.at.network, Addr: s.at.addr, Subject: name, Stores: c.stores, Size: c.size,
	})
	if err != nil {
		return 0, err
	}
	program, err := os.Executable()
	if err != nil {
		return 0, err
	}
	var out, complaints bytes.Buffer
	cmd := exec.Command(program)
	cmd.Env = append(os.Environ(), growthVariable+"="+string(task))
	cmd.Stdout, cmd.Stderr = &out, &complaints
	if err := cmd.Run(); err != nil {
		return 0, fmt.Errorf("wire: growth of %s: %w\n%s", name, err, &complaints)
	}
	var n uint64
	_, err = fmt.Fscan(&out, &n)
	return n, err
}

// growthChild carries out the task in a process of its own, and prints the
// result. It returns the status that the process ends with.
func growthChild(text string) int {
	var t growthTask
	err := json.Unmarshal([]byte(text), &t)
	if err == nil {
		err = t.do()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func (t growthTask) do() error {
	s, end, err := t.open()
	if err != nil {
		return err
	}
	defer end()
	prepare := s.getTo
	if t.Stores {
		prepare = s.setFrom
	}
	warm, stream := prepare(newJob(1, 1, 64)), prepare(newJob(1, 1, t.Size))
	meter := rig.NewMeter()
	defer meter.Close()
	const times = 32
	for range times {
		if err := warm(context.Background(), 0, 0); err != nil {
			return err
		}
	}
	// Twice: the second collection frees the memory that pools held. Then the peak
	// counts, as a process may give memory back after a stream.
	runtime.GC()
	runtime.GC()
	before := meter.Read()
	most := before
	for range times {
		if err := stream(context.Background(), 0, 0); err != nil {
			return err
		}
		most = max(most, meter.Read())
	}
	fmt.Println(most - before)
	return nil
}

// open opens the subject and nothing else, if its family allows it.
func (t growthTask) open() (subject, func(), error) {
	for _, open := range systemOf(t.System).openers {
		f, err := open(endpoint{t.Network, t.Addr})
		if err != nil {
			return subject{}, nil, err
		}
		if i := slices.IndexFunc(f.subjects, func(s subject) bool { return s.name == t.Subject }); i >= 0 {
			return f.subjects[i], f.close, nil
		}
		f.close()
	}
	return subject{}, nil, errors.New("wire: no such subject")
}
