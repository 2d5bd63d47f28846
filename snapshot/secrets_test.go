package snapshot_test

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/strata-cache/strata"
	"github.com/strata-cache/strata/snapshot"
)

// TestNoErrorAndNoLogOfPullHasAValueOrASecret has a proxy between the instances that changes the type or the
// status of answers, and URLs with a password or a token.
func TestNoErrorAndNoLogOfPullHasAValueOrASecret(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		from := alone(t, "users", 100)
		if err := from.Set(t.Context(), "hunter2", "hunter2"); err != nil {
			t.Fatal(err)
		}
		whole := snapshot.Handler(snapshot.HandlerOptions{Authorize: anyone}, from)
		// sends returns an answer with another type and another status, and all entries.
		sends := func(kind string, status int) http.HandlerFunc {
			return func(w http.ResponseWriter, r *http.Request) { whole.ServeHTTP(&changed{w, kind, status}, r) }
		}
		answers := map[string]http.Handler{
			"another type":            sends("application/octet-stream", 0),
			"no type":                 sends("", 0),
			"another status":          sends("", http.StatusBadGateway),
			"a text of another error": http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "hunter2", 500) }),
			"no answer":               nil,
		}
		for name, answer := range answers {
			client := &http.Client{Transport: &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) { return nil, net.ErrClosed }}}
			if answer != nil {
				client = serve(t, answer)
			}
			for _, url := range []string{
				"http://instance/?token=hunter2", "http://user:hunter2@instance/", "http://user:hunter2/x@instance", "http://user:hunter2#x@instance",
				"http://user:hunter2?x@instance", "http://user:hunter2%zz@instance", "http://user:hunter2@instance:port", "user:hunter2@instance", "http://instance/#hunter2",
			} {
				var log strings.Builder
				c := alone(t, "users", 0, func(o *strata.Options[string, string]) { o.Logger = slog.New(slog.NewTextHandler(&log, nil)) })
				_, err := snapshot.Pull(t.Context(), url, snapshot.Options{Client: client}, c)
				if err == nil || strings.Contains(err.Error(), "hunter2") || strings.Contains(log.String(), "hunter2") || !strings.Contains(log.String(), "\n") {
					t.Errorf("%s, %s: %v\n%s", name, url, err, log.String())
				}
			}
		}
	})
}

// TestHandlerRepeatsNoQuery asks with secrets as parameters, the wrong place for
// them.
func TestHandlerRepeatsNoQuery(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := serve(t, snapshot.Handler(snapshot.HandlerOptions{Authorize: anyone}, alone(t, "users", 1)))
		for _, name := range []string{"mode", "max", "of", "stream", "id", "query"} {
			r, err := client.Get("http://instance/?" + name + "=hunter2" + map[bool]string{true: "%zz&x;y"}[name == "query"])
			if err != nil {
				t.Fatal(err)
			}
			text, err := io.ReadAll(r.Body)
			_ = r.Body.Close()
			if err != nil || r.StatusCode != http.StatusBadRequest || strings.Contains(string(text), "hunter2") || !strings.Contains(string(text), name) {
				t.Errorf("%s: status %d, %q, %v", name, r.StatusCode, text, err)
			}
		}
	})
}

// TestPullSendsHostAndQueryAsTheyAre: a proxy may choose the instance by the host, and a query without its parameters is
// another request.
func TestPullSendsHostAndQueryAsTheyAre(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		whole, host := snapshot.Handler(snapshot.HandlerOptions{Authorize: anyone}, alone(t, "users", 1)), ""
		client := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			host = r.Host
			whole.ServeHTTP(w, r)
		}))
		o := snapshot.Options{Client: client, Streams: 1, Header: http.Header{"Host": {"instance-7"}}}
		if r, err := snapshot.Pull(t.Context(), at, o, alone(t, "users", 0)); err != nil || host != "instance-7" {
			t.Errorf("%+v, %v, from %q", r, err, host)
		}
		host = ""
		if r, err := snapshot.Pull(t.Context(), at+"?token=hunter2;x", o, alone(t, "users", 0)); err == nil || strings.Contains(err.Error(), "hunter2") || host != "" {
			t.Errorf("%+v, %v, from %q", r, err, host)
		}
	})
}

// changed is an answer with another type, and another status unless status is zero.
type changed struct {
	http.ResponseWriter
	kind   string
	status int
}

func (c *changed) WriteHeader(status int) {
	c.Header()["Content-Type"] = []string{c.kind}
	if c.status != 0 {
		status = c.status
	}
	c.ResponseWriter.WriteHeader(status)
}

func (c *changed) Write(b []byte) (int, error) {
	if c.Header().Get("Content-Type") != c.kind {
		c.WriteHeader(http.StatusOK)
	}
	return c.ResponseWriter.Write(b)
}

// Unwrap is for http.ResponseController.
func (c *changed) Unwrap() http.ResponseWriter { return c.ResponseWriter }
