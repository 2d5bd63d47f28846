package conformance

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
)

// cellVariable tells a child process which cell of the table to play: the
// scenario's ID, a colon, and the library's name.
const cellVariable = "STRATA_CONFORMANCE_CELL"

// atOnce is the number of child processes that run at the same time. They do
// little but wait.
const atOnce = 8

// Matrix plays every scenario against every library, each pair in a process of
// its own, and returns the table. The processes run the program that Matrix is
// called from, which must therefore call [Child] with the same libraries
// before anything else.
func Matrix(ctx context.Context, libraries []Library) (Table, error) {
	t := Table{Libraries: libraries, Scenarios: Scenarios()}
	program, err := os.Executable()
	if err != nil {
		return t, err
	}
	var wg sync.WaitGroup
	slots := make(chan struct{}, atOnce)
	errs := make([]error, len(t.Scenarios)*len(libraries))
	for i, s := range t.Scenarios {
		t.Cells = append(t.Cells, make([]Outcome, len(libraries)))
		for j, l := range libraries {
			wg.Go(func() {
				slots <- struct{}{}
				defer func() { <-slots }()
				t.Cells[i][j], errs[i*len(libraries)+j] = playInChild(ctx, program, s, l)
			})
		}
	}
	wg.Wait()
	return t, errors.Join(errs...)
}

// playInChild plays one cell in a process of its own.
func playInChild(ctx context.Context, program string, s Scenario, l Library) (o Outcome, err error) {
	ctx, cancel := context.WithTimeout(ctx, 2*Limit)
	defer cancel()
	var out, complaints bytes.Buffer
	cmd := exec.CommandContext(ctx, program)
	cmd.Env = append(os.Environ(), cellVariable+"="+s.ID+":"+l.Name)
	cmd.Stdout, cmd.Stderr = &out, &complaints
	failed := cmd.Run()
	switch {
	case ctx.Err() == context.DeadlineExceeded:
		return Outcome{Hangs, "and had to be killed"}, nil
	case ctx.Err() != nil:
		return o, ctx.Err()
	}
	var notRun *exec.Error
	if errors.As(failed, &notRun) {
		return o, failed
	}
	r := report{}
	if failed == nil {
		if err := json.Unmarshal(out.Bytes(), &r); err != nil {
			return o, fmt.Errorf("conformance: %s: %s: child's report: %w", l.Name, s.ID, err)
		}
	}
	switch {
	case failed != nil:
		first, _, _ := strings.Cut(complaints.String(), "\n")
		return Outcome{Crashes, first}, nil
	case r.Error != "":
		return o, errors.New(r.Error)
	}
	return r.Outcome, nil
}

// report is the result that a child writes to its standard output, as JSON.
type report struct {
	Outcome Outcome
	Error   string
}

// Child plays a cell and ends the process, if this process was started by
// [Matrix] for that. Otherwise it does nothing.
func Child(libraries []Library) {
	cell, ok := os.LookupEnv(cellVariable)
	if !ok {
		return
	}
	r := playCell(cell, libraries)
	b, err := json.Marshal(r)
	if err != nil {
		panic(err)
	}
	if _, err := io.Copy(os.Stdout, bytes.NewReader(b)); err != nil {
		panic(err)
	}
	os.Exit(0)
}

func playCell(cell string, libraries []Library) (r report) {
	id, name, _ := strings.Cut(cell, ":")
	scenarios := Scenarios()
	i := slices.IndexFunc(scenarios, func(s Scenario) bool { return s.ID == id })
	j := slices.IndexFunc(libraries, func(l Library) bool { return l.Name == name })
	if i < 0 || j < 0 {
		r.Error = "conformance: no such cell: " + cell
		return r
	}
	o, err := Play(scenarios[i], libraries[j])
	if err != nil {
		r.Error = err.Error()
	}
	r.Outcome = o
	return r
}
