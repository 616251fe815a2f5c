package report

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	ucli "github.com/urfave/cli/v2"
	"golang.org/x/net/html"
	"pgregory.net/rapid"

	"gnnsched/internal/chromiumtest"
	"gnnsched/internal/fatal"
	"gnnsched/scheduler/eval"
)

const hostile = `</script><script>window.pwned=true</script><img src=x onerror="window.pwned=true">'"&{{.}}`

func ptr(v float64) *float64 { return &v }

// runOfTest returns an evaluation whose names are hostile.
func runOfTest() Run {
	started := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	x := Scenario{
		Name: "mixed" + hostile, About: hostile, Objective: hostile, Baseline: "default", Observed: eval.Observed{Unit: "seconds"},
		Metrics: []Metric{{Name: "cost", Title: "objective", Digits: 4}, {Name: "unscheduled", Title: "unscheduled " + hostile, Digits: 1}},
		Differences: []Difference{{
			Contender: "gnn" + hostile, Metric: "cost", Mean: -0.02, Low: ptr(-0.03), High: ptr(-0.01), Relative: ptr(-0.2), P: ptr(0.01),
			Mark: Better,
		}},
		Tables: []Table{{Title: hostile, Columns: []string{hostile, "pods"}, Rows: [][]string{{hostile, "12"}}}},
	}
	for i, name := range []string{"default", "gnn" + hostile} {
		for seed := range uint64(3) {
			x.Episodes = append(x.Episodes, Episode{
				Contender: name,
				Values:    map[string]float64{"cost": 0.1 - 0.02*float64(i) + 0.001*float64(seed), "unscheduled": float64(seed)},
			})
		}
		for k := range 3 {
			f := eval.Frame{Contender: name, At: float64(10 * k), Waiting: k}
			for n := range 4 {
				if k == 2 && n == 3 {
					continue // a node is lost
				}
				f.Nodes = append(f.Nodes, eval.Node{
					Name: fmt.Sprintf("node-%d%s", n, hostile), CPU: 0.2*float64(n) + 0.1*float64(k), Memory: 0.3, Pods: int64(k),
				})
			}
			x.Observed.Frames = append(x.Observed.Frames, f)
		}
		w := eval.Waits{Contender: name, Class: "1 CPU" + hostile}
		w.Summarise(90, []float64{1, 2, 3, 4}, 2)
		x.Observed.Waits = append(x.Observed.Waits, w)
	}
	for i := range 3 {
		x.Observed.Decisions = append(x.Observed.Decisions, eval.Decision{
			Contender: "gnn", At: float64(i), Pod: fmt.Sprintf("shop/pod-%d%s", i, hostile), Class: "1 CPU", Feasible: 4,
			Node: fmt.Sprintf("node-%d", 3-i), Score: 0.5, RunnerUp: "node-0", RunnerUpScore: -3e38, Note: hostile,
		})
	}
	return Run{
		Title: "eval " + hostile, Command: "gnnsched eval --scenario " + hostile, Version: "v1, Kubernetes v1.36.3",
		Started: started, Ended: started.Add(time.Minute), Seeds: []uint64{1, 2, 3, 7},
		Settings: map[string]string{"seeds": "3", hostile: hostile, "yaml": "a: 1\nb: " + hostile}, Notes: []string{hostile},
		Verdicts: []Verdict{
			{Scenario: "mixed", State: Better, Text: "gnn is ahead of default " + hostile},
			{State: Fail, Text: "gnn.cost <= 0.1"}, {State: Note, Text: "a statement"},
		},
		Scenarios: []Scenario{x},
	}
}

func rendered(t testing.TB, r Run) []byte {
	t.Helper()
	return fatal.Value(render(r))(t)
}

// text returns the page as seen without scripts, a line for each element, without style and data.
func text(t *testing.T, page []byte) string {
	t.Helper()
	root := fatal.Value(html.Parse(bytes.NewReader(page)))(t)
	var out strings.Builder
	var walk func(n *html.Node)
	walk = func(n *html.Node) {
		if n.Type == html.ElementNode && (n.Data == "style" || n.Data == "script") {
			return
		}
		if n.Type == html.TextNode && strings.TrimSpace(n.Data) != "" {
			fmt.Fprintf(&out, "%s: %s\n", n.Parent.Data, strings.Join(strings.Fields(n.Data), " "))
		}
		for c := n.FirstChild; c != nil; c = c.NextSibling {
			walk(c)
		}
	}
	walk(root)
	return out.String()
}

// The page equals the golden file.
func TestGolden(t *testing.T) {
	page := text(t, rendered(t, runOfTest()))
	fatal.Golden(t, "page.txt", strings.NewReplacer(hostile, "⚠", platform, "go1.27 linux/amd64").Replace(page))
}

// However hostile the names, the page has the elements that it has with harmless ones: no name becomes markup. There
// is no attribute that runs a script, no style attribute, which the policy would refuse, and no address outside.
func TestNamesAreNoMarkup(t *testing.T) {
	count := func(page []byte) map[string]int {
		out := map[string]int{}
		z := html.NewTokenizer(bytes.NewReader(page))
		for {
			switch z.Next() {
			case html.ErrorToken:
				return out
			case html.StartTagToken, html.SelfClosingTagToken:
				tag := z.Token()
				out[tag.Data]++
				for _, a := range tag.Attr {
					if strings.HasPrefix(a.Key, "on") || a.Key == "style" {
						t.Errorf("<%s %s=%q>", tag.Data, a.Key, a.Val)
					}
					if (a.Key == "src" || a.Key == "href") && !strings.HasPrefix(a.Val, "#") && !strings.HasPrefix(a.Val, "data:image/png;base64,") {
						t.Errorf("<%s> leads to %s", tag.Data, a.Val)
					}
				}
			}
		}
	}
	run := runOfTest()
	var harmless Run
	encoded := fatal.Value(json.Marshal(run))(t)
	name := fatal.Value(json.Marshal(hostile))(t)
	fatal.If(t, json.Unmarshal(bytes.ReplaceAll(encoded, bytes.Trim(name, `"`), []byte("harmless")), &harmless))
	page := rendered(t, run)
	want, got := count(rendered(t, harmless)), count(page)
	if fmt.Sprint(want) != fmt.Sprint(got) || got["script"] != 2 {
		t.Errorf("elements %v, with harmless names %v", got, want)
	}
	if n := bytes.Count(page, []byte("window.pwned")); n < 20 || bytes.Contains(page, []byte("<script>window.pwned")) ||
		bytes.Contains(page, []byte("<img src=x")) {
		t.Errorf("the hostile name is there %d times; it must be, and escaped", n)
	}
}

// The policy names the hashes of the style and the script that are in the page.
func TestPolicyMatches(t *testing.T) {
	page := string(rendered(t, runOfTest()))
	if !strings.Contains(page, "<style>"+style+"</style>") || !strings.Contains(page, "<script>"+script+"</script>") {
		t.Error("style or script are not as they were hashed")
	}
	if strings.Contains(policy(), "unsafe") || !strings.HasPrefix(policy(), "default-src 'none'") {
		t.Error(policy())
	}
	if !regexp.MustCompile(`Content-Security-Policy" content="default-src (&#39;|')none`).MatchString(page) {
		t.Error("the page has no policy")
	}
}

// A run of thousands of nodes, many policies and long names fits into a page, and the page names its omissions.
func TestSize(t *testing.T) {
	long, x := strings.Repeat("x", 200), Scenario{Name: "s", Tables: []Table{{Title: "long", Columns: []string{"a"}}}}
	for c := range 8 {
		for k := range 40 {
			f := eval.Frame{Contender: fmt.Sprintf("p%d", c), At: float64(k)}
			for n := range 3000 {
				f.Nodes = append(f.Nodes, eval.Node{
					Name: fmt.Sprintf("node-%d-%s", n, long[:40]), CPU: float64((n*7919+k*31+c)%100) / 100, Pods: 1,
				})
			}
			x.Observed.Frames = append(x.Observed.Frames, f)
		}
	}
	for i := range 20000 {
		x.Observed.Decisions = append(x.Observed.Decisions, eval.Decision{
			Contender: "p1", Pod: fmt.Sprintf("%d-%s", i, long), Node: long, RunnerUp: long, Note: long,
		})
	}
	for range 9000 {
		x.Tables[0].Rows = append(x.Tables[0].Rows, []string{long})
	}
	page := rendered(t, Run{Scenarios: []Scenario{x}})
	if n := len(page); n > maxPage || n < maxPage/8 {
		t.Errorf("%d bytes", n)
	}
	for _, want := range []string{"of 20000 choices", "of 9,000 rows", "Each row of the heat maps is the mean of"} {
		if !strings.Contains(string(page), want) {
			t.Errorf("the page does not say %q", want)
		}
	}
}

// Every run gives a page, without NaN or infinite numbers.
func TestAnyRun(t *testing.T) {
	number := rapid.OneOf(rapid.Float64Range(-1e9, 1e9), rapid.Just(0.0), rapid.Float64Range(0, 1), rapid.Just(1e300))
	name := rapid.SampledFrom([]string{"", "a", "b", hostile})
	rapid.Check(t, func(t *rapid.T) {
		x := Scenario{Name: name.Draw(t, "s")}
		for range rapid.IntRange(0, 4).Draw(t, "frames") {
			f := eval.Frame{Contender: name.Draw(t, "c"), At: number.Draw(t, "at"), Waiting: rapid.IntRange(0, 3).Draw(t, "w")}
			for range rapid.IntRange(0, 3).Draw(t, "nodes") {
				f.Nodes = append(f.Nodes, eval.Node{Name: name.Draw(t, "n"), CPU: number.Draw(t, "cpu")})
			}
			x.Observed.Frames = append(x.Observed.Frames, f)
		}
		for range rapid.IntRange(0, 4).Draw(t, "episodes") {
			m := name.Draw(t, "m")
			x.Metrics = append(x.Metrics, Metric{Name: m, Title: m})
			x.Episodes = append(x.Episodes, Episode{Contender: name.Draw(t, "c"), Values: map[string]float64{m: number.Draw(t, "v")}})
			x.Differences = append(x.Differences, Difference{Contender: name.Draw(t, "c"), Metric: name.Draw(t, "m"), Mean: number.Draw(t, "mean")})
			x.Observed.Waits = append(x.Observed.Waits, eval.Waits{
				Contender: name.Draw(t, "c"), Class: name.Draw(t, "class"), Pods: rapid.IntRange(0, 3).Draw(t, "pods"), Mean: number.Draw(t, "wait"),
			})
		}
		page := fatal.Value(render(Run{Scenarios: []Scenario{x}}))(t)
		if body := page[bytes.Index(page, []byte("<body>")):bytes.Index(page, []byte("<script type"))]; bytes.Contains(body, []byte("NaN")) ||
			bytes.Contains(body, []byte("Inf")) {
			t.Fatal("NaN or Inf in the page")
		}
	})
}

// A difference is coloured by its mark, never by its p or its interval alone.
func TestTone(t *testing.T) {
	for mark, want := range map[State]string{Better: "good", Worse: "bad", Level: "unclear",
		Unclear: "unclear", "": "unclear"} {
		if got := tone(Difference{Mean: -1, Low: ptr(-2), High: ptr(-0.5), P: ptr(0.01), Mark: mark}); got != want {
			t.Errorf("%s: %s, want %s", mark, got, want)
		}
	}
}

// The page has the flags that were set, once each, as one gives them, without those of workers, and says why a run ended early.
func TestBegin(t *testing.T) {
	out := filepath.Join(t.TempDir(), "page.html")
	var got Run
	app := &ucli.App{ErrWriter: io.Discard, Commands: []*ucli.Command{{
		Name: "eval",
		Flags: []ucli.Flag{
			Flag(), &ucli.StringSliceFlag{Name: "profile", Aliases: []string{"p"}}, &ucli.BoolFlag{Name: "all"},
			&ucli.TimestampFlag{Name: "from", Layout: time.RFC3339}, &ucli.StringFlag{Name: "workers"},
			&ucli.IntFlag{Name: "seeds"}, &ucli.StringFlag{Name: "unset", Value: "x"},
		},
		Action: func(c *ucli.Context) (err error) {
			if got, err = Begin(c, "eval", nil, "workers"); err != nil {
				return err
			}
			return got.Write(c, errors.New("stop"))
		},
	}}}
	fatal.If(t, app.Run([]string{"p", "eval", "-p", "a", "-p", "b c", "--all", "--from", "2026-03-01T01:00:00+01:00", "--workers",
		"nats://u:secret@host", "--html", out, "r"}))
	if want := map[string]string{"profile": "a,b c", "all": "true", "from": "2026-03-01T00:00:00Z", "html": out}; !maps.Equal(got.Settings, want) {
		t.Errorf("%v, want %v", got.Settings, want)
	}
	if want := "gnnsched eval --all --from=2026-03-01T00:00:00Z --html=" + out + " '--profile=a,b c' r"; got.Command != want {
		t.Errorf("%s, want %s", got.Command, want)
	}
	page, err := os.ReadFile(out)
	if err != nil || !strings.Contains(string(page), "ended before its time: stop") || strings.Contains(string(page), "secret") {
		t.Errorf("%v, or the page lacks why the run ended, or has a secret", err)
	}
}

// address writes the page to a file and returns its address.
func address(t *testing.T, text []byte) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "page.html")
	fatal.If(t, os.WriteFile(file, text, 0o600))
	return "file://" + file
}

// In a browser, the page shows its pictures, the keyboard moves the slider, the search finds, and no name of a pod, node or policy runs as a
// script. Every control and picture has a name, and text stands out in light and in dark. The page looks as the reader prefers, and fits a
// phone. The browser refuses a script that is not the page's own.
func TestInChromium(t *testing.T) {
	tab := chromiumtest.Open(t)
	text := fatal.Value(render(runOfTest()))(t)
	page := address(t, text)
	tab.Do(chromedp.EmulateViewport(1200, 900), chromedp.Navigate(page), chromedp.WaitVisible(chromedp.CSS(".controls")))
	if chromiumtest.Value[bool](tab, `window.pwned === true || document.querySelector("img[src='x'], script[src]") !== null`) {
		t.Error("a name ran as a script")
	}
	if !chromiumtest.Value[bool](tab, `Array.from(document.querySelectorAll(".film-image")).every((i) => i.naturalWidth > 0)`) {
		t.Error("a picture is not there")
	}
	const now = `document.querySelector(".now").textContent`
	before := chromiumtest.Value[string](tab, now)
	tab.Do(chromedp.Focus(chromedp.CSS(".time")), chromedp.KeyEvent(kb.Home), chromedp.KeyEvent(kb.ArrowRight))
	after, label := chromiumtest.Value[string](tab, now),
		chromiumtest.Value[string](tab, `document.querySelector(".time").getAttribute("aria-valuetext")`)
	if before != "20" || after != "10" || label != "10 seconds" {
		t.Errorf("the slider began at %s; Home and an arrow led to %s, %q", before, after, label)
	}
	if pixel := chromiumtest.Value[string](tab,
		`String(document.querySelector(".nodes").getContext("2d").getImageData(2, 2, 1, 1).data)`); pixel == "0,0,0,0" {
		t.Error("the nodes at a time are not painted")
	}
	tab.Do(chromedp.SendKeys(chromedp.CSS(".search input"), "pod-2 node-1"))
	if found := chromiumtest.Value[string](tab,
		`document.querySelector(".search output").textContent + ", hidden " + document.querySelectorAll(".decisions tbody tr[hidden]").length`); found != "1 of 3, hidden 2" {
		t.Errorf("the search found %q", found)
	}
	tab.Do(chromedp.Evaluate[chromedp.Void](`document.querySelectorAll("details").forEach((d) => { d.open = true; })`))
	tab.Accessible()
	tab.Do(chromedp.EmulateViewport(360, 740))
	if wide := chromiumtest.Value[int](tab, `document.documentElement.scrollWidth`); wide > 360 {
		t.Errorf("the page is %d wide on a phone of 360", wide)
	}
	if said := tab.Said(); len(said) > 0 {
		t.Errorf("the console says: %s", strings.Join(said, "; "))
	}
	looks(t, tab, page)
	refuses(t, tab, text)
}

// refuses checks that the page's policy keeps a foreign script from running, and that the test above would see one.
func refuses(t *testing.T, tab *chromiumtest.Tab, text []byte) {
	t.Helper()
	smuggled := strings.Replace(string(text), "<main>",
		`<main><script>window.pwned = true</script><img src="https://example.com/x.png" onerror="window.pwned = true">`, 1)
	tab.Do(chromedp.Navigate(address(t, []byte(smuggled))), chromedp.WaitVisible(chromedp.CSS(".controls")))
	if chromiumtest.Value[bool](tab, `window.pwned === true`) {
		t.Error("a smuggled script ran")
	}
	if said := tab.Said(); !strings.Contains(strings.Join(said, "\n"), "Content Security Policy") {
		t.Errorf("the console says nothing of the policy: %q", said)
	}
}

// looks checks the brightness and colours of the page, light and dark, on two widths.
func looks(t *testing.T, tab *chromiumtest.Tab, page string) {
	t.Helper()
	for _, width := range []int64{1200, 390} {
		for _, scheme := range []string{"light", "dark"} {
			tab.Scheme(scheme)
			tab.Do(chromedp.EmulateViewport(width, 900), chromedp.Navigate(page), chromedp.WaitReady(chromedp.CSS("body")))
			bright, colours := tab.Picture(fmt.Sprintf("report-%d-%s", width, scheme))
			if (scheme == "light") != (bright > 0.5) || colours < 20 {
				t.Errorf("%s, %d wide: the brightness is %.2f, with %d colours", scheme, width, bright, colours)
			}
		}
	}
}
