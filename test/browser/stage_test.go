//go:build unix

package browser_test

import (
	"bufio"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/strata-cache/strata/test/browser"
)

// demo starts `strata demo --ui` with more flags, and returns the address of its page.
func demo(t *testing.T, flags ...string) (url string) {
	t.Helper()
	program := filepath.Join(t.TempDir(), "strata")
	build := exec.Command("go", "build", "-o", program, ".")
	build.Dir, build.Env = filepath.Join("..", "..", "cmd", "strata"), append(os.Environ(), "GOWORK=off")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	run := exec.Command(program, append([]string{"demo", "--ui", "--addr", "127.0.0.1:0"}, flags...)...)
	stderr, err := run.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := run.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(stderr)
	for url == "" && lines.Scan() {
		if rest, ok := strings.CutPrefix(lines.Text(), "stage "); ok {
			url = strings.TrimSpace(rest)
		}
	}
	t.Cleanup(func() {
		_ = run.Process.Signal(os.Interrupt)
		for lines.Scan() { // until it has closed its output
		}
		if err := run.Wait(); err != nil {
			t.Errorf("the demo ends with %v", err)
		}
	})
	if url == "" {
		t.Fatal("the demo names no page")
	}
	return url
}

// marked waits until an action is in the list, and its result on the page.
func marked(b *browser.Tab, action, result string) {
	b.WaitText("#marks", action)
	b.WaitText("#said", result)
}

func TestStagePerformsEveryAction(t *testing.T) {
	chromium := browser.Start(t)
	url := demo(t, "--origin-latency", "5ms")
	for name, width := range widths() {
		t.Run(name, func(t *testing.T) {
			b := chromium.Open(t, url, width, name == "phone")
			b.WaitText("#state", "live")
			b.Wait("document.querySelectorAll('canvas').length === 6")
			b.WaitText("#seen", "Hello, World")
			const picture = "[...document.querySelectorAll('canvas')].map(c => c.toDataURL()).join()"
			browser.Eval[bool](b, "window.before = "+picture+", true")
			b.Wait(picture + " !== before")
			playsOnParts(b)
			playsOnValues(b)
			restarts(b)
			fillsMemory(b)
			b.Fits()
			if name == "phone" {
				staysInView(t, b)
			}
			if *shots != "" {
				b.Shot(filepath.Join(*shots, "stage-"+name+".png"))
			}
		})
	}
}

// playsOnParts breaks and mends every part, and changes the load and the latency.
func playsOnParts(b *browser.Tab) {
	for part, name := range map[string]string{"l2": "L2", "bus": "The bus", "origin": "The origin"} {
		button := "[data-part=" + part + "]"
		b.Click(button)
		marked(b, "break "+part, name+" is broken.")
		b.WaitText(button, "Mend")
		b.Click(button)
		marked(b, "mend "+part, name+" is mended.")
		b.WaitText(button, "Break")
	}
	choose := func(id, value, action, result string) {
		browser.Eval[bool](b, "(e => { e.value = '"+value+"'; e.dispatchEvent(new Event('change')); return true })(document.getElementById('"+id+"'))")
		marked(b, action, result)
	}
	choose("rate", "200", "rate 200", "200 requests a second")
	choose("slow", "20ms", "slow 20ms", "takes 20ms longer")
}

// playsOnValues changes the cache, and drops values: the number of the watched one grows.
func playsOnValues(b *browser.Tab) {
	for _, mode := range []string{"none", "naive", "strata"} {
		b.Click("[data-do='mode " + mode + "']")
		b.WaitText("#marks", "mode "+mode)
		b.Wait("document.querySelector(\"[data-do='mode " + mode + "']\").getAttribute('aria-pressed') === 'true'")
	}
	b.Type("#name", "World1")
	b.Click("#watch button")
	marked(b, "watch World1", "World1 is watched.")
	b.WaitText("#seen", "Hello, World1!")
	b.Wait("[...document.querySelectorAll('.place')].every(p => p.dataset.state === 'fresh')")
	const number = "Math.min(...[...document.querySelectorAll('.place')].map(p => Number((/number (\\d+)/.exec(p.textContent) || [0, 0])[1])))"
	browser.Eval[bool](b, "window.number = "+number+", true")
	b.Click("#invalidate")
	b.WaitText("#marks", "invalidate World1")
	b.Wait(number + " > number")
	for _, jitter := range []string{"off", "on"} {
		button := "[data-do='jitter " + jitter + "']"
		b.Click(button)
		marked(b, "jitter "+jitter, "Both instances have restarted")
		b.Wait("document.querySelector(\"" + button + "\").getAttribute('aria-pressed') === 'true'")
		b.Wait("document.querySelectorAll('#jitters [aria-pressed=true]').length === 1")
	}
	b.Click("[data-do=load]")
	marked(b, "load", "500 greetings were loaded at once")
	b.WaitText("#seen", "500 greetings in memory")
	b.Click("[data-do=expire]")
	marked(b, "expire", "Every greeting is stale")
}

// restarts restarts an instance in every way.
func restarts(b *browser.Tab) {
	for start, result := range map[string]string{"cold": "empty memory", "keys": "by keys", "transfer": "by transfer"} {
		b.Click("[data-start=" + start + "]")
		marked(b, "restart a "+start, result)
	}
	b.WaitText("#marks", "restart a cold")
}

// fillsMemory stores reports until the guard evicts some, and drops them.
func fillsMemory(b *browser.Tab) {
	b.WaitText("#memory", "of 256 MiB")
	b.Click("[data-do='fill on']")
	marked(b, "fill on", "32 MiB a second")
	b.Wait("document.querySelector(\"[data-do='fill on']\").getAttribute('aria-pressed') === 'true'")
	b.Wait("/[1-9]\\S* k? ?reports/.test(document.getElementById('memory').textContent)")
	b.Wait("/[1-9]/.test(document.querySelectorAll('#chart-evicted .legend b')[1].textContent)")
	b.Click("[data-do='fill off']")
	marked(b, "fill off", "The reports are dropped.")
}

// staysInView breaks L2 and drops a greeting with the longest name: its result is in view.
func staysInView(t *testing.T, b *browser.Tab) {
	long := strings.Repeat("W", 100)
	b.Type("#name", long)
	b.Click("#watch button")
	b.WaitText("#said", "is watched")
	b.Click("[data-part=l2]")
	marked(b, "break l2", "L2 is broken.")
	within(t, b, "a fault on a phone", "#said") // its button is further up
	b.WaitText("#invalidate", "Invalidate "+long)
	b.Click("#invalidate")
	b.WaitText("#said", "not confirmed by L2")
	b.WaitText("#marks", "not confirmed by L2")
	b.Fits()
	within(t, b, "a drop on a phone", "#said")
	b.Click("[data-part=l2]")
	b.WaitText("#said", "L2 is mended")
	b.WaitText("#marks", "start")
}

// TestPicturesOfTheGuide plays scripts and takes the pictures that docs/guide/stage.md shows: an
// outage of L2, the bus and the origin, the restarts of an instance, everything loaded at once
// without and with jitter, and a memory that is filled. It needs the flag -shots.
func TestPicturesOfTheGuide(t *testing.T) {
	if *shots == "" {
		t.Skip("takes four minutes, and is of use with the flag -shots only")
	}
	type picture struct{ mark, file string }
	for script, pictures := range map[string][]picture{
		"testdata/guide.stage":  {{"mend origin", "stage-outage.png"}, {"rate 501", "stage-restart.png"}},
		"testdata/jitter.stage": {{"rate 501", "stage-jitter.png"}},
		"testdata/memory.stage": {{"rate 501", "stage-memory.png"}},
	} {
		t.Run(script, func(t *testing.T) {
			chromium := browser.Start(t)
			script, err := filepath.Abs(script)
			if err != nil {
				t.Fatal(err)
			}
			b := chromium.Open(t, demo(t, "--script", script), 1280, false)
			end, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
			defer cancel()
			for _, p := range pictures {
				for !strings.Contains(b.Text("#marks"), p.mark) {
					if end.Err() != nil {
						t.Fatalf("%s does not come", p.mark)
					}
					<-time.After(time.Second)
				}
				<-time.After(4 * time.Second) // its effect
				b.Shot(filepath.Join(*shots, p.file))
			}
		})
	}
}
