package web

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"k8s.io/utils/clock"

	"gnnsched/internal/chromiumtest"
)

// In a browser the page shows the cluster and each decision as it is made, the keyboard opens a node, and no name runs
// as a script.
func TestInChromium(t *testing.T) {
	tab := chromiumtest.Open(t)
	s := newTestServer(t, config{}, frozen{frameOf(300)})
	s.book.Decided(decided(1, hostile))
	u, err := url.Parse(s.http.URL)
	if err != nil {
		t.Fatal(err)
	}
	tab.Do(chromedp.EmulateViewport(1200, 900), chromedp.Navigate(u.String()+"/?key=sesame"))
	tab.Becomes(`document.querySelector("canvas[tabindex]")?.height > 100 && document.querySelector(".figures")?.textContent.includes("nodes 300") === true`)
	if at := chromiumtest.Value[string](tab, `location.search`); at != "" {
		t.Errorf("the key stays in the address: %s", at)
	}
	const pointed = `document.querySelector(".pointed").textContent`
	tab.Do(chromedp.Focus(chromedp.CSS("canvas[tabindex]")), chromedp.KeyEvent(kb.Home), chromedp.KeyEvent(kb.ArrowRight))
	if got := chromiumtest.Value[string](tab, pointed); !strings.HasPrefix(got, "node-3 · Ready · CPU 5%") { // the second of zone-a
		t.Errorf("the keyboard chose %q", got)
	}
	tab.Do(chromedp.KeyEvent(kb.Enter))
	tab.Becomes(`location.hash === "#node/node-3" && document.querySelector("h2")?.textContent === "Node node-3" && document.body.innerText.includes("Pods: 1")`)

	tab.Do(chromedp.Navigate(u.String() + "/#decisions"))
	tab.Becomes(`document.querySelectorAll("tbody tr").length === 1`)
	if got := chromiumtest.Value[string](tab, `document.querySelector("tbody td.name").textContent`); got != "shop/"+hostile {
		t.Errorf("the pod's name is %q", got)
	}
	s.book.Decided(decided(2, "web-2"))
	s.clock.Step(tick)
	tab.Becomes(`document.querySelector("tbody tr td.name").textContent === "shop/web-2"`)
	if row := chromiumtest.Value[string](tab, `document.querySelector("tbody tr").innerText.replaceAll("\t", "|").replace(/^[^|]*/, "")`); row != "|shop/web-2|node-1|0.25|node-2|node-2|12 µs|linear|2/3||why" {
		t.Errorf("the row is %q", row)
	}
	tab.Do(chromedp.Click(chromedp.CSS("tbody tr button")))
	tab.Becomes(`document.querySelector("tr.why pre")?.textContent.includes("The runner-up is node-2, 0.25 behind.") === true`)
	tab.Do(chromedp.SendKeys(chromedp.CSS("input[type=search]"), "script"))
	tab.Becomes(`document.querySelectorAll("tbody tr").length === 1 && document.querySelector("tbody td.name").textContent.includes("<script>")`)
	for _, page := range []string{"learning", "shadow", "workloads", "zones", "events"} {
		tab.Do(chromedp.Navigate(u.String() + "/#" + page))
		tab.Becomes(fmt.Sprintf(`document.querySelector("h2")?.textContent.toLowerCase().includes(%q) && document.querySelector("main div")?.childNodes.length > 0`, page))
	}
	if chromiumtest.Value[bool](tab, `window.pwned === true || document.querySelector("img[src='x'], script:not([src])") !== null`) {
		t.Error("a name ran as a script")
	}
	tab.Do(chromedp.EmulateViewport(360, 740), chromedp.Navigate(u.String()+"/#cluster"))
	tab.Becomes(`document.querySelector(".figures") !== null`)
	if wide := chromiumtest.Value[int](tab, `document.documentElement.scrollWidth`); wide > 360 {
		t.Errorf("the page is %d wide on a phone of 360", wide)
	}
	if lines := tab.Said(); len(lines) > 0 {
		t.Errorf("the console says: %s", strings.Join(lines, "; "))
	}
}

// In a browser, the page of learning has a curve for each figure.
func TestLearningInChromium(t *testing.T) {
	tab := chromiumtest.Open(t)
	s := newTestServer(t, config{Course: taught(t, 12)}, frozen{frameOf(3)})
	tab.Do(chromedp.EmulateViewport(360, 740), chromedp.Navigate(s.http.URL+"/?key=sesame"))
	tab.Do(chromedp.Navigate(s.http.URL + "/#learning"))
	tab.Becomes(`document.querySelectorAll("main svg.chart").length > 0`)
	for expression, want := range map[string]string{
		`document.querySelector("main h3").textContent`:                                                                    "gnn",
		`document.querySelector("main table caption").textContent`:                                                         "Since the scheduler began",
		`document.querySelector("main tbody tr").innerText.split("\t")[0]`:                                                 "120",
		`[...document.querySelectorAll("main svg.chart")].map((c) => c.getAttribute("aria-label")).slice(0, 3).join("; ")`: "Loss: loss 0.00833; Score on held-out episodes: held-out score 1.25, limit of the score 1.5; Placements a minute: placements/min 60",
		`String(document.querySelector("main svg.chart polyline").getAttribute("points").trim().split(" ").length)`:        "12",
		`String(document.querySelectorAll("main svg.chart")[1].querySelectorAll("polyline").length)`:                       "2",
		`String(document.documentElement.scrollWidth <= 360)`:                                                              "true",
		`String(window.pwned === true || document.querySelector("main script, main img") !== null)`:                        "false",
		`String([...document.querySelectorAll("main figcaption")].some((c) => c.textContent.includes("<script>")))`:        "true",
	} {
		if got := chromiumtest.Value[string](tab, expression); got != want {
			t.Errorf("%s is %q, want %q", expression, got, want)
		}
	}
	if lines := tab.Said(); len(lines) > 0 {
		t.Errorf("the console says: %s", strings.Join(lines, "; "))
	}
}

// In a browser, the page of a scheduler in the shadow says what it would choose and whether to switch.
func TestShadowInChromium(t *testing.T) {
	tab := chromiumtest.Open(t)
	s := newTestServer(t, config{Shadow: watched}, frozen{frameOf(3)})
	tab.Do(chromedp.EmulateViewport(1200, 900), chromedp.Navigate(s.http.URL+"/?key=sesame"))
	tab.Becomes(`[...document.querySelectorAll("nav a")].filter((a) => !a.parentElement.hidden).map((a) => a.hash).join(" ") === "#cluster #shadow #workloads #zones #events #sandbox"`)
	tab.Do(chromedp.Navigate(s.http.URL + "/#shadow"))
	tab.Becomes(`document.querySelectorAll("main table").length === 3`)
	text := chromiumtest.Value[string](tab, `document.querySelector("main").innerText.replaceAll("\t", "|")`)
	for _, want := range []string{
		"NOT WORTH IT · gnn in the shadow of default-scheduler since", "the cost would be higher", "cost|0.2|0.25|+0.05 (+0.01 to +0.09)", "another node|30|75%", "waiting now with gnn: 1.",
		"|shop/" + hostile + "|node-1|node-2|another node|-0.0125|1.5", "|node-1|none|no node fits: 3 Insufficient cpu||0.5",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the page lacks %q:\n%s", want, text)
		}
	}
	if evil := chromiumtest.Value[bool](tab, `window.pwned === true || document.querySelector("main script, main img") !== null`); evil {
		t.Error("a name became markup")
	}
	if lines := tab.Said(); len(lines) > 0 {
		t.Errorf("the console says: %s", strings.Join(lines, "; "))
	}
}

// In a browser, the sandbox plays, steps with the keyboard, and says what other nodes, weights and objectives change.
func TestSandboxInChromium(t *testing.T) {
	tab := chromiumtest.Open(t)
	s := newTestServer(t, config{Clock: clock.RealClock{}}, frozen{frameOf(3)})
	tab.Do(chromedp.EmulateViewport(1200, 900), chromedp.Navigate(s.http.URL+"/?key=sesame"))
	tab.Do(chromedp.Navigate(s.http.URL + "/#sandbox"))
	const ended, verdict = `document.querySelectorAll("main .charts table tbody tr").length === 2`, `document.querySelector("main p[role=status]").textContent`
	tab.Becomes(ended)
	if got := chromiumtest.Value[string](tab, verdict); !strings.Contains(got, "kube-scheduler would choose otherwise in ") {
		t.Errorf("the first run says %q", got)
	}
	about := `[...document.querySelectorAll("main > p")].find((p) => p.textContent.startsWith("Decision")).textContent`
	first := chromiumtest.Value[string](tab, about)
	tab.Do(chromedp.Focus(chromedp.CSS("input[type=range]")), chromedp.KeyEvent(kb.ArrowRight))
	if second := chromiumtest.Value[string](tab, about); !strings.HasPrefix(first, "Decision 1 of ") || !strings.HasPrefix(second, "Decision 2 of ") || !strings.Contains(second, "gnn chooses node-") {
		t.Errorf("%q, then %q", first, second)
	}
	set := func(name, value string) {
		t.Helper()
		tab.Do(chromedp.Evaluate[chromedp.Void](fmt.Sprintf(`{
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
		before := chromiumtest.Value[string](tab, verdict)
		set(c.name, c.value)
		tab.Becomes(fmt.Sprintf(`%s !== %q && %s && %s.includes(%q)`, verdict, before, ended, verdict, c.says))
	}
	set("nodes-small", "100")
	tab.Becomes(`document.querySelector("[role=alert]").textContent.includes("nodes of one kind are not 0 to 64")`)
	if lines := slices.DeleteFunc(tab.Said(), func(l string) bool { return strings.Contains(l, "400 (Bad Request)") }); len(lines) > 0 {
		t.Errorf("the console says: %s", strings.Join(lines, "; "))
	}
}

// Every page looks as the reader prefers, light or dark, with few nodes and with many. The sandbox has an episode to show.
func TestLooks(t *testing.T) {
	for _, nodes := range []int{10, 5000} {
		t.Run(fmt.Sprint(nodes), func(t *testing.T) {
			tab := chromiumtest.Open(t)
			s := newTestServer(t, config{Clock: clock.RealClock{}, Course: taught(t, 30), Shadow: watched}, frozen{frameOf(nodes)})
			for i := range 30 {
				s.book.Decided(decided(i, fmt.Sprint("web-", i)))
			}
			for _, scheme := range []string{"light", "dark"} {
				tab.Scheme(scheme)
				tab.Do(chromedp.EmulateViewport(1200, 800), chromedp.Navigate(s.http.URL+"/?key=sesame"))
				for _, page := range []string{"cluster", "decisions", "learning", "shadow", "sandbox"} {
					tab.Do(chromedp.Navigate(s.http.URL + "/#" + page))
					tab.Becomes(`document.querySelectorAll("main canvas[tabindex], main tbody tr").length > 0 && (location.hash !== "#sandbox" || document.querySelectorAll("main .charts table").length > 0) && document.getElementById("state").textContent === "live"`)
					bright, colours := tab.Picture(fmt.Sprintf("%s-%d-%s", page, nodes, scheme))
					if (scheme == "light") != (bright > 0.5) || colours < 20 {
						t.Errorf("%s, %s: the brightness is %.2f, with %d colours", page, scheme, bright, colours)
					}
				}
			}
		})
	}
}
