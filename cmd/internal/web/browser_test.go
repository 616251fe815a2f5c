package web

import (
	"context"
	"fmt"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"k8s.io/utils/clock"

	"gnnsched/cmd/internal/top/state"
	"gnnsched/internal/chromiumtest"
	"gnnsched/internal/fatal"
	"gnnsched/scheduler/decision"
	"gnnsched/scheduler/shadow"
	measured "gnnsched/scheduler/usage"
)

// scored is a report of usage that lacks one node.
var scored = []measured.Report{{
	Source: "prometheus", Polled: noon.Unix(), Newest: noon.Unix() - 12, Measured: 2, Degraded: 1,
	Named: []measured.Degraded{{Node: hostile, Reason: "stale"}},
}}

// In a browser the page shows the cluster and each decision as it is made, the keyboard opens a node, and no name runs
// as a script.
func TestInChromium(t *testing.T) {
	tab := chromiumtest.Open(t)
	s := newTestServer(t, config{}, frozen{frame: frameOf(300)})
	s.book.Decided(decided(1, hostile))
	u := fatal.Value(url.Parse(s.http.URL))(t)
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
	if cards := chromiumtest.Value[string](tab,
		`[...document.querySelector("main table").tBodies[0].rows].map((r) => [...r.cells].map((c) => c.innerText.trim()).join("|")).join("\n")`); cards != "0|100%|-|pods that name no device · 100%\n1|50%|-|shop/"+hostile+" · 50%\n2|0%|-|-\ngpu-3|75%|yes|ml/tune · 50% · partition gpu-3-mig-3g20gb-4 · claim ml/tune-gpu\nno pod on this node · 25% · partition gpu-3-mig-1g10gb-0 · claim ml/left" {
		t.Errorf("the GPUs are\n%s", cards)
	}

	tab.Do(chromedp.Navigate(u.String() + "/#decisions"))
	tab.Becomes(`document.querySelectorAll("tbody tr").length === 1`)
	if got := chromiumtest.Value[string](tab, `document.querySelector("tbody td.name").textContent`); got != "shop/"+hostile {
		t.Errorf("the pod's name is %q", got)
	}
	s.book.Decided(decided(2, "web-2"))
	s.clock.Step(tick)
	tab.Becomes(`document.querySelector("tbody tr td.name").textContent === "shop/web-2"`)
	if row := chromiumtest.Value[string](tab,
		`document.querySelector("tbody tr").innerText.replaceAll("\t", "|").replace(/^[^|]*/, "")`); row != "|shop/web-2|node-1|0.25|node-2|node-2|12 µs|linear|2/3||why" {
		t.Errorf("the row is %q", row)
	}
	tab.Do(chromedp.Click(chromedp.CSS("tbody tr button")))
	tab.Becomes(`document.querySelector("tr.why pre")?.textContent.includes("The runner-up is node-2, 0.25 behind.") === true`)
	tab.Do(chromedp.SendKeys(chromedp.CSS("input[type=search]"), "script"))
	tab.Becomes(`document.querySelectorAll("tbody tr").length === 1 && document.querySelector("tbody td.name").textContent.includes("<script>")`)
	for _, page := range []string{"pending", "used", "learning", "shadow", "events"} {
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

// In a browser, two profiles stand side by side, each with its decisions, and the reader can choose others.
func TestVersusInChromium(t *testing.T) {
	tab := chromiumtest.Open(t)
	s := newTestServer(t, config{}, frozen{frame: frameOf(3)})
	tab.Do(chromedp.EmulateViewport(1200, 900), chromedp.Navigate(s.http.URL+"/?key=sesame"))
	tab.Do(chromedp.Navigate(s.http.URL + "/#versus"))
	tab.Becomes(`document.querySelector("main").innerText.includes("decided nothing yet")`)
	decide := func(from, n int, profile string) {
		for i := range n {
			d := decided(from+i, fmt.Sprint(profile, "-", from+i))
			d.Profile = profile
			s.book.Decided(d)
		}
	}
	decide(0, 5, "gnn")
	decide(10, 3, hostile)
	decide(20, 1, "seldom")
	s.clock.Step(tick)
	const measures = `[...document.querySelector("main table").querySelectorAll("tr")].map((r) => [...r.cells].map((c) => c.textContent).join("|")).join(" ")`
	tab.Becomes(`document.querySelectorAll("main table").length === 3 && document.querySelector("main").innerText.includes("gnn-4")`)
	// Names are in order, so the hostile one comes first.
	if got := chromiumtest.Value[string](tab, measures); got != "|"+hostile+"|gnn decisions|3|5 bound now|0|0 bound/s now|0.0|3.1 pending "+
		"now|0|1 no node|0|0 as the default|0 of 3|0 of 5 fallbacks|0|0 nodes used|1|1 most on a node|3|5 median margin|0.25|0.25 median "+
		"latency|12 µs|12 µs" {
		t.Errorf("the measures are %s", got)
	}
	const first = `[...document.querySelectorAll("main .charts table")].map((t) => t.querySelector("tbody tr td.name").textContent).join(" ")`
	if got := chromiumtest.Value[string](tab, first); got != "shop/"+hostile+"-12 shop/gnn-4" {
		t.Errorf("the newest decisions are %s", got)
	}
	tab.Do(chromedp.Evaluate[chromedp.Void](`window.kept = document.querySelector("main .charts tbody tr")`),
		chromedp.Focus(chromedp.CSS("main input")))
	decide(30, 2, hostile)
	s.clock.Step(tick)
	tab.Becomes(`document.querySelector("main table tbody tr").innerText.includes("5\t5")`)
	if kept := chromiumtest.Value[bool](tab,
		`window.kept.isConnected && window.kept.rowIndex === 3 && document.activeElement.tagName === "INPUT"`); !kept {
		t.Error("new decisions replace what is there")
	}
	tab.Do(chromedp.Evaluate[chromedp.Void](`{
		const select = document.querySelectorAll("main select")[1];
		select.value = "seldom";
		select.dispatchEvent(new Event("change", {bubbles: true}));
	}`))
	tab.Becomes(`document.querySelectorAll("main .charts table")[1].innerText.includes("seldom: 1")`)
	tab.Do(chromedp.SendKeys(chromedp.CSS("main input"), "gnn-3"))
	tab.Becomes(`[...document.querySelectorAll("main table")].map((t) => t.tBodies[0].rows.length).join() === "11,1,0" && document.querySelectorAll("main select")[0].value === "gnn"`)
	clean(t, tab)
}

// In a browser, the page opens on the race, and its link leads to the sandbox at the decision in which the contenders differ first.
func TestRaceInChromium(t *testing.T) {
	_, first, err := Contest(1, "gnn")
	if err != nil || first == nil {
		t.Fatal(first, err)
	}
	tab := chromiumtest.Open(t)
	s := newTestServer(t, config{Clock: clock.RealClock{}, Race: func() Race {
		return Race{Arrivals: 9, First: first, Sides: []Side{
			{Name: "kube-scheduler", Steps: [][3]float64{{1, 0.01, 0}, {2, 0.02, 0}}, Mean: 0.015, Waiting: []Waiting{{hostile, 8000, 32 << 30}}},
			{Name: "gnn", Steps: [][3]float64{}, Waiting: []Waiting{}, Done: true},
		}}
	}}, frozen{frame: frameOf(3)})
	tab.Do(chromedp.EmulateViewport(1200, 900), chromedp.Navigate(s.http.URL+"/?key=sesame#race"))
	tab.Becomes(`document.querySelectorAll("main svg").length === 2 && document.querySelector("nav li").hidden === false`)
	if got := chromiumtest.Value[string](tab, `document.querySelector("main p[role=status]").innerText`); got != fmt.Sprintf("kube-scheduler: 2 "+
		"of 9 pods have arrived, 1 waits, mean cost 0.0150. gnn: 0 of 9 pods have arrived, 0 wait, mean cost 0.0000, done.\nThey differ first in "+
		"decision %d, about pod %s: gnn chose %s, where kube-scheduler would have chosen %s. That decision in the sandbox",
		first.Decision, first.Pod, first.Node, first.Other) {
		t.Errorf("it says %q", got)
	}
	const axes = `[...document.querySelectorAll("main svg")[1].querySelectorAll("text")].map((t) => t.textContent).join()`
	if got := chromiumtest.Value[string](tab, axes); got != "0,0.5,1,1,2" {
		t.Errorf("nobody waited until now, and the axes say %s", got)
	}
	tab.Do(chromedp.Click(chromedp.CSS("main p a")))
	tab.Becomes(fmt.Sprintf(`document.querySelector("main").innerText.includes("At the end") && document.querySelector("input[type=range]").value === "%d"`,
		first.Decision-1))
	about := chromiumtest.Value[string](tab, `document.querySelector("main").innerText`)
	for _, want := range []string{
		fmt.Sprintf("Decision %d of ", first.Decision), fmt.Sprintf(": pod %s requests", first.Pod), "gnn chooses " + first.Node, "would choose " + first.Other,
	} {
		if !strings.Contains(about, want) {
			t.Errorf("the sandbox lacks %q: %s", want, about)
		}
	}
	clean(t, tab)
}

// In a browser, a profile stands beside a scheduler of another process, with the pods that it has bound by the API.
func TestVersusStockInChromium(t *testing.T) {
	tab := chromiumtest.Open(t)
	s := newTestServer(t, config{},
		frozen{frame: frameOf(3), placed: []state.Placed{stock(hostile), {Scheduler: "gnn", Bound: 5, Nodes: 1, Most: 5}}})
	s.book.Decided(decided(1, "web-1"))
	tab.Do(chromedp.EmulateViewport(1200, 900), chromedp.Navigate(s.http.URL+"/?key=sesame"), chromedp.Navigate(s.http.URL+"/#versus"))
	tab.Becomes(`document.querySelectorAll("main table").length === 3`)
	for expression, want := range map[string]string{
		`[...document.querySelector("main table").rows].slice(0, 6).map((r) => [...r.cells].map((c) => c.textContent).join("|")).join(" ")`:     "|" + hostile + " (bound pods)|gnn decisions|-|1 bound now|400 on 7 nodes, most 90|5 on 1 node bound/s now|0.0|3.1 pending now|0|1 no node|-|0",
		`[...document.querySelectorAll("main .charts table")].map((t) => t.tBodies[0].rows.length + " " + t.tHead.rows[0].cells.length).join()`: "100 3,1 5",
		`[...document.querySelectorAll("main .charts tbody tr")].slice(2, 4).map((r) => r.cells[0].textContent === "-").join()`:                 "false,true",
	} {
		if got := chromiumtest.Value[string](tab, expression); got != want {
			t.Errorf("%s is %q, want %q", expression, got, want)
		}
	}
	tab.Do(chromedp.SendKeys(chromedp.CSS("main input"), "web-1"))
	tab.Becomes(`[...document.querySelectorAll("main .charts table")].map((t) => t.tBodies[0].rows.length).join() === "0,1"`)
	clean(t, tab)
}

// In a browser, the page of usage has bars of requests and usage, and the reader can sort it.
func TestUsedInChromium(t *testing.T) {
	tab := chromiumtest.Open(t)
	frame := frameOf(250)
	frame.Totals.Memory.Allocatable = 250 * 256 << 30
	for i := range frame.Nodes {
		if i != 7 {
			frame.Nodes[i].Used = &state.Measured{CPU: int64(i) * 320, Memory: 64 << 30}
		}
	}
	frame.Nodes[5].Name = hostile
	s := newTestServer(t, config{Usage: func() []measured.Report { return scored }}, frozen{frame: frame})
	tab.Do(chromedp.EmulateViewport(1200, 900), chromedp.Navigate(s.http.URL+"/?key=sesame"))
	tab.Do(chromedp.Navigate(s.http.URL + "/#used"))
	tab.Becomes(`(document.querySelector("main p.warn") || {textContent: ""}).textContent.startsWith("The scheduler scores 2 of 3 nodes by the usage that prometheus measures; ")`)
	tab.Becomes(`document.querySelector("main p.warn").textContent.endsWith("By requests: " + ` + strconv.Quote(hostile) + ` + " (stale).")`)
	tab.Becomes(`document.querySelectorAll("main tbody tr").length === 100`)
	const row = `document.querySelector("main tbody tr").innerText.split("\t").map((t) => t.trim()).join("|")`
	for expression, want := range map[string]string{
		`document.querySelector("main p").textContent`: "Used CPU 62% 9958/16000 · memory 25% 15.6Ti/62.5Ti · 249 of 250 nodes measured",
		row: "node-249|84%|125%|97%|25%",
		`String(document.querySelectorAll("main tbody meter")[1].value)`:   "1",
		`document.querySelector("main thead th:nth-child(3)").textContent`: "CPU used ▼",
		`document.querySelector("main .controls:last-child").textContent`:  "Previous1 to 100 of 250Next",
	} {
		if got := chromiumtest.Value[string](tab, expression); got != want {
			t.Errorf("%s is %q, want %q", expression, got, want)
		}
	}
	tab.Do(chromedp.Click(chromedp.CSS("main thead th:nth-child(3) button")))
	tab.Becomes(row + ` === "node-7|11%|-|3%|-"`)
	if focused := chromiumtest.Value[bool](tab, `document.activeElement.textContent === "CPU used ▲"`); !focused {
		t.Error("the button that was pressed is another one now")
	}
	tab.Do(chromedp.Click(chromedp.CSS("main .controls:last-child button:last-child")))
	tab.Becomes(`document.querySelector("main").innerText.includes("101 to 200 of 250")`)
	tab.Do(chromedp.SendKeys(chromedp.CSS("main input"), "script"))
	tab.Becomes(`document.querySelectorAll("main tbody tr").length === 1 && document.querySelector("main tbody td").textContent.startsWith("<script>")`)
	clean(t, tab)
}

// In a browser, the page of pending pods shows the scheduler's reasons, and searches all of them.
func TestPendingInChromium(t *testing.T) {
	tab := chromiumtest.Open(t)
	s := newTestServer(t, config{}, frozen{frame: frameOf(3)})
	tab.Do(chromedp.EmulateViewport(1200, 900), chromedp.Navigate(s.http.URL+"/?key=sesame"), chromedp.Navigate(s.http.URL+"/#pending"))
	const rows = `[...document.querySelectorAll("main table")].map((t) => t.caption.textContent + "\n" + [...t.tBodies[0].rows].map((r) => [...r.cells].map((c) => c.textContent).join("|")).join("\n")).join("\n")`
	tab.Becomes(`document.querySelectorAll("main table").length === 2`)
	// Waiting times go on, so they are left out.
	got := regexp.MustCompile(`\|\d+[smhd]\|`).ReplaceAllString(chromiumtest.Value[string](tab, rows), "|age|")
	const message = "0/3 nodes are available: 1 node(s) had untolerated taint {" + hostile +
		"}, 2 Insufficient cpu. preemption: 0/3 nodes are available: 3 No preemption victims found."
	if want := strings.Join([]string{
		"Why they wait: 3", "Insufficient cpu|2|3", "node(s) had untolerated taint {" + hostile + "}|1|1", "no scheduler has tried it yet|1|-",
		"The oldest first: 3", "shop/" + hostile + "|Deployment/" + hostile + "|age|gnn|Unschedulable|" + message,
		"shop/web-1|Deployment/web|age|gnn|Unschedulable|0/3 nodes are available: 3 Insufficient cpu.",
		"shop/new|-|age|" + hostile + "|-|no scheduler has tried it yet",
	}, "\n"); got != want {
		t.Errorf("the page has\n%s\nwant\n%s", got, want)
	}
	tab.Do(chromedp.SendKeys(chromedp.CSS("main input"), "web-1"))
	tab.Becomes(`[...document.querySelectorAll("main table")].map((t) => t.tBodies[0].rows.length).join() === "1,1"`)
	tab.Do(chromedp.SendKeys(chromedp.CSS("main input"), " nothing"))
	tab.Becomes(`document.querySelector("main").innerText.includes("No pending pod passes the filter.")`)
	clean(t, tab)
}

// clean checks that no name became markup, and that the console is silent.
func clean(t *testing.T, tab *chromiumtest.Tab) {
	t.Helper()
	if chromiumtest.Value[bool](tab, `window.pwned === true || document.querySelector("main script, main img") !== null`) {
		t.Error("a name became markup")
	}
	if lines := tab.Said(); len(lines) > 0 {
		t.Errorf("the console says: %s", strings.Join(lines, "; "))
	}
}

// In a browser, the page of learning has a curve for each figure.
func TestLearningInChromium(t *testing.T) {
	tab := chromiumtest.Open(t)
	s := newTestServer(t, config{Curves: taught(t, 12)}, frozen{frame: frameOf(3)})
	tab.Do(chromedp.EmulateViewport(360, 740), chromedp.Navigate(s.http.URL+"/?key=sesame"))
	tab.Do(chromedp.Navigate(s.http.URL + "/#learning"))
	tab.Becomes(`document.querySelectorAll("main svg.chart").length > 0`)
	for expression, want := range map[string]string{
		`document.querySelector("main h3").textContent`:                    "gnn",
		`document.querySelector("main table caption").textContent`:         "Since the scheduler began",
		`document.querySelector("main tbody tr").innerText.split("\t")[0]`: "120",
		`[...document.querySelectorAll("main svg.chart")].map((c) => c.getAttribute("aria-label")).slice(0, 3).join("; ")`: "Loss: loss " +
			"0.00833; Score on held-out episodes: held-out score 1.25, limit of the score 1.5; Placements a minute: placements/min 60",
		`String(document.querySelector("main svg.chart polyline").getAttribute("points").trim().split(" ").length)`: "12",
		`String(document.querySelectorAll("main svg.chart")[1].querySelectorAll("polyline").length)`:                "2",
		`String(document.documentElement.scrollWidth <= 360)`:                                                       "true",
		`String(window.pwned === true || document.querySelector("main script, main img") !== null)`:                 "false",
		`String([...document.querySelectorAll("main figcaption")].some((c) => c.textContent.includes("<script>")))`: "true",
	} {
		if got := chromiumtest.Value[string](tab, expression); got != want {
			t.Errorf("%s is %q, want %q", expression, got, want)
		}
	}
	if lines := tab.Said(); len(lines) > 0 {
		t.Errorf("the console says: %s", strings.Join(lines, "; "))
	}
}

// In a browser, the page of a shadow scheduler shows its choices and whether to switch.
func TestShadowInChromium(t *testing.T) {
	tab := chromiumtest.Open(t)
	s := newTestServer(t, config{Shadow: watched}, frozen{frame: frameOf(3)})
	tab.Do(chromedp.EmulateViewport(1200, 900), chromedp.Navigate(s.http.URL+"/?key=sesame"))
	tab.Becomes(`[...document.querySelectorAll("nav a")].filter((a) => !a.parentElement.hidden).map((a) => a.hash).join(" ") === "#cluster #pending #used #decisions #shadow #events #sandbox"`)
	tab.Do(chromedp.Navigate(s.http.URL + "/#shadow"))
	tab.Becomes(`document.querySelectorAll("main table").length === 3`)
	text := chromiumtest.Value[string](tab, `document.querySelector("main").innerText.replaceAll("\t", "|")`)
	for _, want := range []string{
		"NOT WORTH IT · gnn in the shadow of default-scheduler since", "the cost would be higher", "cost|0.2|0.25|+0.05 (+0.01 to +0.09)",
		"41 bound by default-scheduler, 40 compared; agreement 23%", "another node|30|77%", "waiting now with gnn: 1.",
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

// In a browser, the decisions in the shadow say where pods would go, where they really are, and why.
func TestShadowDecisionsInChromium(t *testing.T) {
	tab := chromiumtest.Open(t)
	s := newTestServer(t, config{Shadow: watched}, frozen{frame: frameOf(3)})
	s.book.Decided(decision.Decision{
		Number: 1, Profile: "gnn", Policy: "best-fit", Pod: decision.Pod{Namespace: "shop", Name: "web-1", UID: "u"}, At: noon, Node: "node-2",
		Really: "node-1",
		Nodes:  3, Feasible: 3, Preferred: 3, Best: []decision.Candidate{{Node: "node-2", Score: 3}, {Node: "node-1", Score: 1}},
	})
	tab.Do(chromedp.EmulateViewport(1200, 900), chromedp.Navigate(s.http.URL+"/?key=sesame"), chromedp.Navigate(s.http.URL+"/#decisions"))
	tab.Becomes(`document.querySelector("main").innerText.replaceAll("\t", "|").includes("|shop/web-1|node-2|node-1|2|")`)
	if titles := chromiumtest.Value[string](tab,
		`[...document.querySelectorAll("main th")].slice(1, 4).map((h) => h.innerText).join()`); titles != "Pod,Would go to,Really on" {
		t.Error(titles)
	}
	tab.Do(chromedp.Click("main td button"))
	tab.Becomes(`document.querySelector("main pre")?.innerText.includes("The pod would go to node-2, and is really on node-1.") === true`)
	if lines := tab.Said(); len(lines) > 0 {
		t.Errorf("the console says: %s", strings.Join(lines, "; "))
	}
}

// In a browser, shadow updates change the page in place: the reader keeps the focus on a link, and the link's row.
func TestShadowStaysInChromium(t *testing.T) {
	tab := chromiumtest.Open(t)
	var later atomic.Bool
	s := newTestServer(t, config{Shadow: func(ctx context.Context) (shadow.Live, error) {
		l, err := watched(ctx)
		if later.Load() {
			l.Counts.Compared, l.Verdict.Why, l.Gain = 41, append(l.Verdict.Why, "<b>one more</b>"), nil
			l.Recent = append([]shadow.Comparison{{Time: noon.Add(time.Second), Pod: "shop/new", What: "same", Theirs: "node-2", Node: "node-2"}},
				l.Recent[:1]...)
			l.Course = append(l.Course, shadow.Block{Seconds: 60, Theirs: 0.3, Ours: 0.2})
		}
		return l, err
	}}, frozen{frame: frameOf(3)})
	tab.Do(chromedp.EmulateViewport(1200, 900), chromedp.Navigate(s.http.URL+"/?key=sesame"))
	tab.Do(chromedp.Navigate(s.http.URL + "/#shadow"))
	tab.Becomes(`document.querySelectorAll("main table").length === 3`)
	tab.Do(chromedp.Evaluate[chromedp.Void](`{
		const row = [...document.querySelectorAll("main tr")].find((r) => r.innerText.includes("<script>"));
		row.querySelector("a").focus();
		window.kept = [row, document.querySelector("main svg"), document.querySelector("main table")];
	}`))
	later.Store(true)
	s.open(t) // a new client gets the newest state, and so do the others
	tab.Becomes(`document.querySelector("main").innerText.includes("41 compared")`)
	for expression, want := range map[string]string{
		`String(window.kept.every((e) => e.isConnected))`:                                                                "true",
		`String(window.kept[0].contains(document.activeElement))`:                                                        "true",
		`[...document.querySelectorAll("main table")].at(-1).querySelectorAll("tbody tr")[0].cells[1].textContent`:       "shop/new",
		`String([...document.querySelectorAll("main table")].at(-1).querySelectorAll("tbody tr")[1] === window.kept[0])`: "true",
		`String([...document.querySelectorAll("main table")].at(-1).querySelectorAll("tbody tr").length)`:                "2",
		`[...document.querySelectorAll("main li")].map((e) => e.textContent).join("; ")`: "the cost would be " +
			"higher; <b>one more</b>",
		`document.querySelector("main table tbody tr").innerText.split("\t")[3]`:                               "not yet known",
		`String(document.querySelector("main svg polyline").getAttribute("points").split(" ").length)`:         "3",
		`String(window.pwned === true || document.querySelector("main script, main img, main li b") !== null)`: "false",
	} {
		if got := chromiumtest.Value[string](tab, expression); got != want {
			t.Errorf("%s is %q, want %q", expression, got, want)
		}
	}
	if lines := tab.Said(); len(lines) > 0 {
		t.Errorf("the console says: %s", strings.Join(lines, "; "))
	}
}

// In a browser, the sandbox plays, steps with the keyboard, and shows the effect of other nodes, weights and objectives.
func TestSandboxInChromium(t *testing.T) {
	tab := chromiumtest.Open(t)
	s := newTestServer(t, config{Clock: clock.RealClock{}}, frozen{frame: frameOf(3)})
	tab.Do(chromedp.EmulateViewport(1200, 900), chromedp.Navigate(s.http.URL+"/?key=sesame"))
	tab.Do(chromedp.Navigate(s.http.URL + "/#sandbox"))
	const ended, verdict = `document.querySelectorAll("main .charts table tbody tr").length === 2`,
		`document.querySelector("main p[role=status]").textContent`
	tab.Becomes(ended)
	if got := chromiumtest.Value[string](tab, verdict); !strings.Contains(got, "kube-scheduler would choose otherwise in ") {
		t.Errorf("the first run says %q", got)
	}
	about := `[...document.querySelectorAll("main > p")].find((p) => p.textContent.startsWith("Decision")).textContent`
	first := chromiumtest.Value[string](tab, about)
	tab.Do(chromedp.Focus(chromedp.CSS("input[type=range]")), chromedp.KeyEvent(kb.ArrowRight))
	if second := chromiumtest.Value[string](tab, about); !strings.HasPrefix(first, "Decision 1 of ") ||
		!strings.HasPrefix(second, "Decision 2 of ") || !strings.Contains(second, "gnn chooses node-") {
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
	tab.Becomes(`document.querySelector("[role=alert]").textContent.includes("small (16 CPU, 64 GiB): 100 is not a whole number from 0 to 64")`)
	set("nodes-small", "1.5")
	tab.Becomes(`document.querySelector("[role=alert]").textContent.includes("1.5 is not a whole number from 0 to 64")`)
	set("nodes-small", "2")
	tab.Becomes(`document.querySelector("[role=alert]").textContent === "" && location.hash.includes("nodes-small=2") && location.hash.includes("policy=own+weights")`)
	tab.Do(chromedp.Evaluate[chromedp.Void](`[...document.querySelectorAll("main button")].find((b) => b.textContent === "Copy as scenario").click()`))
	tab.Becomes(`document.querySelector("main pre").textContent.startsWith("# gnnsched eval --scenario sandbox.yaml --seed 1 --seeds 20 --policies linear:own.json,kube-scheduler")`)
	tab.Do(chromedp.Reload())
	tab.Becomes(`document.querySelector("[name='nodes-small']")?.value === "2" && document.querySelector("[name='weight-pack']").value === "5" && document.querySelector("[name=policy]").value === "own weights"`)
	if lines := tab.Said(); len(lines) > 0 {
		t.Errorf("the console says: %s", strings.Join(lines, "; "))
	}
}

// lively returns a server with nodes that are used, decisions of two profiles, learning, a shadow, and a sandbox that has an episode.
func lively(t *testing.T, nodes int) *testServer {
	t.Helper()
	frame := frameOf(nodes)
	for i := range frame.Nodes {
		frame.Nodes[i].Used = &state.Measured{CPU: int64(i%65) * 700, Memory: int64(i%257) << 29}
	}
	s := newTestServer(t, config{Clock: clock.RealClock{}, Curves: taught(t, 30), Shadow: watched}, frozen{frame: frame})
	for i := range 30 {
		d := decided(i, fmt.Sprint("web-", i))
		d.Profile = []string{"gnn", "default-scheduler"}[i%2]
		s.book.Decided(d)
	}
	return s
}

// drawn is true when a page of lively is there.
const drawn = `document.querySelectorAll("main canvas[tabindex], main tbody tr").length > 0 && (location.hash !== "#sandbox" || document.querySelectorAll("main .charts table").length > 0) && document.getElementById("state").textContent === "live"`

// Every page looks as the reader prefers, light or dark, with few nodes and with many.
func TestLooks(t *testing.T) {
	for _, nodes := range []int{10, 5000} {
		t.Run(fmt.Sprint(nodes), func(t *testing.T) {
			tab, s := chromiumtest.Open(t), lively(t, nodes)
			for _, scheme := range []string{"light", "dark"} {
				tab.Scheme(scheme)
				tab.Do(chromedp.EmulateViewport(1200, 800), chromedp.Navigate(s.http.URL+"/?key=sesame"))
				for _, page := range []string{"cluster", "pending", "node/node-1", "used", "decisions", "versus", "learning", "shadow",
					"sandbox"} {
					tab.Do(chromedp.Navigate(s.http.URL + "/#" + page))
					tab.Becomes(drawn)
					bright, colours := tab.Picture(fmt.Sprintf("%s-%d-%s", strings.ReplaceAll(page, "/", "-"), nodes, scheme))
					if (scheme == "light") != (bright > 0.5) || colours < 20 {
						t.Errorf("%s, %s: the brightness is %.2f, with %d colours", page, scheme, bright, colours)
					}
				}
			}
		})
	}
}

// On every page, each control and picture has a name, and text stands out in light and in dark.
func TestAccessible(t *testing.T) {
	tab, s := chromiumtest.Open(t), lively(t, 10)
	tab.Do(chromedp.EmulateViewport(1200, 800), chromedp.Navigate(s.http.URL+"/?key=sesame"))
	for _, page := range []string{"cluster", "pending", "node/node-1", "used", "decisions", "versus", "learning", "shadow",
		"sandbox", "events"} {
		tab.Do(chromedp.Navigate(s.http.URL + "/#" + page))
		if page == "events" { // it may have no rows
			tab.Becomes(fmt.Sprintf(`document.querySelector("h2")?.textContent.toLowerCase().includes(%q) && document.querySelector("main div")?.childNodes.length > 0`, page))
		} else {
			tab.Becomes(drawn)
		}
		tab.Accessible()
	}
	tab.Do(chromedp.Navigate(s.http.URL + "/#decisions"))
	tab.Becomes(`document.querySelectorAll("tbody tr button").length > 0`)
	tab.Do(chromedp.Click(chromedp.CSS("tbody tr button")))
	tab.Becomes(`document.querySelector("tr.why pre") !== null`)
	tab.Accessible()
}
