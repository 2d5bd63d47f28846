package strataprom_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v2"

	"github.com/strata-cache/strata/internal/testing/coherence/lab"
	strataprom "github.com/strata-cache/strata/prometheus"
	"github.com/strata-cache/strata/redis"
)

// dashboards is the folder of the files for Grafana and Prometheus.
const dashboards = "../dashboards"

func readFile(t testing.TB, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dashboards, name))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// query is one question of a panel.
type query struct{ Expr string }

// panel is a panel of the dashboard; a row is one, too.
type panel struct {
	ID                       int
	Type, Title, Description string
	GridPos                  struct{ X, Y, W, H int }
	Targets                  []query
}

// readPanels returns the panels of grafana.json.
func readPanels(t testing.TB) (panels []panel) {
	t.Helper()
	var file struct{ Panels []panel }
	if err := json.Unmarshal(readFile(t, "grafana.json"), &file); err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(file.Panels, func(p panel) bool { return p.Type == "row" })
}

func TestQueriesNameMetricsAndLabelsThatExist(t *testing.T) {
	source, _ := lab.NumberedCache("users")
	labels := map[string][]string{} // of each name that a query may have
	for name, f := range gather(t, registry(t, source)) {
		var of []string
		for _, l := range f.Metric[0].Label {
			of = append(of, l.GetName())
		}
		labels[name] = of
		if f.Metric[0].Histogram != nil {
			labels[name+"_bucket"], labels[name+"_count"] = append(of, "le"), of
		}
	}
	check := func(where, expr string) {
		found := regexp.MustCompile(`(strata_\w+)(?:\{([^}]*)\})?`).FindAllStringSubmatch(expr, -1)
		if len(found) == 0 {
			t.Errorf("%s names no metric", where)
		}
		for _, m := range found {
			have, ok := labels[m[1]]
			if !ok {
				t.Errorf("%s: there is no metric %s", where, m[1])
			}
			for _, l := range regexp.MustCompile(`(\w+)(?:=~|!=|=)"`).FindAllStringSubmatch(m[2], -1) {
				if !slices.Contains(append(have, "job", "instance"), l[1]) {
					t.Errorf("%s: %s has no label %s", where, m[1], l[1])
				}
			}
		}
	}
	for _, a := range readAlerts(t) {
		check(a.Alert, a.Expr)
	}
	for _, p := range readPanels(t) {
		for _, q := range p.Targets {
			check(p.Title, q.Expr)
		}
	}
}

// TestAlertsAndPanelsTellServicesApart: caches of two services may have one name in one program. A sum
// over both is about neither.
func TestAlertsAndPanelsTellServicesApart(t *testing.T) {
	grouped, chosen := 0, 0
	check := func(where, expr string, menus bool) {
		for _, m := range regexp.MustCompile(`(?:by|on|without|ignoring) \(([^()]*)\)`).FindAllStringSubmatch(expr, -1) {
			if labels := regexp.MustCompile(`\w+`).FindAllString(m[1], -1); slices.Contains(labels, "cache") {
				if grouped++; !slices.Contains(labels, "cache_service") {
					t.Errorf("%s: %s takes caches of two services for one", where, m[0])
				}
			}
		}
		for _, m := range regexp.MustCompile(`\{([^}]*)\}`).FindAllStringSubmatch(expr, -1) {
			if !menus || !strings.Contains(m[1], "cache=~") {
				continue
			}
			if chosen++; !strings.Contains(m[1], `cache_service=~"$service"`) {
				t.Errorf("%s: the menu of services is not heeded by {%s}", where, m[1])
			}
		}
	}
	for _, a := range readAlerts(t) {
		check(a.Alert, a.Expr, false)
	}
	for _, p := range readPanels(t) {
		for _, q := range p.Targets {
			check(p.Title, q.Expr, true)
		}
	}
	if grouped < 50 || chosen < 30 {
		t.Errorf("only %d groups and %d choices are found", grouped, chosen)
	}
	var r routing
	if err := yaml.UnmarshalStrict(readFile(t, "alertmanager.yml"), &r); err != nil {
		t.Fatal(err)
	}
	for _, i := range r.Inhibit {
		if !slices.Contains(i.Equal, "cache_service") {
			t.Errorf("an alert of one service silences %q of another one", i.Target)
		}
	}
}

func TestDashboardHasFourteenPanelsThatDoNotOverlap(t *testing.T) {
	panels, taken, ids := readPanels(t), map[string]string{}, map[int]bool{}
	if len(panels) != 14 {
		t.Errorf("%d panels", len(panels))
	}
	for _, p := range panels {
		if p.Title == "" || p.Description == "" || len(p.Targets) == 0 || ids[p.ID] {
			t.Errorf("panel %d %q has no title, no description, no queries, or the id of another one", p.ID, p.Title)
		}
		ids[p.ID] = true
		g := p.GridPos
		if g.X+g.W > 24 || g.W*g.H == 0 {
			t.Errorf("%s is outside: %+v", p.Title, g)
		}
		for i := range g.W * g.H {
			at := fmt.Sprint(g.X+i%g.W, " ", g.Y+i/g.W)
			if other, ok := taken[at]; ok {
				t.Fatalf("%s lies over %s", p.Title, other)
			}
			taken[at] = p.Title
		}
	}
}

func TestComposeFilesExistAndOpenPortsToThisMachineOnly(t *testing.T) {
	type build struct{ Context, Dockerfile string }
	var file struct {
		Services map[string]struct {
			Image          string
			Build          *build
			Volumes, Ports []string
		}
	}
	if err := yaml.Unmarshal(readFile(t, "compose.yaml"), &file); err != nil {
		t.Fatal(err)
	}
	if len(file.Services) != 7 {
		t.Errorf("%d services", len(file.Services))
	}
	exists := func(name string) {
		if _, err := os.Stat(name); err != nil {
			t.Error(err)
		}
	}
	for name, s := range file.Services {
		if (s.Image == "") == (s.Build == nil) {
			t.Errorf("%s: want an image or a build", name)
		}
		if s.Build != nil {
			exists(filepath.Join(dashboards, s.Build.Context, s.Build.Dockerfile))
		}
		for _, v := range s.Volumes {
			from, _, _ := strings.Cut(v, ":")
			exists(filepath.Join(dashboards, from))
		}
		for _, p := range s.Ports {
			if !strings.HasPrefix(p, "127.0.0.1:") {
				t.Errorf("%s: the port %s is open to others", name, p)
			}
		}
	}
	for _, name := range []string{"provisioning/datasources.yml", "provisioning/dashboards.yml", "prometheus.yml"} {
		var any map[string]any
		if err := yaml.UnmarshalStrict(readFile(t, name), &any); err != nil || len(any) == 0 {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestGuideExplainsEveryMetric(t *testing.T) {
	source, _ := lab.NumberedCache("users")
	reg := registry(t, source)
	reg.MustRegister(strataprom.NewPoolCollector("redis", func() redis.Stats { return redis.Stats{} }))
	all := gather(t, reg)
	page, err := os.ReadFile("../docs/guide/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	explained := map[string]bool{}
	for _, row := range regexp.MustCompile("(?m)^\\| (`.*`) \\|").FindAllStringSubmatch(string(page), -1) {
		for _, name := range regexp.MustCompile("`(\\w+)`").FindAllStringSubmatch(row[1], -1) {
			explained[name[1]] = true
			if all[name[1]] == nil {
				t.Errorf("the page explains %s, which does not exist", name[1])
			}
		}
	}
	for name, f := range all {
		if !explained[name] {
			t.Errorf("the page does not explain %s", name)
		}
		for _, l := range f.Metric[0].Label {
			if n := l.GetName(); n != "cache" && n != "cache_service" && n != "pool" && !regexp.MustCompile("(?m)^.*`"+name+"`.*\\b"+n+"\\b.*$").Match(page) {
				t.Errorf("the page does not name the label %s of %s", n, name)
			}
		}
	}
}
