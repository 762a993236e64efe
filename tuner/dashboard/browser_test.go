//go:build browser

package dashboard

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/accessibility"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/google/go-cmp/cmp"

	"github.com/bitnet-autotune/bitnet-autotune/probe/gpu"
	"github.com/bitnet-autotune/bitnet-autotune/probe/model/modeltest"
	"github.com/bitnet-autotune/bitnet-autotune/tuner"
	"github.com/bitnet-autotune/bitnet-autotune/tuner/daemon"
	"github.com/bitnet-autotune/bitnet-autotune/tuner/target"
)

var shots = flag.String("shots", "", "directory for pictures of the page")

// newBrowser starts a browser. As root, in a container, there is no sandbox; the page is our own.
func newBrowser(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := chromedp.NewContext(t.Context(), chromedp.WithAllocatorOptions(chromedp.NoSandbox, chromedp.DisableGPU, chromedp.Flag("hide-scrollbars", true)))
	t.Cleanup(cancel)
	if err := chromedp.Do(ctx); err != nil {
		t.Fatalf("NOT TESTED: %v; make deps installs chromium", err)
	}
	return ctx
}

// tab is one page in the browser. What it says on its console and what it asks of others is a failure.
type tab struct {
	t   *testing.T
	ctx context.Context

	mu       sync.Mutex
	trouble  []string
	expected string // a part of what may be on the console
}

// look is how a page is looked at.
type look struct {
	width  int64
	scheme string // light, dark
	still  bool   // the reader wants no motion
}

var wide = look{width: 1280, scheme: "light"}

// newTab opens an empty tab for a page.
func newTab(t *testing.T, browser context.Context, url string, as look) *tab {
	t.Helper()
	ctx, cancel := chromedp.NewContext(browser)
	p := &tab{t: t, ctx: ctx}
	p.do(chromedp.EmulateViewport(as.width, 900))
	features := []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: as.scheme}}
	if as.still {
		features = append(features, &emulation.MediaFeature{Name: "prefers-reduced-motion", Value: "reduce"})
	}
	if _, err := chromedp.Call(ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: features}); err != nil {
		t.Fatal(err)
	}
	var readers sync.WaitGroup
	said, asked := chromedp.Console(ctx), chromedp.Events(ctx, network.RequestWillBeSent)
	readers.Go(func() {
		for m, err := range said {
			if err == nil && m.Type != chromedp.ConsoleLog && m.Type != chromedp.ConsoleDebug && m.Type != chromedp.ConsoleInfo {
				p.note(fmt.Sprintf("console: %s: %s %s", m.Type, m.Text, m.URL))
			}
		}
	})
	readers.Go(func() {
		for r, err := range asked {
			if err == nil && !strings.HasPrefix(r.Request.URL, url) {
				p.note("it asks for " + r.Request.URL)
			}
		}
	})
	t.Cleanup(func() {
		cancel()
		readers.Wait()
		for _, text := range p.trouble {
			if p.expected == "" || !strings.Contains(text, p.expected) {
				t.Error(text)
			}
		}
	})
	return p
}

// visit opens a page and waits until all of it is there.
func visit(t *testing.T, browser context.Context, url string, as look) *tab {
	t.Helper()
	p := newTab(t, browser, url, as)
	p.do(chromedp.Navigate(url))
	p.settle()
	return p
}

// settle waits until every part of the page is there.
func (p *tab) settle() {
	p.t.Helper()
	p.until("every part is there", `document.querySelectorAll("section").length > 10 && !document.querySelector("[aria-busy=true]")`)
	p.until("it is live", `document.getElementById("link-text").textContent === "live"`)
}

func (p *tab) note(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.trouble = append(p.trouble, text)
}

func (p *tab) do(steps ...chromedp.Action[chromedp.Void]) {
	p.t.Helper()
	if err := chromedp.Do(p.ctx, steps...); err != nil {
		p.t.Fatal(err)
	}
}

// evaluate asks the page for the value of an expression.
func evaluate[T any](p *tab, expression string) T {
	p.t.Helper()
	v, err := chromedp.Run(p.ctx, chromedp.Evaluate[T](expression))
	if err != nil {
		p.t.Fatalf("%s: %v", expression, err)
	}
	return v
}

// patience is how long a page may take on a busy machine.
const patience = 20 * time.Second

// until waits for the page to come to something.
func (p *tab) until(what, expression string) {
	p.t.Helper()
	for end := time.Now().Add(patience); !evaluate[bool](p, expression); {
		if time.Now().After(end) {
			p.t.Fatalf("not within %v: %s: %s\n%s", patience, what, expression, evaluate[string](p, "document.body.innerText"))
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// shows waits until a part of the page has a text.
func (p *tab) shows(selector, text string) {
	p.t.Helper()
	p.until(selector+" shows "+text, fmt.Sprintf(`document.querySelector(%q)?.textContent.includes(%q) ?? false`, selector, text))
}

func (p *tab) click(selector string) {
	p.t.Helper()
	p.do(chromedp.Click(chromedp.CSS(selector)))
}

func (p *tab) press(keys ...string) {
	p.t.Helper()
	for _, k := range keys {
		p.do(chromedp.KeyEvent(k))
	}
}

// closed waits until no dialog is open.
func (p *tab) closed() {
	p.t.Helper()
	p.until("no dialog is open", `!document.querySelector("dialog[open]")`)
}

// checked writes down checks as a daemon does that has run for days; the file is the daemon's own.
func checked(t *testing.T, tuned *tuner.Tuner, store string) {
	t.Helper()
	plan, err := tuned.Plan(t.Context(), anyModel)
	if err != nil {
		t.Fatal(err)
	}
	var past []daemon.Check
	for i := range 12 {
		ratio := 1.05 + 0.01*float64(i%3) - 0.004*float64(i)
		past = append(past, daemon.Check{At: time.Now().Add(time.Duration(i-12) * 6 * time.Hour), Regime: target.Decode, Verdict: tuner.Confirmed,
			Ratio: tuner.Ratio{Estimate: ratio, Low: ratio * 0.98, High: ratio * 1.02, Confidence: 0.99}, Drift: float64(i) * 0.7, DriftLimit: 10})
	}
	doc := map[string]any{"config": plan.Config.Hash(), "past": past, "checks": len(past), "last_ratio": past[11].Ratio, "detectors": map[target.Regime]daemon.Detector{target.Decode: {Reference: math.Log(1.05), Doubt: 0.005, Sum: past[11].Drift, Checks: len(past), Rising: 11}},
		"next_check": time.Now().Add(time.Hour), "verdict": "ADOPT"}
	data, err := json.Marshal(doc)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256([]byte(anyModel))
	if err := os.WriteFile(filepath.Join(store, fmt.Sprintf("sentinel-%x.json", sum[:8])), data, 0o600); err != nil {
		t.Fatal(err)
	}
}

// learned is a store in which a model was tuned twice and checked often.
func learned(t *testing.T) string {
	t.Helper()
	store := t.TempDir()
	tuned := openSimulated(t, store)
	learn(t, tuned)
	learn(t, tuned)
	checked(t, tuned, store)
	return store
}

// TestBrowser looks at the page of a daemon with a browser, and does what an operator can do there.
func TestBrowser(t *testing.T) {
	browser, store := newBrowser(t), learned(t)
	v := open(t, store, nil)

	t.Run("every part", func(t *testing.T) { everyPart(t, visit(t, browser, v.url+"/", wide), v) })
	for _, as := range []look{{width: 360, scheme: "light"}, {width: 360, scheme: "dark"}, {width: 768, scheme: "dark"}, {width: 1200, scheme: "light"}, {width: 1600, scheme: "light"}, {width: 1600, scheme: "dark"}} {
		name := fmt.Sprintf("%d %s", as.width, as.scheme)
		t.Run(name, func(t *testing.T) {
			p := visit(t, browser, v.url+"/", as)
			p.fits(as.width)
			p.readable()
			p.named()
			p.shot(name)
		})
	}
	t.Run("no motion", func(t *testing.T) {
		p := visit(t, browser, v.url+"/", look{width: 1280, scheme: "light", still: true})
		if moving := evaluate[int](p, `[...document.querySelectorAll("*")].filter(e => getComputedStyle(e).animationName !== "none" || getComputedStyle(e).transitionDuration !== "0s").length`); moving > 0 {
			t.Errorf("%d elements move, for a reader who wants no motion", moving)
		}
	})
	t.Run("choices", func(t *testing.T) { choices(t, visit(t, browser, v.url+"/", wide)) })
	t.Run("token", func(t *testing.T) { wrongToken(t, visit(t, browser, v.url+"/", wide), v) })
	t.Run("pin", func(t *testing.T) { pinned(t, visit(t, browser, v.url+"/", wide), v) })
	t.Run("live", func(t *testing.T) { live(t, visit(t, browser, v.url+"/", wide), v) })
	t.Run("rollback", func(t *testing.T) { rolledBack(t, visit(t, browser, v.url+"/", wide), v) })
	t.Run("server gone", func(t *testing.T) { gone(t, browser, store) })
	t.Run("no stream", func(t *testing.T) { noStream(t, browser, store) })
	t.Run("nothing known", func(t *testing.T) { nothingKnown(t, browser) })
	t.Run("one part fails", func(t *testing.T) { onePartFails(t, browser, store) })
	t.Run("hostile name", func(t *testing.T) { hostileName(t, browser) })
	t.Run("closed", func(t *testing.T) { closedSite(t, browser, store) })
}

// everyPart wants in each part of the page what the JSON behind it says.
func everyPart(t *testing.T, p *tab, v *site) {
	var plan tuner.Plan
	v.get(modelPath+"/plan", &plan)
	p.shows("#answer", plan.Reason)
	for _, kernel := range []string{plan.Config.Decode.Kernel, plan.Config.SmallBatch.Kernel, plan.Config.Prefill.Kernel} {
		p.shows("#answer table", kernel)
	}
	var cert tuner.Certificate
	v.get(modelPath+"/certificate", &cert)
	p.shows("#certificate .headline", fmt.Sprintf("%.3f×", cert.Ratio.Estimate))
	p.shows("#certificate", fmt.Sprintf("%.3f to %.3f", cert.Ratio.Low, cert.Ratio.High))
	p.shows("#certificate", cert.Run)
	var table table
	v.get(modelPath+"/kernels", &table)
	var space spaces
	v.get(modelPath+"/space", &space)
	tried := map[string]bool{}
	for _, c := range space.Regimes[0].Cells {
		tried[c.Kernel+c.Blocking] = true
	}
	var past entries
	v.get(modelPath+"/timeline", &past)
	var runs curves
	v.get(modelPath+"/convergence", &runs)
	want := map[string]int{
		"#certificate > .body > .scroll tbody": 3,
		"#kernels tbody tr:not(.group)":        len(table.Rows),
		"#space tbody tr":                      min(14, len(tried)),
		"#timeline tbody tr":                   len(past.Entries),
		"#timeline .mark":                      len(past.Entries),
		"#timeline .stalk":                     12,
		"#convergence .curve":                  len(runs.Runs),
		"#convergence tbody tr":                len(runs.Runs),
		"#advice .advice > li":                 1,
		"#events tbody tr":                     1,
		"section .problem:not([hidden])":       0,
	}
	got := map[string]int{}
	for selector := range want {
		got[selector] = evaluate[int](p, fmt.Sprintf(`document.querySelectorAll(%q).length`, selector))
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("elements (-want +got):\n%s", diff)
	}
	p.shows("#host", "Simulated CPU")
	p.shows("#now", "mode use measures nothing")
	p.shows("#fleet", "Nothing came from other hosts")
	p.shows("#engines", "No engine was tuned here")
	if title := evaluate[string](p, "document.title"); title != "waiting · bitnet-autotune" {
		t.Errorf("title %q", title)
	}
	if bad := evaluate[[]string](p, `[...document.querySelectorAll("td, dd, p, text")].map(e => e.textContent).filter(s => /undefined|NaN|null|\[object|Infinity/.test(s))`); len(bad) > 0 {
		t.Errorf("texts that say nothing: %q", bad)
	}
}

// fits wants no part wider than the window.
func (p *tab) fits(width int64) {
	p.t.Helper()
	if got := evaluate[int64](p, "document.documentElement.scrollWidth"); got > width {
		p.t.Errorf("%d pixels wide in a window of %d", got, width)
	}
	if out := evaluate[[]string](p, `[...document.querySelectorAll("section, header > *, nav li, .facts dd, .legend > *, .actions button")]
		.filter(e => e.getBoundingClientRect().right > innerWidth + 0.5).map(e => e.id || e.textContent.slice(0, 60))`); len(out) > 0 {
		p.t.Errorf("these leave the window: %q", out)
	}
	if wider := evaluate[[]string](p, `[...document.querySelectorAll(".scroll:not(:has(.heat))")].filter(e => e.scrollWidth > e.clientWidth).map(e => e.ariaLabel + ": " + e.scrollWidth + " in " + e.clientWidth)`); len(wider) > 0 {
		p.t.Errorf("tables that are cut off: %q", wider)
	}
	if cut := evaluate[[]string](p, `[...document.querySelectorAll("svg text")].filter(e => e.getBoundingClientRect().right > e.closest("section").getBoundingClientRect().right + 1
		|| e.getBoundingClientRect().left < e.closest("section").getBoundingClientRect().left).map(e => e.textContent)`); len(cut) > 0 {
		p.t.Errorf("texts of plots that are cut off: %q", cut)
	}
}

// contrast is the ratio of WCAG 2.1 of every text to its ground, as the browser draws both.
const contrast = `(() => {
	const paint = document.createElement("canvas").getContext("2d", {willReadFrequently: true});
	const rgba = css => { paint.clearRect(0, 0, 1, 1); paint.fillStyle = css; paint.fillRect(0, 0, 1, 1); return [...paint.getImageData(0, 0, 1, 1).data].map((v, i) => i < 3 ? v : v / 255); };
	const over = (top, under) => top.slice(0, 3).map((v, i) => v * top[3] + under[i] * (1 - top[3]));
	const linear = v => (v /= 255) <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
	const light = c => 0.2126 * linear(c[0]) + 0.7152 * linear(c[1]) + 0.0722 * linear(c[2]);
	const ground = e => { const own = rgba(getComputedStyle(e).backgroundColor); return own[3] === 1 || !e.parentElement ? own.slice(0, 3) : over(own, ground(e.parentElement)); };
	const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT), list = [];
	while (texts.nextNode()) {
		const e = texts.currentNode.parentElement, style = getComputedStyle(e);
		if (!texts.currentNode.data.trim() || !e.checkVisibility({visibilityProperty: true}) || e.closest("title, .hidden, script, noscript")) continue;
		const back = ground(e), ink = over(rgba(e instanceof SVGElement ? style.fill : style.color), back);
		const [high, low] = [light(ink), light(back)].sort((a, b) => b - a);
		list.push({Text: texts.currentNode.data.trim().slice(0, 40), Ratio: (high + 0.05) / (low + 0.05), Size: parseFloat(style.fontSize)});
	}
	return list;
})()`

// readable wants every text to stand out from its ground, and none to be tiny.
func (p *tab) readable() {
	p.t.Helper()
	for _, text := range evaluate[[]struct {
		Text        string
		Ratio, Size float64
	}](p, contrast) {
		if text.Ratio < 4.5 || text.Size < 12 {
			p.t.Errorf("%q: contrast %.2f, %.1f pixels; want 4.5 and 12", text.Text, text.Ratio, text.Size)
		}
	}
}

// named wants a name for everything that one can act on and for every picture, as a screen reader says it.
func (p *tab) named() {
	p.t.Helper()
	tree, err := chromedp.Call(p.ctx, accessibility.GetFullAXTree, accessibility.GetFullAXTreeParams{})
	if err != nil {
		p.t.Fatal(err)
	}
	value := func(v *accessibility.Value) (text string) {
		if v != nil {
			_ = json.Unmarshal(v.Value, &text)
		}
		return text
	}
	count := 0
	for _, n := range tree.Nodes {
		role := value(n.Role)
		if n.Ignored || !slices.Contains([]string{"button", "link", "radio", "textbox", "img", "image", "graphics-document", "table", "region", "navigation", "group", "dialog", "DisclosureTriangle", "columnheader", "rowheader"}, role) {
			continue
		}
		if count++; strings.TrimSpace(value(n.Name)) == "" && role != "DisclosureTriangle" && role != "group" {
			p.t.Errorf("a %s has no name", role)
		}
	}
	if count < 30 {
		p.t.Errorf("%d nodes have a name; the page has more", count)
	}
	if headless := evaluate[[]string](p, `[...document.querySelectorAll("table")].filter(t => !t.caption || [...t.querySelectorAll("th")].some(h => !h.scope)).map(t => t.textContent.slice(0, 40))`); len(headless) > 0 {
		p.t.Errorf("tables without a caption, or with a head that says not of what: %q", headless)
	}
}

// shot keeps a picture of the page.
func (p *tab) shot(name string) {
	p.t.Helper()
	if *shots == "" {
		return
	}
	data, err := chromedp.Run(p.ctx, chromedp.FullScreenshot(100))
	if err == nil {
		err = os.WriteFile(filepath.Join(*shots, name+".png"), data, 0o666)
	}
	if err != nil {
		p.t.Fatal(err)
	}
}

// choices picks other regimes, axes and rows.
func choices(t *testing.T, p *tab) {
	before := evaluate[string](p, `document.querySelector("#convergence svg").outerHTML`)
	p.click(`#convergence input[value=prefill]`)
	p.until("another plot", fmt.Sprintf(`document.querySelector("#convergence svg").outerHTML !== %q`, before))
	p.until("the plot says so", `document.querySelector("#convergence svg").ariaLabel.startsWith("prefill")`)
	p.click(`#convergence input[value=seconds]`)
	p.shows("#convergence svg", "seconds")
	p.click(`#space input[value=prefill]`)
	p.shows("#space thead", "batch")
	if evaluate[bool](p, `!document.querySelector("#space input[value=all]")`) {
		t.Fatal("the space is too small to be shown in part")
	}
	few := evaluate[int](p, `document.querySelectorAll("#space tbody tr").length`)
	p.click(`#space input[value=all]`)
	p.until("all rows", fmt.Sprintf(`document.querySelectorAll("#space tbody tr").length > %d`, few))
	p.do(chromedp.Focus(chromedp.CSS(`#convergence input[value=prefill]`)))
	p.press(kb.ArrowLeft)
	p.until("an arrow key chooses", `document.activeElement.matches("#convergence input[value=small_batch]:checked")`)
}

// begin presses a button of the learned config, and gives the token where it is asked for.
func (p *tab) begin(act, token string) {
	p.t.Helper()
	p.click(fmt.Sprintf("[data-act=%s]", act))
	p.until("a dialog is open", `document.querySelector("dialog[open]") !== null`)
	if evaluate[bool](p, `document.getElementById("ask-token").open`) {
		p.do(chromedp.SendKeys(chromedp.CSS("#ask-token input"), token))
		p.press(kb.Enter)
	}
	p.until("it asks whether to", `document.getElementById("confirm").open`)
}

func wrongToken(t *testing.T, p *tab, v *site) {
	p.expected = "401"
	p.click("[data-act=pin]")
	p.until("it asks for the token", `document.getElementById("ask-token").open`)
	p.press(kb.Escape)
	p.closed()
	p.begin("pin", "not the token at all")
	p.click("#confirm-go")
	p.shows("#ask-token .problem", "token")
	p.until("the token is asked for again", `document.getElementById("ask-token").open`)
	p.click("#ask-token [data-close]")
	p.shows("#confirm .problem", "token")
	p.click("#confirm [data-close]")
	p.closed()
	if source := v.source(); source != tuner.Measured {
		t.Errorf("the plan is %s: a wrong token has changed it", source)
	}
	p.begin("pin", "wrong again")
	p.click("#confirm-go")
	p.shows("#ask-token .problem", "token")
	p.do(chromedp.SendKeys(chromedp.CSS("#ask-token input"), v.token))
	p.press(kb.Enter)
	p.closed()
	p.shows("#answer", "pinned by web page")
	v.unpin()
	p.shows("#answer", "measured here")
}

// source is where the plan comes from.
func (v *site) source() tuner.Source {
	v.t.Helper()
	plan, err := v.tuner.Plan(v.t.Context(), anyModel)
	if err != nil {
		v.t.Fatal(err)
	}
	return plan.Source
}

func (v *site) unpin() {
	v.t.Helper()
	if err := v.daemon.Unpin(v.t.Context(), anyModel, "the test"); err != nil {
		v.t.Fatal(err)
	}
}

// pinned pins and unpins with the keyboard alone.
func pinned(t *testing.T, p *tab, v *site) {
	p.do(chromedp.Focus(chromedp.CSS("#main")))
	for range 100 {
		if evaluate[bool](p, `document.activeElement.dataset.act === "pin"`) {
			break
		}
		p.press(kb.Tab)
		if evaluate[bool](p, `document.activeElement !== document.body && getComputedStyle(document.activeElement).outlineStyle === "none" && !document.activeElement.matches(".choice input")`) {
			t.Errorf("the focus does not show: %s", evaluate[string](p, "document.activeElement.outerHTML"))
		}
	}
	p.press(kb.Enter)
	p.until("it asks for the token", `document.activeElement.name === "token"`)
	p.do(chromedp.KeyEvent(v.token))
	p.press(kb.Enter)
	p.until("it asks whether to", `document.getElementById("confirm").contains(document.activeElement)`)
	p.shows("#confirm", "stays the answer until it is unpinned")
	p.press(kb.Escape)
	p.closed()
	if source := v.source(); source != tuner.Measured {
		t.Errorf("the plan is %s after Escape", source)
	}
	p.until("the focus is where it was", `document.activeElement.dataset.act === "pin"`)
	p.press(kb.Enter)
	p.until("it asks whether to", `document.getElementById("confirm").open && !document.getElementById("ask-token").open`)
	p.do(chromedp.SetValue(chromedp.CSS("#confirm-by input"), "ada"))
	p.do(chromedp.Focus(chromedp.CSS("#confirm-go")))
	p.press(kb.Enter)
	p.closed()
	p.shows("#answer", "pinned by ada")
	p.shows("#models", "pinned")
	p.shows("#timeline tbody", "by ada")
	p.shows("#events tbody", "pinned by ada")
	if source := v.source(); source != tuner.Pinned {
		t.Errorf("the plan is %s, want pinned", source)
	}
	p.until("nothing can be rolled back under a pin", `document.querySelector("[data-act=rollback]").disabled`)
	p.until("the focus is where it was", `document.activeElement.dataset.act === "unpin"`)
	p.press(kb.Enter)
	p.shows("#confirm-title", "Unpin")
	p.click("#confirm-go")
	p.closed()
	p.shows("#answer", "measured here")
	if source := v.source(); source != tuner.Measured {
		t.Errorf("the plan is %s, want measured", source)
	}
}

// live wants what others do to be shown without being asked for, and the reader's place to be kept.
func live(t *testing.T, p *tab, v *site) {
	p.click("#certificate summary")
	p.do(chromedp.ScrollIntoView(chromedp.CSS("#timeline")), chromedp.Focus(chromedp.CSS("#convergence input[value=decode]")))
	p.do(chromedp.Evaluate[chromedp.Void](`window.moved = 0; new PerformanceObserver(list => { for (const e of list.getEntries()) moved += e.value; }).observe({type: "layout-shift"});
		window.row = document.querySelector("#kernels tbody tr:nth-child(2)"); window.place = scrollY`))
	before := evaluate[int](p, `document.querySelectorAll("#convergence tbody tr").length`)
	learn(t, v.tuner)
	p.until("the new run is shown", fmt.Sprintf(`document.querySelectorAll("#convergence tbody tr").length === %d`, before+1))
	if err := v.daemon.Pin(t.Context(), anyModel, "somebody else"); err != nil {
		t.Fatal(err)
	}
	p.shows("#answer", "pinned by somebody else")
	p.shows("#events", "pinned by somebody else")
	v.unpin()
	p.shows("#answer", "measured here")
	if !evaluate[bool](p, `document.querySelector("#certificate details").open && document.activeElement.matches("#convergence input[value=decode]") && row.isConnected && scrollY === place`) {
		t.Error("what was open is shut, what had the focus has lost it, or the page has scrolled")
	}
	if moved := evaluate[float64](p, "moved"); moved > 0.02 {
		t.Errorf("the page has moved under its reader by %.3f", moved)
	}
}

func rolledBack(t *testing.T, p *tab, v *site) {
	p.begin("rollback", v.token)
	p.shows("#confirm-text", "certified before")
	p.click("#confirm-go") // without a reason
	p.until("it wants a reason", `document.querySelector("#confirm-why input:invalid") !== null && document.getElementById("confirm").open`)
	p.do(chromedp.SendKeys(chromedp.CSS("#confirm-why input"), "it <b>stutters</b>"))
	p.click("#confirm-go")
	p.closed()
	p.shows("#timeline tbody", "it <b>stutters</b>")
	p.shows("#events tbody", "rolled back by")
	back := false
	v.until(func() bool {
		var past entries
		v.get(modelPath+"/timeline", &past)
		back = slices.ContainsFunc(past.Entries, func(e entry) bool { return e.Kind == kindRollback && e.Why == "it <b>stutters</b>" })
		return back
	})
	if !back {
		t.Error("nothing was rolled back")
	}
}

func (v *site) until(ok func() bool) {
	for end := time.Now().Add(patience); !ok() && time.Now().Before(end); {
		time.Sleep(20 * time.Millisecond)
	}
}

// gone ends the server and begins another one at its place.
func gone(t *testing.T, browser context.Context, store string) {
	v := open(t, store, nil)
	p := visit(t, browser, v.url+"/", wide)
	p.expected = "net::ERR_"
	kept := evaluate[string](p, `document.querySelector("#certificate").textContent`)
	if err := v.end(); err != nil {
		t.Fatal(err)
	}
	p.shows("#link-text", "reconnecting")
	if now := evaluate[string](p, `document.querySelector("#certificate").textContent`); now != kept {
		t.Errorf("the certificate is now %q, was %q", now, kept)
	}
	again := open(t, store, func(o *Options) { o.Listen = strings.TrimPrefix(v.url, "http://") })
	p.shows("#link-text", "live")
	if err := again.daemon.Pin(t.Context(), anyModel, "the other daemon"); err != nil {
		t.Fatal(err)
	}
	p.shows("#answer", "pinned by the other daemon")
	again.unpin()
}

// noStream looks at a daemon that has as many readers as it takes, until they go.
func noStream(t *testing.T, browser context.Context, store string) {
	v := open(t, store, nil)
	var others []chan message
	for range mostStreams {
		other, _, _, _ := v.server.events.open("")
		others = append(others, other)
	}
	p := newTab(t, browser, v.url+"/", wide)
	p.expected = "503"
	p.do(chromedp.Navigate(v.url + "/"))
	p.shows("#link-text", "polling")
	if err := v.daemon.Pin(t.Context(), anyModel, "somebody else"); err != nil {
		t.Fatal(err)
	}
	p.shows("#answer", "pinned by somebody else")
	p.shows("#events", "pinned by somebody else")
	v.unpin()
	for _, other := range others {
		v.server.events.leave(other)
	}
	p.settle()
}

// nothingKnown looks at a daemon that has just begun.
func nothingKnown(t *testing.T, browser context.Context) {
	v := open(t, t.TempDir(), nil)
	p := visit(t, browser, v.url+"/", look{width: 360, scheme: "dark"})
	for _, part := range []string{"#certificate", "#convergence", "#space", "#kernels"} {
		p.shows(part, "othing measured yet")
	}
	p.shows("#answer", "from facts alone")
	p.until("nothing can be rolled back", `document.querySelector("[data-act=rollback]").disabled`)
	p.fits(360)
	p.readable()
	p.shot("empty")
}

func onePartFails(t *testing.T, browser context.Context, store string) {
	v := open(t, store, func(o *Options) {
		o.Machine = func(context.Context) (gpu.Machine, error) { return gpu.Machine{}, errors.New("no /proc here") }
	})
	p := visit(t, browser, v.url+"/", wide)
	p.expected = "500"
	p.shows("#host .problem", "Not available: no /proc here")
	p.shows("#certificate", "adopted")
	p.shows("#events", "background tuning begins")
}

// hostileName wants the name of a model to be text and nothing else.
func hostileName(t *testing.T, browser context.Context) {
	dir := t.TempDir()
	file := filepath.Join(dir, `"><img src=x onerror=document.title='owned'><svg onload=x>&amp;%2e?#.gguf`)
	if err := modeltest.WriteI2S(file, modeltest.Small(), 1); err != nil {
		t.Fatal(err)
	}
	v := open(t, t.TempDir(), nil, anyModel, file)
	p := visit(t, browser, v.url+"/", wide)
	p.until("it is there as text", fmt.Sprintf(`[...document.querySelectorAll("#models .name")].some(e => e.textContent === %q)`, file))
	p.click("#models li:nth-child(2) a")
	p.until("it is chosen", `document.querySelector("#models li:nth-child(2) a").getAttribute("aria-current") === "true"`)
	p.until("its parts are there", `!document.querySelector("#model [aria-busy=true]") && document.querySelector("#answer code") !== null`)
	p.begin("pin", v.token)
	p.shows("#confirm-title", filepath.Base(file))
	p.click("#confirm-go")
	p.closed()
	p.shows("#answer", "pinned by web page")
	if made := evaluate[int](p, `document.querySelectorAll("main img, [onerror], [onload]").length`); made > 0 || strings.Contains(evaluate[string](p, "document.title"), "owned") {
		t.Errorf("%d elements were made of the name of a model", made)
	}
	p.fits(wide.width)
}

// closedSite reads a page that tells nothing without the token.
func closedSite(t *testing.T, browser context.Context, store string) {
	v := open(t, store, func(o *Options) { o.Listen, o.TokenFile = "0.0.0.0:0", filepath.Join(store, tokenName) })
	url := fmt.Sprintf("http://127.0.0.1:%d/", v.server.listener.Addr().(*net.TCPAddr).Port)
	p := newTab(t, browser, url, wide)
	p.expected = "401"
	p.do(chromedp.Navigate(url))
	p.until("it asks for the token", `document.getElementById("ask-token").open`)
	p.shows("#link-text", "token needed")
	if told := evaluate[string](p, `document.querySelector("main").innerText`); strings.Contains(told, anyModel) || strings.Contains(told, "Simulated") {
		t.Errorf("without the token it tells\n%s", told)
	}
	p.do(chromedp.SendKeys(chromedp.CSS("#ask-token input"), "not the token"))
	p.press(kb.Enter)
	p.shows("#ask-token .problem", "That is not the daemon's token")
	p.do(chromedp.SendKeys(chromedp.CSS("#ask-token input"), v.token))
	p.press(kb.Enter)
	p.settle()
	p.shows("#certificate", "adopted")
	p.shows("#host", "Simulated CPU")
}
