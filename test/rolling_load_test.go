package test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/strata-cache/strata/internal/testing/servers"
)

// The load on a service during a roll.
const (
	places  = 3  // of instances
	prices  = 60 // keys
	clients = 6  // callers that read
	writers = 3  // callers that each change keys of their own
)

// priceList has the prices of the origin, each with the number of its changes as the value.
type priceList struct {
	loads atomic.Int64
	mu    sync.Mutex // guards value
	value [prices]int
}

// ServeHTTP answers a load.
func (p *priceList) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var i int
	if _, err := fmt.Sscanf(r.FormValue("key"), "price%d", &i); err != nil || i < 0 || i >= prices {
		http.Error(w, "no such price", http.StatusNotFound)
		return
	}
	p.loads.Add(1)
	value := p.now(i)
	<-time.After(2 * time.Millisecond) // loads last as long as drops, so that they meet
	fmt.Fprint(w, priceText(i, value))
}

func (p *priceList) now(i int) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.value[i]
}

func (p *priceList) change(i int) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.value[i]++
	return p.value[i]
}

func priceText(i, value int) string { return fmt.Sprintf("price%d is %d", i, value) }

// serviceInstance is a process of the service.
type serviceInstance struct {
	version string
	addr    string
	in      io.Closer
	cmd     *exec.Cmd
	read    [prices]atomic.Int64 // the least value that a read that begins now must have
}

// rolling is a service of some instances that are replaced one by one under load.
type rolling struct {
	t        *testing.T
	redis    string
	origin   *priceList
	url      string            // of the origin
	programs map[string]string // by version
	client   *http.Client

	mu     sync.RWMutex // guards places: writers of it wait for the requests to an instance
	places [places]*serviceInstance

	reads, changes, drops, wrong atomic.Int64
}

// start starts an instance of a version, and waits until its bus is connected.
func (r *rolling) start(version string) *serviceInstance {
	r.t.Helper()
	cmd := exec.CommandContext(context.WithoutCancel(r.t.Context()), r.programs[version], r.redis, r.url)
	in, err1 := cmd.StdinPipe()
	out, err2 := cmd.StdoutPipe()
	cmd.Stderr = os.Stderr
	if err := errors.Join(err1, err2, cmd.Start()); err != nil {
		r.t.Fatal(err)
	}
	i := &serviceInstance{version: version, in: in, cmd: cmd}
	lines := bufio.NewScanner(out)
	if !lines.Scan() {
		r.t.Fatalf("the service does not start: %v", lines.Err())
	}
	i.addr = lines.Text()
	eventually(r.t, "connected", func() bool {
		s, err := r.do(i, "/stats", "", "")
		return err == nil && strings.HasPrefix(s, "true ")
	})
	return i
}

// stop ends an instance, which must have had no trouble.
func (r *rolling) stop(i *serviceInstance) {
	r.t.Helper()
	if i == nil {
		return
	}
	if s, err := r.do(i, "/stats", "", ""); err != nil || s != "true 0 0 0" {
		r.t.Errorf("%s: connected, foreign values, errors of L2, gaps: %s, %v", i.version, s, err)
	}
	_ = i.in.Close()
	if err := i.cmd.Wait(); err != nil {
		r.t.Errorf("%s: %v", i.version, err)
	}
}

// do sends a request to an instance.
func (r *rolling) do(i *serviceInstance, path, key, value string) (string, error) {
	resp, err := r.client.PostForm("http://"+i.addr+path, url.Values{"key": {key}, "value": {value}})
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = errors.New(string(b))
	}
	return string(b), err
}

// replace puts an instance of a version in the place of another one, while the load goes on.
func (r *rolling) replace(place int, version string) {
	r.t.Helper()
	fresh := r.start(version)
	r.mu.Lock()
	old := r.places[place]
	r.places[place] = fresh
	r.mu.Unlock()
	r.stop(old)
}

// read reads a price from an instance, and counts a wrong one: of another key, one that the
// origin has not had yet, or one older than a value that the instance has had or was told of.
func (r *rolling) read(i *serviceInstance, k int) int {
	least := int(i.read[k].Load())
	text, err := r.do(i, "/get", fmt.Sprint("price", k), "")
	now := r.origin.now(k)
	value := -1
	if n, scanErr := fmt.Sscanf(text, fmt.Sprintf("price%d is %%d", k), &value); err != nil || n != 1 || scanErr != nil || value < least || value > now {
		if r.wrong.Add(1) < 10 {
			r.t.Errorf("%s at %s: %q, %v; want price%d from %d to %d", i.version, i.addr, text, err, k, least, now)
		}
		return value
	}
	i.atLeast(k, value)
	r.reads.Add(1)
	return value
}

// atLeast notes that an instance has had a value, or is told of it: an older one later is wrong.
func (i *serviceInstance) atLeast(k, value int) {
	for at := &i.read[k]; ; {
		is := at.Load()
		if int64(value) <= is || at.CompareAndSwap(is, int64(value)) {
			return
		}
	}
}

// change changes a price by one instance, in one of the ways, and waits until all instances have
// the new one.
func (r *rolling) change(random *rand.Rand, k int) {
	r.mu.RLock()
	i := r.places[random.IntN(places)]
	value := r.origin.change(k)
	path := []string{"/set", "/invalidate", "/invalidatetags", "/update"}[random.IntN(4)]
	_, err := r.do(i, path, fmt.Sprint("price", k), priceText(k, value))
	if err != nil {
		r.t.Errorf("%s at %s: %s: %v", i.version, i.addr, path, err)
	}
	i.atLeast(k, value)
	r.mu.RUnlock()
	if r.changes.Add(1); path != "/set" {
		r.drops.Add(1)
	}
	for place := range places {
		for end := time.Now().Add(20 * time.Second); ; <-time.After(time.Millisecond) {
			r.mu.RLock()
			is := r.read(r.places[place], k)
			r.mu.RUnlock()
			if is >= value {
				break
			}
			if time.Now().After(end) {
				r.t.Errorf("after %s of %d place %d has price%d as %d", path, value, place, k, is)
				r.wrong.Add(1)
				break
			}
		}
	}
}

// under has clients, and with changes writers, at work while f runs.
func (r *rolling) under(changes bool, f func()) {
	ctx, stop := context.WithCancel(r.t.Context())
	var all sync.WaitGroup
	for n := range clients {
		random := rand.New(rand.NewPCG(1, uint64(n)))
		all.Go(func() {
			for ctx.Err() == nil {
				r.mu.RLock()
				r.read(r.places[random.IntN(places)], random.IntN(prices))
				r.mu.RUnlock()
			}
		})
	}
	for n := range writers {
		random := rand.New(rand.NewPCG(2, uint64(n)))
		all.Go(func() {
			for changes && ctx.Err() == nil {
				r.change(random, n+writers*random.IntN(prices/writers))
			}
		})
	}
	defer all.Wait()
	defer stop()
	f()
}

// roll replaces all instances, one after the other, and lets the load go on beside each mix of
// versions.
func (r *rolling) roll(version string, changes bool) {
	r.t.Helper()
	for place := range places {
		reads, changed := r.reads.Load(), r.changes.Load()
		r.replace(place, version)
		eventually(r.t, "enough load", func() bool {
			return r.wrong.Load() > 0 || r.reads.Load() > reads+10*prices && (!changes || r.changes.Load() > changed+30)
		})
	}
}

// TestServiceRollsForwardAndBackUnderLoad rolls the instances of a service on one Redis from the
// earlier version to this one, and back, first under reads alone: that costs no load. Then
// prices change meanwhile: no instance has an older one than it has had or has confirmed, all get
// each new one, and a drop costs a load.
func TestServiceRollsForwardAndBackUnderLoad(t *testing.T) {
	if testing.Short() {
		t.Skip("builds two programs")
	}
	text, err := os.ReadFile("testdata/rolling/service.go.txt")
	if err != nil {
		t.Fatal(err)
	}
	r := &rolling{t: t, origin: &priceList{}, redis: servers.StartRedis(t).Addr, client: &http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: 100}}}
	r.programs = map[string]string{
		"earlier": buildProgram(t, "example.com/prices", treeOf(t, earlier), text),
		"now":     buildProgram(t, "example.com/prices", here(t), text),
	}
	origin := httptest.NewServer(r.origin)
	t.Cleanup(origin.Close)
	t.Cleanup(r.client.CloseIdleConnections)
	r.url = origin.URL
	for place := range places {
		r.places[place] = r.start("earlier")
	}
	for k := range prices {
		r.read(r.places[k%places], k)
	}
	cold := r.origin.loads.Load()
	r.under(false, func() {
		r.roll("now", false)
		r.roll("earlier", false)
	})
	if n := r.origin.loads.Load(); cold != prices || n != cold {
		t.Errorf("%d loads of %d keys, and %d more by rolling forward and back", cold, prices, n-cold)
	}
	r.under(true, func() {
		r.roll("now", true)
		r.roll("earlier", true)
		r.roll("now", true)
	})
	loads, drops := r.origin.loads.Load()-cold, r.drops.Load()
	if loads > drops+drops/4 || drops == 0 { // a load that a drop overtakes is repeated
		t.Errorf("%d loads after %d drops", loads, drops)
	}
	for k := range prices { // no load is under way
		for _, i := range r.places {
			if is, want := r.read(i, k), r.origin.now(k); is != want {
				t.Errorf("%s: price%d is %d, want %d", i.version, k, is, want)
			}
		}
	}
	for _, i := range r.places {
		r.stop(i)
	}
	if n := r.wrong.Load(); n > 0 {
		t.Errorf("%d wrong values", n)
	}
	t.Logf("%d reads, %d changes, %d drops, %d loads for them, %d wrong values", r.reads.Load(), r.changes.Load(), drops, loads, r.wrong.Load())
}
