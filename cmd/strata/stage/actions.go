package stage

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/strata-cache/strata/cmd/strata/hello"
	"github.com/strata-cache/strata/internal/observe"
)

const (
	// maxOriginLatency is the most that an action adds to a query.
	maxOriginLatency = 5 * time.Second
	// within is the time for an action that waits.
	within = 10 * time.Second
	// fillRate is how many bytes of reports the action fill stores in a second: the limit of
	// DefaultMemoryLimit in eight seconds.
	fillRate = 32 << 20
	// maxAction is the length of an action as text, in bytes.
	maxAction = 200
)

// action is one thing that a person can do on the stage.
type action struct {
	name string
	args []string // each a list of words, or a name in capitals
	help string
	do   func(s *Stage, ctx context.Context, args []string) (said string, err error)
}

// actions returns all actions, for the page and for scripts.
func actions() []action {
	return []action{
		{"mode", []string{"none|naive|strata"}, "change the cache of both instances", (*Stage).changeMode},
		{"load", nil, "load everything at once, and ask for it again and again", (*Stage).loadAll},
		{"jitter", []string{"on|off"}, "shorten lives at random by up to a tenth, or by nothing", (*Stage).changeJitter},
		{"expire", nil, "expire everything at once", (*Stage).expire},
		{"invalidate", []string{"NAME"}, "invalidate one greeting, by instance A", (*Stage).invalidate},
		{"watch", []string{"NAME"}, "watch one greeting on all instances", (*Stage).watch},
		{"break", []string{"l2|bus|origin"}, "break a part", breaks(true)},
		{"mend", []string{"l2|bus|origin"}, "mend a part", breaks(false)},
		{"slow", []string{"DURATION"}, "add so much to each query of the origin", (*Stage).slow},
		{"restart", []string{"a|b", "cold|keys|transfer"}, "restart an instance cold, or warm by keys or transfer", (*Stage).restart},
		{"fill", []string{"on|off"}, "fill the memory with reports, or drop them", (*Stage).changeFill},
		{"rate", []string{"NUMBER"}, "send so many requests a second", (*Stage).changeRate},
	}
}

// Help returns a line for each action.
func Help() (lines []string) {
	for _, a := range actions() {
		lines = append(lines, fmt.Sprintf("%-28s  %s", strings.Join(append([]string{a.name}, a.args...), " "), a.help))
	}
	return lines
}

// parse finds the action of a text, and checks its words.
func parse(text string) (a action, args []string, err error) {
	words := strings.Fields(text)
	// The text comes from a web page or a file: its length bounds the error texts that quote it.
	if len(words) == 0 || len(text) > maxAction {
		return a, nil, fmt.Errorf("an action is a line of 1 to %d bytes", maxAction)
	}
	all := actions()
	at := slices.IndexFunc(all, func(a action) bool { return a.name == words[0] })
	if at < 0 {
		var names []string
		for _, a := range all {
			names = append(names, a.name)
		}
		return a, nil, fmt.Errorf("no action is called %q; there are %s", words[0], strings.Join(names, ", "))
	}
	a, args = all[at], words[1:]
	if len(args) != len(a.args) {
		return a, nil, fmt.Errorf("want: %s", strings.Join(append([]string{a.name}, a.args...), " "))
	}
	for i, want := range a.args {
		if err := checkWord(want, args[i]); err != nil {
			return a, nil, fmt.Errorf("%s: %w", a.name, err)
		}
	}
	return a, args, nil
}

// checkWord checks a word of an action.
func checkWord(want, word string) error {
	switch want {
	case "NAME":
		_, err := hello.NewKey(word, locale)
		return err
	case "DURATION":
		if d, err := time.ParseDuration(word); err != nil || d < 0 || d > maxOriginLatency {
			return fmt.Errorf("%q is no duration from 0s to %v", word, maxOriginLatency)
		}
	case "NUMBER":
		if n, err := strconv.Atoi(word); err != nil || n < 1 || n > maxRate {
			return fmt.Errorf("%q is no number from 1 to %d", word, maxRate)
		}
	default:
		if !slices.Contains(strings.Split(want, "|"), word) {
			return fmt.Errorf("%q is none of %s", word, strings.ReplaceAll(want, "|", ", "))
		}
	}
	return nil
}

// Do does an action, such as "break l2", and returns a sentence about the result. Actions are
// done one after the other. A bad text changes nothing.
func (s *Stage) Do(ctx context.Context, text string) (said string, err error) {
	a, args, err := parse(text)
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	// A person and a script may act at once. Two actions at a time, such as restarts, would tell of
	// each other's effects.
	s.one.Lock()
	defer s.one.Unlock()
	said, err = a.do(s, ctx, args)
	if err != nil {
		said = err.Error()
	}
	// A failed action is marked, too: it explains the chart from here on.
	s.mark(strings.Join(append([]string{a.name}, args...), " "), said)
	return said, err
}

func (s *Stage) changeMode(_ context.Context, args []string) (string, error) {
	s.load.crowd.leave() // without a cache, or with another one, it would be a load of its own kind
	for _, service := range s.instances {
		if err := service.SetMode(hello.Mode(args[0])); err != nil {
			return "", err
		}
	}
	return map[string]string{
		"none":   "Each request is a query of the origin.",
		"naive":  "Each instance has a map with deadlines: no shared loads, no L2, no bus.",
		"strata": "Each instance has a strata cache: L1, the shared L2, and the bus.",
	}[args[0]], nil
}

// expire makes all greetings stale, or absent in the mode naive, whose maps know nothing stale.
func (s *Stage) expire(ctx context.Context, _ []string) (string, error) {
	// A cache of strata tells the other instance; maps are expired one by one.
	for _, service := range s.instances {
		err := service.Drop(ctx, hello.Key{}, true)
		if err != nil {
			return "", err
		}
		if service.Mode() == hello.Strata {
			return "Every greeting is stale on both instances and in L2.", nil
		}
	}
	return "Every greeting is gone from the memory of both instances.", nil
}

// invalidate drops one greeting by instance A, so that a person sees whether B hears of it.
func (s *Stage) invalidate(ctx context.Context, args []string) (string, error) {
	key, err := hello.NewKey(args[0], locale)
	if err != nil {
		return "", err
	}
	if err = s.instances[0].Drop(ctx, key, false); err != nil {
		return "", err
	}
	switch s.instances[0].Mode() {
	case hello.Strata:
		said := args[0] + " is invalidated, and L2 has confirmed that."
		if s.bus.isBroken() {
			said += " Instance B hears of it when the bus is mended, or when it has been silent for too long."
		}
		return said, nil
	case hello.Naive:
		return args[0] + " is gone from the map of instance A. Instance B is not told.", nil
	}
	return "There is no cache from which it could be dropped.", nil
}

func (s *Stage) watch(_ context.Context, args []string) (string, error) {
	key, err := hello.NewKey(args[0], locale)
	if err != nil {
		return "", err
	}
	s.origin.watch(key)
	return args[0] + " is watched.", nil
}

// breaks returns the action that breaks a part, or mends it.
func breaks(broken bool) func(*Stage, context.Context, []string) (string, error) {
	return func(s *Stage, _ context.Context, args []string) (string, error) {
		switch args[0] {
		case "l2":
			s.l2.set(broken)
		case "bus":
			s.bus.set(broken)
		default:
			s.origin.broken.Store(broken)
		}
		part := map[string]string{"l2": "L2", "bus": "The bus", "origin": "The origin"}[args[0]]
		if broken {
			return part + " is broken.", nil
		}
		return part + " is mended.", nil
	}
}

// slow sets the time added to each query. It replaces the one before.
func (s *Stage) slow(_ context.Context, args []string) (string, error) {
	d, err := time.ParseDuration(args[0])
	if err != nil {
		return "", err
	}
	s.origin.latency.Store(int64(d))
	return fmt.Sprintf("Each query of the origin takes %v longer than the database.", d), nil
}

func (s *Stage) restart(ctx context.Context, args []string) (string, error) {
	i := slices.Index([]string{"a", "b"}, args[0])
	name := instanceNames[i]
	r, err := s.instances[i].Restart(ctx, hello.Start(args[1]))
	if err != nil {
		return "", fmt.Errorf("instance %s: %w", name, err)
	}
	if hello.Start(args[1]) == hello.Cold {
		return "Instance " + name + " has restarted with an empty memory.", nil
	}
	return fmt.Sprintf("Instance %s has restarted with %d greetings, by %s, in %v.", name, r.Warm(), args[1], observe.RoundDuration(r.Took)), nil
}

// changeFill fills the memory with reports, or drops them.
func (s *Stage) changeFill(ctx context.Context, args []string) (string, error) {
	if args[0] == "on" {
		s.reports.Fill(fillRate)
		return fmt.Sprintf("Reports are stored, %s a second, and nothing reads them. Greetings and reports have one guard.", humanize.IBytes(fillRate)), nil
	}
	m := s.reports.Memory()
	if err := s.reports.Clear(ctx); err != nil {
		return "", err
	}
	return fmt.Sprintf("The reports are dropped. %s of them were stored so far, and the guard has evicted %d reports and %d greetings.",
		humanize.IBytes(uint64(m.Stored)), m.Reports, m.Evicted-m.Reports), nil
}

func (s *Stage) changeRate(_ context.Context, args []string) (string, error) {
	n, err := strconv.Atoi(args[0])
	if err != nil {
		return "", err
	}
	// The load takes it up with its next tick.
	s.load.rate.Store(int64(n))
	return fmt.Sprintf("%d requests a second are sent.", n), nil
}
