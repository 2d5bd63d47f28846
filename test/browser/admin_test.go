//go:build unix

package browser_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/chromedp/kb"

	"github.com/strata-cache/strata"
	"github.com/strata-cache/strata/admin"
	"github.com/strata-cache/strata/internal/snapshot/transfer"
	"github.com/strata-cache/strata/internal/testing/servers"
	"github.com/strata-cache/strata/memory"
	"github.com/strata-cache/strata/redis"
	"github.com/strata-cache/strata/test/browser"
)

var shots = flag.String("shots", "", "write pictures of the pages to this folder")

// payloads are keys that become code in a page that takes them for markup.
var payloads = []string{ // read-only
	`<script>alert(1)</script>`, `"><img src=x onerror=alert(1)>`, `'><svg/onload=alert(1)>`, `</script><script>alert(1)</script>`,
	`javascript:alert(1)`, `<iframe srcdoc="<script>alert(1)</script>">`, `{{constructor.constructor('alert(1)')()}}`,
	`<!--<img src="--><img src=x onerror=alert(1)//">`, `&lt;img src=x onerror=alert(1)&gt;`, `";alert(1)//\`,
}

// stage is two instances of a cache over one Redis, of which the page shows the first, and
// a cache with hostile keys and without a tier.
type stage struct {
	redis   *servers.Redis
	users   [2]*strata.Cache[string, int64]
	texts   *strata.Cache[string, string]
	url     string
	streams atomic.Int64 // open ones
}

func newStage(t *testing.T, o admin.Options) *stage {
	s := &stage{redis: servers.StartRedis(t)}
	guard, err := memory.NewGuard(memory.GuardOptions{Limit: 1 << 30})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(guard.Close)
	load := func(ctx context.Context, key string) (int64, error) {
		strata.Loading(ctx).SetTags("team:" + key[len(key)-1:])
		if rand.IntN(20) == 0 {
			return 0, errors.New("the origin is tired")
		}
		return int64(len(key)), nil
	}
	for i := range s.users {
		c, err := strata.New(strata.Options[string, int64]{
			Name: "users", TTL: time.Minute, Loader: load, ShowKeys: true,
			Stale:  strata.Stale{OnError: time.Hour},
			Memory: strata.Memory[string, int64]{MaxEntries: 400, Guard: guard},
			// A busy machine answers late: what fails here fails since a test has asked for it.
			Remote: strata.Remote[string, int64]{Tier: redis.NewTier(s.redis.Client(t)), Bus: redis.NewBus(s.redis.Client(t)), Timeout: 10 * time.Second},
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close(context.Background()) })
		s.users[i] = c
	}
	s.texts, err = strata.New(strata.Options[string, string]{
		Name: "<b>texts</b>", TTL: time.Minute, ShowKeys: true,
		Loader: func(_ context.Context, key string) (string, error) { return key, nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.texts.Close(context.Background()) })
	o.Token = "token-of-a-test-0123"
	page := admin.New(o, s.users[0], s.texts)
	mux := http.NewServeMux()
	mux.Handle("/debug/strata/", page)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/api/stream") {
			s.streams.Add(1)
			defer s.streams.Add(-1)
		}
		mux.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	t.Cleanup(func() { page.Close() })
	s.url = server.URL + "/debug/strata/?token=" + o.Token
	s.traffic(t)
	return s
}

// traffic reads keys until the test ends.
func (s *stage) traffic(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	var all sync.WaitGroup
	t.Cleanup(func() { cancel(); all.Wait() })
	all.Go(func() {
		for n := 0; ctx.Err() == nil; n++ {
			_, _ = s.users[n%2].GetOrLoad(ctx, fmt.Sprint("user:", rand.IntN(500)), nil)
			_, _ = s.texts.GetOrLoad(ctx, payloads[n%len(payloads)], nil)
			if n%4 == 0 {
				<-time.After(time.Millisecond)
			}
		}
	})
}

// do performs an action: a click at a button, and the answer to the question. The outcomes of
// earlier actions are taken away first: the caller waits for the outcome of this one, which moves the page once more.
func do(b *browser.Tab, button, verb string) {
	browser.Eval[bool](b, "document.getElementById('outcomes').replaceChildren(), document.getElementById('tuned').replaceChildren(), true")
	b.ClickUntil(button, fmt.Sprintf("((document.querySelector('dialog button[type=submit]') || {}).textContent || '').includes(%q)", verb))
	b.ClickUntil("dialog button[type=submit]", "!document.querySelector('dialog')")
}

// widths returns the widths in pixels of a desktop and of a phone; with -short
// of a phone alone.
func widths() map[string]int64 {
	if testing.Short() {
		return map[string]int64{"phone": 390}
	}
	return map[string]int64{"desktop": 1280, "phone": 390}
}

func TestPageOfCachesPerformsEveryAction(t *testing.T) {
	chromium := browser.Start(t)
	for name, width := range widths() {
		t.Run(name, func(t *testing.T) {
			s := newStage(t, admin.Options{})
			b := chromium.Open(t, s.url, width, name == "phone")
			b.WaitText("#state", "live")
			b.Wait("document.querySelectorAll('.cache').length === 2")
			b.Fits()
			b.Click(".cache")
			b.WaitText("#name", "users")
			moves(b)
			explains(t, b, s)
			drops(t, b, s)
			tunes(t, b, s)
			b.Fits()
			if *shots != "" {
				b.Shot(filepath.Join(*shots, "caches-"+name+".png"))
			}
		})
	}
}

// moves waits until numbers and charts have changed.
func moves(b *browser.Tab) {
	const picture = "[...document.querySelectorAll('canvas')].map(c => c.toDataURL()).join()"
	b.WaitText("#chart-answers .legend", "L1 ")
	b.Wait("document.querySelectorAll('canvas').length === 8 && " + picture)
	browser.Eval[bool](b, "window.before = ["+picture+", document.getElementById('facts').textContent], true")
	b.Wait(picture + " !== before[0] && document.getElementById('facts').textContent !== before[1]")
	b.WaitText("#facts", "connected")
	b.WaitText("#facts", "at most, by a limit of 1 GiB")
	b.WaitText("#chart-heap .legend", "iB")
	b.WaitText("#badges", "L2")
	b.WaitText("#settings", "Stale.OnError")
	b.WaitText("#hot", "user:")
	b.Click("#hot-order button[value=byLoadTime]")
	b.WaitText("#hot", "user:")
}

// explains asks for a key by the keyboard, and by a click at one of the hottest.
func explains(t *testing.T, b *browser.Tab, s *stage) {
	b.Type("#explain-key", "user:7"+kb.Enter)
	b.Wait("document.querySelectorAll('.instance').length === 2")
	for _, c := range s.users {
		b.WaitText("#explained", transfer.Parts(c.Inside()).Panel().Info().Instance)
	}
	b.WaitText("#explained", "here")
	b.Click("#hot button.link")
	b.Wait("document.getElementById('explain-key').value !== 'user:7'")
	b.WaitText("#explained", browser.Eval[string](b, "JSON.stringify(document.getElementById('explain-key').value)"))
	b.Wait("document.querySelectorAll('.instance').length === 2")
	if n := browser.Eval[float64](b, "document.querySelectorAll('.instance .badge.warn').length"); n != 0 {
		t.Errorf("%v instances have not answered", n)
	}
}

// drops performs all actions, and looks at the cache.
func drops(t *testing.T, b *browser.Tab, s *stage) {
	for _, soft := range []bool{false, true} {
		verb := "Invalidate"
		if soft {
			verb = "Expire"
			b.Click("input[name=soft][value=yes]")
		}
		for _, a := range []struct{ field, text, button, verb string }{
			{"#act-key-text", "user:8", "#act-key button", verb + " key"},
			{"#act-tags-text", "team:1, team:2", "#act-tags button", verb + " tags"},
			{"", "", "#act-all", verb + " everything"},
		} {
			if a.field != "" {
				b.Type(a.field, a.text)
			}
			before := s.users[0].Stats().Invalidations
			do(b, a.button, a.verb)
			b.WaitText("#outcomes", "Done.")
			if got := b.Text("#outcomes"); !strings.Contains(got, "L2 has answered") || !strings.Contains(got, "bus is connected") {
				t.Errorf("%s: %s", a.verb, got)
			}
			if s.users[0].Stats().Invalidations == before {
				t.Errorf("%s: the cache has dropped nothing", a.verb)
			}
		}
	}
	before := s.users[0].Stats().Invalidations
	b.Click("#act-all")
	b.WaitText("dialog", "everything")
	b.Press(kb.Escape)
	b.Wait("!document.querySelector('dialog')")
	b.Click("#act-all")
	b.Wait("document.activeElement.textContent === 'Cancel'")
	b.Press(kb.Enter)
	b.Wait("!document.querySelector('dialog')")
	if n := s.users[0].Stats().Invalidations; n != before {
		t.Errorf("a question that was not answered with yes has dropped %d", n-before)
	}
}

// tunes changes options, and looks at the cache.
func tunes(t *testing.T, b *browser.Tab, s *stage) {
	b.Type("#tune-ttl", "1ns")
	do(b, "#tune button", "Change options")
	b.WaitText("#tuned", "An error.")
	b.Type("#tune-maxEntries", "50")
	b.Type("#tune-ttl", "30s")
	do(b, "#tune button", "Change options")
	b.WaitText("#tuned", "Done.")
	if n := s.users[0].Stats().MaxEntries; n != 50 {
		t.Errorf("the bound is %d", n)
	}
	b.WaitText("#settings", "tuned")
	b.Wait("document.getElementById('tune-ttl').placeholder === '30s'")
	browser.Eval[bool](b, "document.getElementById('tune-off').value = 'yes', true")
	do(b, "#tune button", "Change options")
	b.WaitText("#badges", "off")
	if !s.users[0].Stats().Off || s.users[1].Stats().Off {
		t.Error("the cache is not off, or another instance is")
	}
	b.Type("#tune-maxEntries", "-5")
	b.Click("#tune button")
	b.WaitText("#tuned", "is not a whole number")
}

// TestPressedCardIsNotDrawnAnew presses at a card for longer than the numbers stay the same.
func TestPressedCardIsNotDrawnAnew(t *testing.T) {
	chromium := browser.Start(t)
	s := newStage(t, admin.Options{})
	b := chromium.Open(t, s.url, 1280, false)
	b.Wait("document.querySelectorAll('.cache').length === 2")
	const press = "card = document.querySelector('.cache'), card.dispatchEvent(new PointerEvent('pointerdown', {bubbles: true})), at = document.querySelector('#cards').textContent, true"
	const stays = "new Promise(done => setTimeout(() => done(card.isConnected), 2500))"
	if browser.Eval[bool](b, "var card, at; "+press); !browser.Eval[bool](b, stays) {
		t.Error("the card has gone while it was pressed")
	}
	browser.Eval[bool](b, "card.dispatchEvent(new PointerEvent('pointerup', {bubbles: true})), true")
	b.Wait("document.querySelector('#cards').textContent !== at")
}

func TestHostileKeysAreTextOnThePage(t *testing.T) {
	chromium := browser.Start(t)
	s := newStage(t, admin.Options{})
	b := chromium.Open(t, s.url+"#cache="+"%3Cb%3Etexts%3C%2Fb%3E", 390, false)
	b.WaitText("#name", "<b>texts</b>")
	b.Wait("document.querySelectorAll('#hot tbody tr').length === 10")
	shown := browser.Eval[string](b, "[...document.querySelectorAll('#hot td.key')].map(k => k.textContent).join('\\n')")
	for _, x := range payloads {
		if !strings.Contains(shown, x) {
			t.Errorf("%q is not among the hottest keys:\n%s", x, shown)
		}
		browser.Eval[bool](b, fmt.Sprintf("document.getElementById('act-key-text').value = %q, true", x))
		do(b, "#act-key button", "Invalidate key")
		b.WaitText("#outcomes", "Done.")
	}
	if n := browser.Eval[float64](b, "document.querySelectorAll('main img, main iframe, main script, main b:not(.legend b)').length"); n != 0 {
		t.Errorf("the page has %v elements of the texts", n)
	}
	b.Fits()
}

func TestReadOnlyPageHasNoActions(t *testing.T) {
	chromium := browser.Start(t)
	s := newStage(t, admin.Options{ReadOnly: true})
	b := chromium.Open(t, s.url+"#cache=users", 1280, false)
	b.WaitText("#settings", "TTL")
	if n := browser.Eval[float64](b, "[...document.querySelectorAll('#actions, #tune-card')].filter(e => e.offsetParent).length"); n != 0 {
		t.Errorf("%v cards with actions are shown", n)
	}
}

// TestHiddenTabHasNoStream pretends that a tab is hidden, and shown again.
func TestHiddenTabHasNoStream(t *testing.T) {
	chromium := browser.Start(t)
	s := newStage(t, admin.Options{})
	b := chromium.Open(t, s.url, 1280, false)
	b.WaitText("#state", "live")
	for _, hidden := range []bool{true, false} {
		browser.Eval[bool](b, fmt.Sprintf("Object.defineProperty(document, 'hidden', {value: %v, configurable: true}), document.dispatchEvent(new Event('visibilitychange'))", hidden))
		want := int64(1)
		if hidden {
			want = 0
		}
		for end := time.Now().Add(30 * time.Second); s.streams.Load() != want; <-time.After(time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("hidden %v: %d streams, want %d", hidden, s.streams.Load(), want)
			}
		}
	}
}

func TestPageTellsOfBrokenL2(t *testing.T) {
	chromium := browser.Start(t)
	s := newStage(t, admin.Options{})
	b := chromium.Open(t, s.url+"#cache=users", 390, true)
	b.WaitText("#facts", "connected")
	s.redis.Kill()
	b.WaitText("#badges", "bus silent")
	do(b, "#act-all", "Invalidate everything")
	b.WaitText("#outcomes", "An error.")
	b.WaitText("#outcomes", "pending")
	b.WaitText("#badges", "pending")
	b.WaitText("#events", "warn")
	s.redis.Restart()
	b.Wait("!document.getElementById('badges').textContent.includes('pending')")
	b.Wait("!document.querySelector('#badges .bad')")
}

// within fails the test if an element is not within the window.
func within(t *testing.T, b *browser.Tab, what, selector string) {
	t.Helper()
	const rect = "(e => { const r = e.getBoundingClientRect(); return r.left >= 0 && r.right <= innerWidth && r.bottom > 0 && r.top < innerHeight && (r.height > innerHeight || r.bottom <= innerHeight) })"
	if !browser.Eval[bool](b, fmt.Sprintf(rect+"(document.querySelector(%q))", selector)) {
		t.Errorf("%s: %s is not within the window", what, selector)
	}
}

// TestPhoneLayoutHoldsDuringLongActions performs actions with the longest texts while L2 does not
// answer. The question, the text while the action runs, and its outcome are in view, and nothing is wider
// than the window.
func TestPhoneLayoutHoldsDuringLongActions(t *testing.T) {
	chromium := browser.Start(t)
	s := newStage(t, admin.Options{})
	b := chromium.Open(t, s.url+"#cache=users", 390, false)
	b.WaitText("#facts", "connected")
	b.Type("#explain-key", "user:7"+kb.Enter)
	b.Wait("document.querySelectorAll('.instance').length === 2") // from now on the other instance is known
	s.redis.Kill()
	b.WaitText("#badges", "bus silent for")
	b.WaitText("#badges", ": breaker open")
	browser.Eval[bool](b, `window.texts = [], new MutationObserver(() => {
		texts.push(document.getElementById('outcomes').textContent, document.getElementById('tuned').textContent);
		if (document.documentElement.scrollWidth > innerWidth) texts.push('WIDE');
	}).observe(document.getElementById('main'), {childList: true, subtree: true}), true`)
	tags := strings.TrimSuffix(strings.Repeat(strings.Repeat("t", 60)+",", 100), ",")
	for _, a := range []struct{ field, text, button, verb, running, outcome string }{
		{"act-key-text", strings.Repeat("w", 4096), "#act-key button", "Invalidate key", "Invalidate key …", "#outcomes .note"},
		{"act-tags-text", tags, "#act-tags button", "Invalidate tags", "Invalidate tags …", "#outcomes .note"},
		{"", "", "#act-all", "Invalidate everything", "Invalidate everything …", "#outcomes .note"},
		{"tune-ttl", strings.Repeat("9", 300) + "h", "#tune button", "Change options", "Change options …", "#tuned .note"},
	} {
		if a.field != "" {
			browser.Eval[bool](b, fmt.Sprintf("document.getElementById(%q).value = %q, true", a.field, a.text))
		}
		browser.Eval[bool](b, "texts.length = 0, document.getElementById('outcomes').replaceChildren(), true")
		if text := b.Text(a.button); text != a.verb {
			t.Errorf("a button does %q and is called %q", a.verb, text)
		}
		b.Click(a.button)
		b.WaitText("dialog button[type=submit]", a.verb)
		b.Fits()
		within(t, b, a.verb, "dialog")
		within(t, b, a.verb, "dialog button[type=submit]")
		b.Click("dialog button[type=submit]")
		b.Wait("!document.querySelector('dialog') && /^(Done|An error|Refused)/.test((document.querySelector('" + a.outcome + "') || {}).textContent)")
		b.Fits()
		within(t, b, a.verb, a.outcome)
		seen := browser.Eval[string](b, "texts.join('|')")
		if !strings.Contains(seen, a.running) || strings.Contains(seen, "WIDE") {
			t.Errorf("%s: while it runs the page says %.500q", a.verb, seen)
		}
	}
	browser.Eval[bool](b, fmt.Sprintf("document.getElementById('explain-key').value = %q, true", strings.Repeat("w", 4096)))
	b.Click("#explain button")
	b.WaitText("#explained", "wwwwwwww")
	b.WaitText("#explained", "No answer came within 1")
	b.WaitText("#explained", "The instance was last heard of")
	b.Fits()
}

// TestLateOutcomeNamesItsCache shows another cache while an action on the first one runs.
func TestLateOutcomeNamesItsCache(t *testing.T) {
	chromium := browser.Start(t)
	s := newStage(t, admin.Options{})
	b := chromium.Open(t, s.url+"#cache=users", 1280, false)
	b.WaitText("#facts", "connected")
	browser.Eval[bool](b, `window.real = fetch, window.fetch = (...a) => String(a[0]).includes("api/all") ? new Promise(done => window.release = () => done(real(...a))) : real(...a), true`)
	b.Click("#act-all")
	b.Click("dialog button[type=submit]")
	b.Wait("window.release !== undefined")
	browser.Eval[bool](b, `location.hash = "cache=" + encodeURIComponent("<b>texts</b>"), true`)
	b.WaitText("#name", "<b>texts</b>")
	browser.Eval[bool](b, "release(), true")
	b.WaitText("#outcomes", `"users": Done.`)
}

// TestButtonsAreNamedByWhatTheyDo chooses Expire and Invalidate in turn.
func TestButtonsAreNamedByWhatTheyDo(t *testing.T) {
	chromium := browser.Start(t)
	s := newStage(t, admin.Options{})
	b := chromium.Open(t, s.url+"#cache=users", 1280, false)
	b.WaitText("#facts", "connected")
	for _, verb := range []string{"Expire", "Invalidate"} {
		value := map[string]string{"Expire": "yes", "Invalidate": ""}[verb]
		b.Click("input[name=soft][value='" + value + "']")
		for button, text := range map[string]string{"#act-key button": "key", "#act-tags button": "tags", "#act-all": "everything"} {
			if got := b.Text(button); got != verb+" "+text {
				t.Errorf("%s is called %q", button, got)
			}
		}
	}
}

// TestNumbersOfPagesHaveThreeDigits calls the functions of the script that all pages share.
func TestNumbersOfPagesHaveThreeDigits(t *testing.T) {
	chromium := browser.Start(t)
	s := newStage(t, admin.Options{})
	b := chromium.Open(t, s.url, 390, false)
	for call, want := range map[string]string{
		"duration(0)": "0 s", "duration(999.6)": "1 µs", "duration(1234567)": "1.23 ms", "duration(999999999)": "1 s", "duration(468600000000)": "7.81 min",
		"duration(119.9e9)": "2 min", "duration(256e9)": "4.27 min", "duration(1e14)": "27.8 h", "duration(9.3e18)": "no end", "duration(NaN)": "–",
		"count(0)": "0", "count(0.001)": "< 0.01", "count(1.234)": "1.23", "count(9999.4)": "9999", "count(999950)": "1 M", "count(12345)": "12.3 k", "count(1.9e19)": "19000000 T",
		"bytes(1023.6)": "1 KiB", "bytes(1048570)": "1 MiB", "bytes(1500)": "1.46 KiB", "percent(1, 3)": "33.3 %", "percent(9999, 10000)": "> 99.9 %", "percent(5, 0)": "–",
	} {
		if got := browser.Eval[string](b, "import(new URL('assets/page.js', location.href).href).then(m => m."+call+")"); got != want {
			t.Errorf("%s is %q, want %q", call, got, want)
		}
	}
}
