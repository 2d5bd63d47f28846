package main

import (
	"os"
	"strconv"
	"strings"
	"testing"
)

// TestExitStatusesAreThoseOfThePage runs the examples of docs/guide/command.md.
func TestExitStatusesAreThoseOfThePage(t *testing.T) {
	page, err := os.ReadFile("../../docs/guide/command.md")
	if err != nil {
		t.Fatal(err)
	}
	ran := map[int]int{}
	for line := range strings.Lines(string(page)) {
		cells := strings.Split(strings.ReplaceAll(line, `\|`, "/"), "|")
		if len(cells) != 5 {
			continue
		}
		want, err := strconv.Atoi(strings.TrimSpace(cells[1]))
		example := strings.Trim(cells[3], " `")
		args, isCommand := strings.CutPrefix(example, "strata ")
		if err != nil || !isCommand || strings.Contains(args, " / ") {
			continue
		}
		ran[want]++
		if status, stdout, stderr := call(t.Context(), words(args)...); status != want || (stderr == "") != (want == 0) || (stdout == "") == (want == 0) {
			t.Errorf("%s: status %d, stdout %q, stderr %q; the page says %d", example, status, stdout, stderr, want)
		}
	}
	if ran[succeeded] < 1 || ran[failed] < 2 || ran[misused] < 1 || len(ran) != 3 {
		t.Errorf("the page has examples of %v", ran)
	}
	_, help, _ := call(t.Context(), "--help")
	for _, text := range []string{"Exit status: 0 after success", "2 after an error in the arguments", "1 after any other"} {
		if !strings.Contains(strings.Join(strings.Fields(help), " "), text) {
			t.Errorf("the help does not say %q:\n%s", text, help)
		}
	}
}
