//go:build unix

// Package browser has the tests that look at strata's pages with a real browser: headless
// Chromium, from the Debian package of that name, started by the tests and ended with them.
package browser

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/strata-cache/strata/internal/testing/servers"
)

// patience is how long a tab may take to look as expected.
const patience = time.Minute

// Browser is a running Chromium, for the tabs of one test and of its subtests.
type Browser struct {
	ctx context.Context
}

// Start starts a Browser, which ends with the test.
func Start(t testing.TB) *Browser {
	t.Helper()
	program, err := servers.Program("chromium", "chromium")
	if err != nil {
		t.Fatal(err)
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(program), chromedp.DisableGPU)
	if os.Geteuid() == 0 {
		options = append(options, chromedp.NoSandbox) // the sandbox does not work for root
	}
	ctx, cancel := chromedp.NewExecAllocator(context.Background(), options...)
	t.Cleanup(cancel)
	ctx, end := chromedp.NewContext(ctx)
	t.Cleanup(end)
	if err := chromedp.Do(ctx); err != nil {
		t.Fatal(err)
	}
	return &Browser{ctx}
}

// Tab is a page in a browser. Its methods fail the test if the page is not as expected in
// time. They are for one goroutine.
type Tab struct {
	t   testing.TB
	ctx context.Context

	mu       sync.Mutex
	messages []string
}

// Open opens a page with a window of this width in light or dark. When the test ends, it
// fails if the page has written anything to its console.
func (b *Browser) Open(t testing.TB, url string, width int64, dark bool) *Tab {
	t.Helper()
	ctx, cancel := chromedp.NewContext(b.ctx)
	tab := &Tab{t: t, ctx: ctx}
	t.Cleanup(func() {
		cancel()
		for _, m := range tab.Messages() {
			t.Errorf("the console of the page has: %s", m)
		}
	})
	scheme := "light"
	if dark {
		scheme = "dark"
	}
	if err := chromedp.Do(ctx); err != nil { // the tab ends with the context of its first action
		t.Fatal(err)
	}
	tab.do(chromedp.EmulateViewport(width, 900))
	_, err := chromedp.Call(ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}, //nolint:misspell // the name that CSS has for it
	})
	if err != nil {
		t.Fatal(err)
	}
	console := chromedp.Console(ctx)
	go func() { // ends with ctx
		for m, err := range console {
			if err != nil {
				return
			}
			tab.mu.Lock()
			tab.messages = append(tab.messages, fmt.Sprintf("%s: %s (%s:%d)", m.Type, m.Text, m.URL, m.Line))
			tab.mu.Unlock()
		}
	}()
	tab.do(chromedp.Navigate(url))
	return tab
}

// Messages returns the messages of the console so far, and forgets them.
func (b *Tab) Messages() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	all := b.messages
	b.messages = nil
	return all
}

func (b *Tab) do(actions ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	if err := chromedp.Do(ctx, actions...); err != nil {
		b.t.Fatal(err)
	}
}

// Eval returns the value of an expression in the page.
func Eval[T any](b *Tab, expression string) T {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	v, err := chromedp.Run(ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	if err != nil {
		b.t.Fatalf("%s: %v", expression, err)
	}
	return v
}

// Text returns the text of the first element that a selector finds, or "".
func (b *Tab) Text(selector string) string {
	b.t.Helper()
	return Eval[string](b, fmt.Sprintf("(document.querySelector(%q) || {}).textContent || ''", selector))
}

// Wait waits until an expression is true.
func (b *Tab) Wait(expression string) {
	b.t.Helper()
	for end := time.Now().Add(patience); !Eval[bool](b, "Boolean("+expression+")"); <-time.After(20 * time.Millisecond) {
		if time.Now().After(end) {
			b.t.Fatalf("not true after %v: %s", patience, expression)
		}
	}
}

// WaitText waits until the text of an element contains a text.
func (b *Tab) WaitText(selector, text string) {
	b.t.Helper()
	for end := time.Now().Add(patience); !strings.Contains(b.Text(selector), text); <-time.After(20 * time.Millisecond) {
		if time.Now().After(end) {
			b.t.Fatalf("after %v, %s has no %q: %q", patience, selector, text, b.Text(selector))
		}
	}
}

// Click clicks at the first element that a selector finds, once it is visible and in the middle of the window,
// where no note that stays at an edge covers it. A page that draws a part of itself anew takes the element away now
// and then: then it is looked for again.
func (b *Tab) Click(selector string) {
	b.t.Helper()
	for end := time.Now().Add(patience); ; {
		err := b.click(selector, patience/3) // a second click may undo the first
		if err == nil {
			return
		}
		if time.Now().After(end) {
			b.t.Fatalf("click at %s: %v; %s", selector, err, b.at(selector))
		}
	}
}

// click tries to click once, for so long. If its process for drawing stands still on a busy machine, a browser never
// answers some clicks and keys, not even when that process goes on.
func (b *Tab) click(selector string, most time.Duration) error {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, most)
	defer cancel()
	Eval[bool](b, fmt.Sprintf("(e => { if (e) e.scrollIntoView({ block: 'center' }); return true })(document.querySelector(%q))", selector))
	return chromedp.Do(ctx, chromedp.Click(chromedp.CSS(selector), chromedp.NodeVisible))
}

// ClickUntil clicks at an element until an expression is true. A page that moves, as its lists
// grow, may have moved the element away under the pointer: so each second attempt is made by the
// keyboard, which finds the element wherever it is.
func (b *Tab) ClickUntil(selector, expression string) {
	b.t.Helper()
	const attempt = patience / 12
	for end, byKeys := time.Now().Add(2*patience), false; ; byKeys = !byKeys {
		var err error
		switch {
		case !byKeys:
			err = b.click(selector, attempt)
		case Eval[bool](b, fmt.Sprintf("(e => { if (e) e.focus(); return Boolean(e) && document.activeElement === e })(document.querySelector(%q))", selector)):
			ctx, cancel := context.WithTimeout(b.ctx, attempt)
			err = chromedp.Do(ctx, chromedp.KeyEvent(kb.Enter))
			cancel()
		}
		for soon := time.Now().Add(attempt); time.Now().Before(soon); <-time.After(20 * time.Millisecond) {
			if Eval[bool](b, "Boolean("+expression+")") {
				return
			}
		}
		if time.Now().After(end) {
			b.t.Fatalf("after clicks at %s for %v not true: %s; the last click: %v; %s", selector, 2*patience, expression, err, b.at(selector))
		}
	}
}

// at tells where an element is, and which elements a pointer and the keyboard would reach.
func (b *Tab) at(selector string) string {
	b.t.Helper()
	return Eval[string](b, fmt.Sprintf(`(e => {
		const name = x => x ? x.tagName + (x.id && "#" + x.id) : "nothing";
		const r = e && e.getBoundingClientRect();
		const over = r && document.elementFromPoint(r.x + r.width / 2, r.y + r.height / 2);
		return "the element is " + name(e) + " at " + JSON.stringify(r) + " of " + innerWidth + "x" + innerHeight + ", over it " + name(over) +
			"; with the focus " + name(document.activeElement) + ", of the window " + document.hasFocus() + "; the page is " + document.visibilityState +
			", of " + performance.now() + " ms, with " + document.querySelectorAll("dialog").length + " open questions";
	})(document.querySelector(%q))`, selector))
}

// Type replaces the text of a field by keys.
func (b *Tab) Type(selector, text string) {
	b.t.Helper()
	Eval[bool](b, fmt.Sprintf("document.querySelector(%q).value = '', true", selector))
	b.do(chromedp.SendKeys(chromedp.CSS(selector), text))
}

// Press presses keys where the focus is.
func (b *Tab) Press(keys string) {
	b.t.Helper()
	b.do(chromedp.KeyEvent(keys))
}

// Fits fails the test if the page is wider than its window.
func (b *Tab) Fits() {
	b.t.Helper()
	if over := Eval[float64](b, "document.documentElement.scrollWidth - innerWidth"); over > 0 {
		b.t.Errorf("the page is %v pixels wider than its window", over)
	}
}

// Shot writes a picture of the whole page to a file, for people to look at.
func (b *Tab) Shot(file string) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	png, err := chromedp.Run(ctx, chromedp.FullScreenshot(100))
	if err == nil {
		err = os.WriteFile(file, png, 0o600)
	}
	if err != nil {
		b.t.Fatal(err)
	}
}
