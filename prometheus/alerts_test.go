package strataprom_test

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v2"

	"github.com/strata-cache/strata"
)

// alert is an alert rule.
type alert struct {
	Alert, Expr, For    string
	Labels, Annotations map[string]string
}

// readAlerts returns the rules of alerts.yml.
func readAlerts(t testing.TB) (all []alert) {
	t.Helper()
	var file struct{ Groups []struct{ Rules []alert } }
	if err := yaml.Unmarshal(readFile(t, "alerts.yml"), &file); err != nil {
		t.Fatal(err)
	}
	for _, g := range file.Groups {
		all = append(all, g.Rules...)
	}
	return all
}

// ruleTest is a test of alerts_test.yml.
type ruleTest struct {
	Name   string
	Series []struct{ Series string } `yaml:"input_series"`
	Expect []struct {
		At     string `yaml:"eval_time"`
		Alert  string `yaml:"alertname"`
		Alerts []any  `yaml:"exp_alerts"`
	} `yaml:"alert_rule_test"`
}

func TestAlertRulesFireAndStayQuiet(t *testing.T) {
	promtool := program(t, "promtool")
	run(t, nil, promtool, "check", "rules", filepath.Join(dashboards, "alerts.yml"))
	run(t, nil, promtool, "check", "config", filepath.Join(dashboards, "prometheus.yml"))
	run(t, nil, promtool, "test", "rules", filepath.Join(dashboards, "alerts_test.yml"))
}

func TestEveryAlertIsTestedBothWays(t *testing.T) {
	var file struct{ Tests []ruleTest }
	if err := yaml.Unmarshal(readFile(t, "alerts_test.yml"), &file); err != nil {
		t.Fatal(err)
	}
	alerts := readAlerts(t)
	for _, a := range alerts {
		for _, lack := range untested(a.Alert, file.Tests) {
			t.Errorf("%s: no test in which %s", a.Alert, lack)
		}
	}
	if len(alerts) != 18 {
		t.Errorf("%d alerts are found", len(alerts))
	}
	if lacks := untested("None", file.Tests); len(lacks) != 4 {
		t.Errorf("an alert without tests lacks only %q", lacks)
	}
}

// untested returns the cases that the tests leave out of one alert.
func untested(name string, tests []ruleTest) (lacks []string) {
	early, several, quiet, severalQuiet := false, false, false, false
	for _, test := range tests {
		fires, before := false, false
		for _, e := range test.Expect {
			switch {
			case e.Alert != name:
			case len(e.Alerts) == 0 && !fires:
				before = true
			case len(e.Alerts) > 0:
				fires, early = true, early || before
			}
		}
		many := instances(test) >= 3
		quiet = quiet || before && !fires
		several = several || fires && many
		severalQuiet = severalQuiet || before && !fires && many
	}
	for lack, ok := range map[string]bool{
		"it is quiet first and fires later": early, "it stays quiet": quiet,
		"it fires with three or more instances": several, "it stays quiet with three or more instances": severalQuiet,
	} {
		if !ok {
			lacks = append(lacks, lack)
		}
	}
	return lacks
}

// instances counts the instances of a test.
func instances(test ruleTest) int {
	found := map[string]bool{}
	for _, s := range test.Series {
		found[regexp.MustCompile(`instance="[^"]*"`).FindString(s.Series)] = true
	}
	return len(found)
}

// optionNames returns the names of all options, and of their fields.
func optionNames() map[string]bool {
	names := map[string]bool{}
	var add func(of reflect.Type)
	add = func(of reflect.Type) {
		for f := range of.Fields() {
			if f.IsExported() {
				names[f.Name] = true
			}
			if f.Type.Kind() == reflect.Struct {
				add(f.Type)
			}
		}
	}
	add(reflect.TypeFor[strata.Options[string, int]]())
	names["UnconfirmedTTL"] = true
	return names
}

func TestAlertsAreForOperators(t *testing.T) {
	options := optionNames()
	if !options["MaxEntries"] || !options["OnError"] || !options["TTL"] {
		t.Fatalf("names of options are missing: %v", slices.Sorted(maps.Keys(options)))
	}
	for _, a := range readAlerts(t) {
		if s := a.Labels["severity"]; s != "critical" && s != "warning" {
			t.Errorf("%s: severity is %q", a.Alert, s)
		}
		if p := a.Labels["part"]; !slices.Contains([]string{"origin", "L2", "memory", "program"}, p) {
			t.Errorf("%s: part is %q", a.Alert, p)
		}
		for _, name := range []string{"summary", "description"} {
			text := a.Annotations[name]
			if text == "" {
				t.Errorf("%s has no %s", a.Alert, name)
			}
			for _, word := range regexp.MustCompile(`[A-Za-z]\w*`).FindAllString(text, -1) {
				if options[word] {
					t.Errorf("%s: the %s has the name of an option, %s", a.Alert, name, word)
				}
			}
		}
		if err := checkRunbook(a); err != nil {
			t.Errorf("%s: %v", a.Alert, err)
		}
	}
}

// checkRunbook looks for the heading to which an alert leads, and for its four parts.
func checkRunbook(a alert) error {
	const tree = "https://github.com/strata-cache/strata/blob/main/"
	link, ok := strings.CutPrefix(a.Annotations["runbook_url"], tree)
	file, anchor, _ := strings.Cut(link, "#")
	if !ok || anchor != strings.ToLower(a.Alert) {
		return fmt.Errorf("runbook_url is %q", a.Annotations["runbook_url"])
	}
	page, err := os.ReadFile(path.Join("..", file))
	if err != nil {
		return err
	}
	_, section, ok := strings.Cut(string(page), "\n## "+a.Alert+"\n")
	if !ok {
		return fmt.Errorf("%s has no heading ## %s", file, a.Alert)
	}
	section, _, _ = strings.Cut(section, "\n## ")
	for _, part := range []string{"**Symptom.**", "**Callers.**", "**Look.**", "**Do.**"} {
		if !strings.Contains(section, part) {
			return fmt.Errorf("%s: the section of %s has no %s", file, a.Alert, part)
		}
	}
	return nil
}

// labelSet has the labels of an alert. Routes and inhibitions look at them.
type labelSet map[string]string

// match reports whether labels satisfy all matchers, which are NAME = "X" or NAME =~ "X".
func match(t *testing.T, matchers []string, l labelSet) bool {
	t.Helper()
	for _, m := range matchers {
		p := regexp.MustCompile(`^(\w+) (=~?) "(.*)"$`).FindStringSubmatch(m)
		if p == nil {
			t.Fatalf("matcher %q", m)
		}
		if p[2] == "=" && l[p[1]] != p[3] || p[2] == "=~" && !regexp.MustCompile("^(?:"+p[3]+")$").MatchString(l[p[1]]) {
			return false
		}
	}
	return true
}

// inhibition says which alerts are silent while another one fires.
type inhibition struct {
	Source []string `yaml:"source_matchers"`
	Target []string `yaml:"target_matchers"`
	Equal  []string
}

// routing is alertmanager.yml.
type routing struct {
	Route struct {
		Receiver string
		Routes   []struct {
			Matchers []string
			GroupBy  []string `yaml:"group_by"`
			Wait     string   `yaml:"group_wait"`
			Interval string   `yaml:"group_interval"`
			Repeat   string   `yaml:"repeat_interval"`
			Routes   []struct {
				Matchers []string
				Receiver string
			}
		}
	}
	Inhibit   []inhibition `yaml:"inhibit_rules"`
	Receivers []struct{ Name string }
}

// heard returns the alerts that no other one inhibits.
func (r *routing) heard(t *testing.T, all []labelSet) (heard []labelSet) {
	for _, target := range all {
		if !slices.ContainsFunc(all, func(source labelSet) bool {
			return slices.ContainsFunc(r.Inhibit, func(i inhibition) bool {
				return match(t, i.Source, source) && match(t, i.Target, target) &&
					!slices.ContainsFunc(i.Equal, func(l string) bool { return source[l] != target[l] })
			})
		}) {
			heard = append(heard, target)
		}
	}
	return heard
}

func TestOneDeadPartIsOneNotification(t *testing.T) {
	if amtool, err := exec.LookPath("amtool"); err == nil {
		run(t, nil, amtool, "check-config", filepath.Join(dashboards, "alertmanager.yml"))
	}
	var r routing
	if err := yaml.UnmarshalStrict(readFile(t, "alertmanager.yml"), &r); err != nil {
		t.Fatal(err)
	}
	rules := map[string]alert{}
	for _, a := range readAlerts(t) {
		rules[a.Alert] = a
	}
	labels := func(name, cache string) labelSet {
		if rules[name].Alert == "" {
			t.Fatalf("there is no alert %s", name)
		}
		return labelSet{"alertname": name, "job": "api", "cache": cache, "severity": rules[name].Labels["severity"], "part": rules[name].Labels["part"]}
	}
	strataRoute := r.Route.Routes[0]
	for name := range rules {
		if !match(t, strataRoute.Matchers, labels(name, "users")) {
			t.Errorf("%s has no route", name)
		}
	}
	receivers := []string{r.Route.Receiver}
	for _, sub := range strataRoute.Routes {
		receivers = append(receivers, sub.Receiver)
	}
	for _, name := range receivers {
		if !slices.ContainsFunc(r.Receivers, func(x struct{ Name string }) bool { return x.Name == name }) {
			t.Errorf("the receiver %s is not defined", name)
		}
	}
	for _, i := range r.Inhibit { // each name must be of an alert
		for _, m := range append(i.Source, i.Target...) {
			for _, name := range regexp.MustCompile(`Strata\w+`).FindAllString(m, -1) {
				labels(name, "")
			}
		}
	}
	caches := []string{"users", "products", "prices"}
	for _, c := range []struct{ fire, want []string }{
		{[]string{"StrataL2BreakerOpen", "StrataBusDown", "StrataBusGaps", "StrataInvalidationsStuck", "StrataL1HitRatioLow", "StrataL2Full"}, []string{"StrataL2BreakerOpen"}},
		{[]string{"StrataOriginDown", "StrataLoadsFail", "StrataStaleOnError", "StrataLoadsSlow", "StrataOverloaded"}, []string{"StrataOriginDown"}},
		{[]string{"StrataLoadsFail", "StrataStaleOnError"}, []string{"StrataLoadsFail"}},
		{[]string{"StrataL2BreakerOpen", "StrataOriginDown"}, []string{"StrataL2BreakerOpen", "StrataOriginDown"}},
	} {
		var all []labelSet
		for _, cache := range caches {
			for _, name := range c.fire {
				all = append(all, labels(name, cache))
			}
		}
		groups, names := map[string]bool{}, map[string]int{}
		for _, l := range r.heard(t, all) {
			var group []string
			for _, by := range strataRoute.GroupBy {
				group = append(group, l[by])
			}
			groups[strings.Join(group, "/")], names[l["alertname"]] = true, names[l["alertname"]]+1
		}
		if got := slices.Sorted(maps.Keys(names)); !slices.Equal(got, c.want) || len(groups) != len(c.want) {
			t.Errorf("of %q are heard %v in the groups %v, want %q, each in one", c.fire, names, groups, c.want)
		}
	}
	// An alert of one cache silences none of another one.
	if n := len(r.heard(t, []labelSet{labels("StrataL2BreakerOpen", "users"), labels("StrataBusDown", "products")})); n != 2 {
		t.Errorf("%d of two alerts of two caches are heard", n)
	}
}
