// Runs a Prometheus for tests.

package servers

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"syscall"
	"testing"
)

// A Server is a process of Prometheus.
type Server struct{ url string }

// short makes the rules of a file quick: an alert fires after one second, a minute or two in a
// condition becomes two seconds, and rules are evaluated at the interval of the server.
func short(rules []byte) []byte {
	for _, r := range []struct{ old, quick string }{
		{`(?m)^( +)for: .*$`, "${1}for: 1s"}, {`(?m)^ +interval: .*\n`, ""}, {`\[[12]m\]`, "[2s]"}, {`offset [12]m`, "offset 2s"},
	} {
		rules = regexp.MustCompile(r.old).ReplaceAll(rules, []byte(r.quick))
	}
	return rules
}

// StartPrometheus starts a Prometheus that scrapes addr five times a second, with the alert rules of the
// file alerts. Seconds stand for the minutes in the file. If prometheus, which is in Debian's
// package of that name, is not installed, it skips the test.
func StartPrometheus(t testing.TB, alerts, addr string, flags ...string) *Server {
	t.Helper()
	path, err := exec.LookPath("prometheus")
	if err != nil {
		t.Skip("prometheus is not installed")
	}
	rules, err := os.ReadFile(alerts)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	config := fmt.Sprintf(`
global: {scrape_interval: 200ms, scrape_timeout: 200ms, evaluation_interval: 200ms}
rule_files: [alerts.yml]
scrape_configs: [{job_name: test, static_configs: [{targets: [%q]}]}]
`, addr)
	for name, data := range map[string]string{"alerts.yml": string(short(rules)), "prometheus.yml": config} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(data), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var lc net.ListenConfig
	l, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	listen := l.Addr().String()
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(path, append(flags, "--config.file", filepath.Join(dir, "prometheus.yml"),
		"--storage.tsdb.path", filepath.Join(dir, "data"), "--web.listen-address", listen)...)
	cmd.Stdout, cmd.Stderr, cmd.SysProcAttr = log, log, &syscall.SysProcAttr{}
	DieWithParent(cmd.SysProcAttr)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // may have ended
		_ = cmd.Wait()         // was killed
		if data, err := os.ReadFile(log.Name()); err == nil && t.Failed() {
			t.Logf("%s", data)
		}
		log.Close()
	})
	return &Server{"http://" + listen}
}

// get asks the server, and reports whether it has answered.
func (s *Server) get(ctx context.Context, path string, v any) (ok bool) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url+path, nil)
	if err != nil {
		return false
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return false
	}
	defer answer.Body.Close()
	return answer.StatusCode == http.StatusOK && json.NewDecoder(answer.Body).Decode(v) == nil
}

// Has reports whether the answer to a query has a number.
func (s *Server) Has(ctx context.Context, expr string) bool {
	var answer struct {
		Data struct {
			Result []struct {
				Value     [2]any
				Histogram []any
			}
		}
	}
	if !s.get(ctx, "/api/v1/query?query="+url.QueryEscape(expr), &answer) {
		return false
	}
	for _, r := range answer.Data.Result {
		if n, ok := r.Value[1].(string); ok && n != "NaN" || r.Histogram != nil {
			return true
		}
	}
	return false
}

// Firing returns the alerts that fire.
func (s *Server) Firing(ctx context.Context) map[string]bool {
	var answer struct {
		Data struct {
			Alerts []struct {
				Labels map[string]string
				State  string
			}
		}
	}
	all := map[string]bool{}
	s.get(ctx, "/api/v1/alerts", &answer)
	for _, a := range answer.Data.Alerts {
		if a.State == "firing" {
			all[a.Labels["alertname"]] = true
		}
	}
	return all
}
