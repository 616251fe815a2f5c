package web

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"k8s.io/utils/clock"
)

// browser returns a tab of Debian's Chromium, of .cache/chromium or of PATH, and what its console said so far. Without
// one the test is skipped.
func browser(t *testing.T) (ctx context.Context, said func() []string) {
	t.Helper()
	root, err := filepath.Abs("../../..")
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(root, ".cache", "chromium", "chromium.sh")
	if _, err := os.Stat(program); err != nil {
		if program, err = exec.LookPath("chromium"); err != nil {
			t.Skip("no Chromium; make chromium unpacks Debian's")
		}
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(program), chromedp.NoSandbox, chromedp.DisableGPU)
	ctx, cancel := chromedp.NewExecAllocator(context.Background(), options...)
	t.Cleanup(cancel)
	ctx, cancel = context.WithTimeout(ctx, 10*time.Minute)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewContext(ctx)
	t.Cleanup(cancel)
	var mu sync.Mutex
	var lines []string
	add := func(line string) {
		mu.Lock()
		defer mu.Unlock()
		lines = append(lines, line)
	}
	err = chromedp.Listen(ctx, func(event any) {
		switch e := event.(type) {
		case *log.EventEntryAdded:
			add(e.Entry.Text)
		case *runtime.EventExceptionThrown:
			add(fmt.Sprintf("%+v", e.ExceptionDetails))
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	return ctx, func() []string {
		mu.Lock()
		defer mu.Unlock()
		return lines
	}
}

// evaluate returns the value of an expression in the page.
func evaluate[T any](t *testing.T, ctx context.Context, expression string) T {
	t.Helper()
	v, err := chromedp.Run(ctx, chromedp.Evaluate[T](expression))
	if err != nil {
		t.Fatalf("%s: %v", expression, err)
	}
	return v
}

// becomes waits until an expression in the page is true.
func becomes(t *testing.T, ctx context.Context, expression string) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !evaluate[bool](t, ctx, expression); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("never: %s\n%s", expression, evaluate[string](t, ctx, `document.body.innerText`))
		}
	}
}

func act(t *testing.T, ctx context.Context, steps ...chromedp.Action[chromedp.Void]) {
	t.Helper()
	if err := chromedp.Do(ctx, steps...); err != nil {
		t.Fatal(err)
	}
}

// In a browser the page shows the cluster and each decision as it is made, the keyboard opens a node, and no name runs
// as a script.
func TestInChromium(t *testing.T) {
	ctx, said := browser(t)
	s := newTestServer(t, config{}, frozen{frameOf(300)})
	s.book.Decided(decided(1, hostile))
	u, err := url.Parse(s.http.URL)
	if err != nil {
		t.Fatal(err)
	}
	act(t, ctx, chromedp.EmulateViewport(1200, 900), chromedp.Navigate(u.String()+"/?key=sesame"))
	becomes(t, ctx, `document.querySelector("canvas[tabindex]")?.height > 100 && document.querySelector(".figures")?.textContent.includes("nodes 300") === true`)
	if at := evaluate[string](t, ctx, `location.search`); at != "" {
		t.Errorf("the key stays in the address: %s", at)
	}
	const pointed = `document.querySelector(".pointed").textContent`
	act(t, ctx, chromedp.Focus(chromedp.CSS("canvas[tabindex]")), chromedp.KeyEvent(kb.Home), chromedp.KeyEvent(kb.ArrowRight))
	if got := evaluate[string](t, ctx, pointed); !strings.HasPrefix(got, "node-3 · Ready · CPU 5%") { // the second of zone-a
		t.Errorf("the keyboard chose %q", got)
	}
	act(t, ctx, chromedp.KeyEvent(kb.Enter))
	becomes(t, ctx, `location.hash === "#node/node-3" && document.querySelector("h2")?.textContent === "Node node-3" && document.body.innerText.includes("Pods: 1")`)

	act(t, ctx, chromedp.Navigate(u.String()+"/#decisions"))
	becomes(t, ctx, `document.querySelectorAll("tbody tr").length === 1`)
	if got := evaluate[string](t, ctx, `document.querySelector("tbody td.name").textContent`); got != "shop/"+hostile {
		t.Errorf("the pod's name is %q", got)
	}
	s.book.Decided(decided(2, "web-2"))
	s.clock.Step(tick)
	becomes(t, ctx, `document.querySelector("tbody tr td.name").textContent === "shop/web-2"`)
	if row := evaluate[string](t, ctx, `document.querySelector("tbody tr").innerText.replaceAll("\t", "|").replace(/^[^|]*/, "")`); row != "|shop/web-2|node-1|0.25|node-2|node-2|12 µs|linear|2/3||why" {
		t.Errorf("the row is %q", row)
	}
	act(t, ctx, chromedp.Click(chromedp.CSS("tbody tr button")))
	becomes(t, ctx, `document.querySelector("tr.why pre")?.textContent.includes("The runner-up is node-2, 0.25 behind.") === true`)
	act(t, ctx, chromedp.SendKeys(chromedp.CSS("input[type=search]"), "script"))
	becomes(t, ctx, `document.querySelectorAll("tbody tr").length === 1 && document.querySelector("tbody td.name").textContent.includes("<script>")`)
	for _, page := range []string{"learning", "workloads", "zones", "events"} {
		act(t, ctx, chromedp.Navigate(u.String()+"/#"+page))
		becomes(t, ctx, fmt.Sprintf(`document.querySelector("h2")?.textContent.toLowerCase() === %q && document.querySelector("main div")?.childNodes.length > 0`, page))
	}
	if evaluate[bool](t, ctx, `window.pwned === true || document.querySelector("img[src='x'], script:not([src])") !== null`) {
		t.Error("a name ran as a script")
	}
	act(t, ctx, chromedp.EmulateViewport(360, 740), chromedp.Navigate(u.String()+"/#cluster"))
	becomes(t, ctx, `document.querySelector(".figures") !== null`)
	if wide := evaluate[int](t, ctx, `document.documentElement.scrollWidth`); wide > 360 {
		t.Errorf("the page is %d wide on a phone of 360", wide)
	}
	if lines := said(); len(lines) > 0 {
		t.Errorf("the console says: %s", strings.Join(lines, "; "))
	}
}

// In a browser, the sandbox plays, steps with the keyboard, and says what other nodes, weights and objectives change.
func TestSandboxInChromium(t *testing.T) {
	ctx, said := browser(t)
	s := newTestServer(t, config{Clock: clock.RealClock{}}, frozen{frameOf(3)})
	act(t, ctx, chromedp.EmulateViewport(1200, 900), chromedp.Navigate(s.http.URL+"/?key=sesame"))
	act(t, ctx, chromedp.Navigate(s.http.URL+"/#sandbox"))
	const ended, verdict = `document.querySelectorAll("main .charts table tbody tr").length === 2`, `document.querySelector("main p[role=status]").textContent`
	becomes(t, ctx, ended)
	if got := evaluate[string](t, ctx, verdict); !strings.Contains(got, "kube-scheduler would choose otherwise in ") {
		t.Errorf("the first run says %q", got)
	}
	about := `[...document.querySelectorAll("main > p")].find((p) => p.textContent.startsWith("Decision")).textContent`
	first := evaluate[string](t, ctx, about)
	act(t, ctx, chromedp.Focus(chromedp.CSS("input[type=range]")), chromedp.KeyEvent(kb.ArrowRight))
	if second := evaluate[string](t, ctx, about); !strings.HasPrefix(first, "Decision 1 of ") || !strings.HasPrefix(second, "Decision 2 of ") || !strings.Contains(second, "gnn chooses node-") {
		t.Errorf("%q, then %q", first, second)
	}
	set := func(name, value string) {
		t.Helper()
		act(t, ctx, chromedp.Evaluate[chromedp.Void](fmt.Sprintf(`{
			const e = document.querySelector("[name='%s']");
			e.value = %q;
			e.dispatchEvent(new Event(e.tagName === "SELECT" ? "change" : "input", {bubbles: true}));
		}`, name, value)))
	}
	for _, c := range []struct{ name, value, says string }{
		{"policy", "greedy", "pods went elsewhere than before the change"},
		{"weight-pack", "5", "pods went elsewhere than before the change"},
		{"policy", "own weights", "pods went elsewhere than before the change"},
		{"weight-used", "5", "pods went elsewhere than before the change"},
		{"nodes-large", "3", "before the change"},
	} {
		before := evaluate[string](t, ctx, verdict)
		set(c.name, c.value)
		becomes(t, ctx, fmt.Sprintf(`%s !== %q && %s && %s.includes(%q)`, verdict, before, ended, verdict, c.says))
	}
	set("nodes-small", "100")
	becomes(t, ctx, `document.querySelector("[role=alert]").textContent.includes("nodes of one kind are not 0 to 64")`)
	if lines := slices.DeleteFunc(said(), func(l string) bool { return strings.Contains(l, "400 (Bad Request)") }); len(lines) > 0 {
		t.Errorf("the console says: %s", strings.Join(lines, "; "))
	}
}

// TestScreenshots writes pictures of the pages into the folder WEB_SHOTS, for people to look at.
func TestScreenshots(t *testing.T) {
	to := os.Getenv("WEB_SHOTS")
	if to == "" {
		t.Skip("WEB_SHOTS names a folder")
	}
	for _, nodes := range []int{10, 300, 5000} {
		t.Run(fmt.Sprint(nodes), func(t *testing.T) {
			ctx, _ := browser(t)
			s := newTestServer(t, config{Clock: clock.RealClock{}}, frozen{frameOf(nodes)})
			for i := range 30 {
				s.book.Decided(decided(i, fmt.Sprint("web-", i)))
			}
			for _, scheme := range []string{"light", "dark"} {
				act(t, ctx, chromedp.Func(func(ctx context.Context, tab *chromedp.Target) error {
					_, err := cdp.Call(ctx, tab, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}})
					return err
				}), chromedp.EmulateViewport(1200, 800), chromedp.Navigate(s.http.URL+"/?key=sesame"))
				for _, page := range []string{"cluster", "decisions", "sandbox"} {
					act(t, ctx, chromedp.Navigate(s.http.URL+"/#"+page))
					becomes(t, ctx, `document.querySelectorAll("main canvas[tabindex], main tbody tr").length > 0 && (location.hash !== "#sandbox" || document.querySelectorAll("main .charts table").length > 0) && document.getElementById("state").textContent === "live"`)
					png, err := chromedp.Run(ctx, chromedp.FullScreenshot(100))
					if err == nil {
						err = os.WriteFile(filepath.Join(to, fmt.Sprintf("%s-%d-%s.png", page, nodes, scheme)), png, 0o600)
					}
					if err != nil {
						t.Fatal(err)
					}
				}
			}
		})
	}
}
