package test

import (
	"context"
	"flag"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/strata-cache/strata/internal/testing/fakes"
	"github.com/strata-cache/strata/internal/testing/servers"
	"github.com/strata-cache/strata/redis"
)

var rerecord = flag.Bool("record", false, "write what a real server says to redis/testdata")

const conversations = "../redis/testdata/conversations"

// TestRecordedConversationsEqualThoseOfARealServer plays them with a real server,
// and compares the results of the client with the recorded ones.
func TestRecordedConversationsEqualThoseOfARealServer(t *testing.T) {
	for _, p := range fakes.Plays() {
		t.Run(p.Name, func(t *testing.T) {
			server := servers.StartRedis(t)
			if p.Prepare != nil {
				if err := p.Prepare(t.Context(), server.Client(t)); err != nil {
					t.Fatal(err)
				}
			}
			var r fakes.Recorder
			c := server.Client(t, func(o *redis.Options) {
				o.DialContext = r.Dial
				if p.Change != nil {
					p.Change(o)
				}
			})
			var results []string
			p.Run(func(f func(context.Context) (string, error)) {
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
				defer cancel()
				result, err := f(ctx)
				if err != nil {
					t.Errorf("call %d: %v", len(results), err)
				}
				results = append(results, fakes.Short(result))
			}, c)
			got := r.Conversation()
			got.Results = results
			if *rerecord {
				if err := os.MkdirAll(conversations, 0o755); err != nil {
					t.Fatal(err)
				}
				if err := got.Write(conversations, p.Name); err != nil {
					t.Fatal(err)
				}
				return
			}
			was, err := fakes.Read(conversations, p.Name)
			if err != nil {
				t.Fatal(err)
			}
			if strings.Join(got.Results, "\n") != strings.Join(was.Results, "\n") {
				t.Errorf("got  %q\nwas  %q", got.Results, was.Results)
			}
		})
	}
}
