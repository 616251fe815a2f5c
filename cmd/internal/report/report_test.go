package report

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	ucli "github.com/urfave/cli/v2"
	"golang.org/x/net/html"
	"pgregory.net/rapid"

	"gnnsched/internal/golden"
	"gnnsched/internal/runfolder"
)

const hostile = `</script><script>window.pwned=true</script><img src=x onerror="window.pwned=true">'"&{{.}}`

func ptr(v float64) *float64 { return &v }

// runsOfTest returns an evaluation whose names are hostile, and a training run.
func runsOfTest() []*runfolder.Run {
	started := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	ended := started.Add(time.Minute)
	r := &runfolder.Run{
		Dir: "run",
		Manifest: runfolder.Manifest{
			Schema: 1, Kind: "eval", Title: "eval " + hostile, Command: []string{"gnnsched", "eval", "--scenario", hostile},
			Version:  "v1, Kubernetes v1.36.3",
			Platform: "go1.26 linux/amd64", Started: started, Ended: &ended, Seeds: []uint64{1, 2, 3, 7},
			Settings: map[string]string{"seeds": "3", hostile: hostile, "yaml": "a: 1\nb: " + hostile},
			Notes:    []string{hostile}, Dropped: map[string]int{"frames.jsonl": 1200},
		},
		Scenarios: []runfolder.Scenario{{
			Name: "mixed" + hostile, About: hostile, Objective: hostile, Baseline: "default", Samples: 3, TimeUnit: "seconds",
			Metrics: []runfolder.Metric{
				{Name: "cost", Title: "objective", Digits: 4}, {Name: "unscheduled", Title: "unscheduled " + hostile, Digits: 1},
			},
		}},
		Verdicts: []runfolder.Verdict{
			{Scenario: "mixed", Contender: "gnn", State: runfolder.Better, Text: "gnn is ahead of default " + hostile},
			{State: runfolder.Fail, Text: "gnn.cost <= 0.1"},
			{State: runfolder.State(hostile), Text: "a state that nobody knows"},
		},
		Differences: []runfolder.Difference{{
			Scenario: "mixed" + hostile, Contender: "gnn" + hostile, Metric: "cost", Mean: -0.02, Low: ptr(-0.03), High: ptr(-0.01),
			Relative: ptr(-0.2), P: ptr(0.01), Mark: runfolder.Better,
		}},
		Tables: []runfolder.Table{{Title: hostile, Text: hostile, Columns: []string{hostile, "pods"}, Rows: [][]string{{hostile, "12"}}}},
		Notes:  []string{"The last line of waits.jsonl was cut off and is left out."},
	}
	for i, name := range []string{"default", "gnn" + hostile} {
		for seed := range uint64(3) {
			r.Episodes = append(r.Episodes, runfolder.Episode{
				Scenario: "mixed" + hostile, Contender: name, Seed: seed,
				Values: map[string]float64{"cost": 0.1 - 0.02*float64(i) + 0.001*float64(seed), "unscheduled": float64(seed)},
			})
		}
		for k := range 3 {
			f := runfolder.Frame{Scenario: "mixed" + hostile, Contender: name, At: float64(10 * k), Waiting: k}
			for n := range 4 {
				if k == 2 && n == 3 {
					continue // a node is lost
				}
				f.Nodes = append(f.Nodes, runfolder.Node{
					Name: fmt.Sprintf("node-%d%s", n, hostile), CPU: 0.2*float64(n) + 0.1*float64(k), Memory: 0.3, Pods: int64(k),
				})
			}
			r.Frames = append(r.Frames, f)
		}
		w := runfolder.Waits{Scenario: "mixed" + hostile, Contender: name, Class: "1 CPU" + hostile}
		w.Summarise(90, []float64{1, 2, 3, 4}, 2)
		r.Waits = append(r.Waits, w)
	}
	for i := range 3 {
		r.Decisions = append(r.Decisions, runfolder.Decision{
			Scenario: "mixed", Contender: "gnn", At: float64(i), Pod: fmt.Sprintf("shop/pod-%d%s", i, hostile), Class: "1 CPU", Feasible: 4,
			Node: fmt.Sprintf("node-%d", 3-i), Score: 0.5,
			RunnerUp: "node-0", RunnerUpScore: -3e38, Note: hostile,
		})
	}
	training := &runfolder.Run{Dir: "logs/gnn", Manifest: runfolder.Manifest{Schema: 1, Kind: "gnntrain"}}
	for i := range 600 {
		training.Scalars = append(training.Scalars, runfolder.Scalar{Tag: "losses/" + hostile, Step: float64(i), Value: 1 / float64(i+1)},
			runfolder.Scalar{Tag: "eval/cost", Step: float64(i), Value: 0.2})
	}
	return []*runfolder.Run{r, training}
}

func rendered(t testing.TB, runs []*runfolder.Run) []byte {
	t.Helper()
	text, err := render(config{version: "v1", command: "gnnsched report run"}, runs)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// text returns the page as seen without scripts, a line for each element, without style and data.
func text(t *testing.T, page []byte) string {
	t.Helper()
	root, err := html.Parse(bytes.NewReader(page))
	if err != nil {
		t.Fatal(err)
	}
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
	page := text(t, rendered(t, runsOfTest()))
	golden.Check(t, "page.txt", strings.ReplaceAll(page, hostile, "⚠"))
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
	runs := runsOfTest()
	var harmless []*runfolder.Run
	encoded, err := json.Marshal(runs)
	if err != nil {
		t.Fatal(err)
	}
	name, err := json.Marshal(hostile)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(bytes.ReplaceAll(encoded, bytes.Trim(name, `"`), []byte("harmless")), &harmless); err != nil {
		t.Fatal(err)
	}
	page := rendered(t, runs)
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
	page := string(rendered(t, runsOfTest()))
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
	r := &runfolder.Run{Dir: "big", Manifest: runfolder.Manifest{Schema: 1, Kind: "eval"}}
	long := strings.Repeat("x", 200)
	for c := range 8 {
		for k := range 40 {
			f := runfolder.Frame{Scenario: "s", Contender: fmt.Sprintf("p%d", c), At: float64(k)}
			for n := range 3000 {
				f.Nodes = append(f.Nodes, runfolder.Node{
					Name: fmt.Sprintf("node-%d-%s", n, long[:40]), CPU: float64((n*7919+k*31+c)%100) / 100, Pods: 1,
				})
			}
			r.Frames = append(r.Frames, f)
		}
	}
	for i := range 20000 {
		r.Decisions = append(r.Decisions, runfolder.Decision{
			Contender: "p1", Pod: fmt.Sprintf("%d-%s", i, long), Node: long, RunnerUp: long, Note: long,
		})
		r.Scalars = append(r.Scalars, runfolder.Scalar{Tag: fmt.Sprintf("t%d", i%60), Step: float64(i), Value: float64(i % 13)})
	}
	r.Tables = []runfolder.Table{{Title: "long", Columns: []string{"a"}}}
	for range 9000 {
		r.Tables[0].Rows = append(r.Tables[0].Rows, []string{long})
	}
	page := rendered(t, []*runfolder.Run{r})
	if n := len(page); n > maxPage || n < maxPage/8 {
		t.Errorf("%d bytes", n)
	}
	for _, want := range []string{"of 20000 choices", "of 9,000 rows", "36 curves are not drawn", "Each row of the heat maps is the mean of",
		"means of"} {
		if !strings.Contains(string(page), want) {
			t.Errorf("the page does not say %q", want)
		}
	}
}

// Every folder gives a page, without NaN or infinite numbers.
func TestAnyFolder(t *testing.T) {
	number := rapid.OneOf(rapid.Float64Range(-1e9, 1e9), rapid.Just(0.0), rapid.Float64Range(0, 1), rapid.Just(1e300))
	name := rapid.SampledFrom([]string{"", "a", "b", hostile})
	rapid.Check(t, func(t *rapid.T) {
		r := &runfolder.Run{Dir: "any", Manifest: runfolder.Manifest{Schema: 1, Kind: "eval"}}
		for range rapid.IntRange(0, 4).Draw(t, "frames") {
			f := runfolder.Frame{
				Scenario: name.Draw(t, "s"), Contender: name.Draw(t, "c"), At: number.Draw(t, "at"), Waiting: rapid.IntRange(0, 3).Draw(t, "w"),
			}
			for range rapid.IntRange(0, 3).Draw(t, "nodes") {
				f.Nodes = append(f.Nodes, runfolder.Node{Name: name.Draw(t, "n"), CPU: number.Draw(t, "cpu")})
			}
			r.Frames = append(r.Frames, f)
		}
		for range rapid.IntRange(0, 4).Draw(t, "episodes") {
			r.Episodes = append(r.Episodes, runfolder.Episode{
				Scenario: name.Draw(t, "s"), Contender: name.Draw(t, "c"), Values: map[string]float64{name.Draw(t, "m"): number.Draw(t, "v")},
			})
			r.Differences = append(r.Differences, runfolder.Difference{
				Scenario: name.Draw(t, "s"), Contender: name.Draw(t, "c"), Metric: name.Draw(t, "m"), Mean: number.Draw(t, "mean"),
			})
			r.Waits = append(r.Waits, runfolder.Waits{
				Scenario: name.Draw(t, "s"), Contender: name.Draw(t, "c"), Class: name.Draw(t, "class"), Pods: rapid.IntRange(0, 3).Draw(t, "pods"),
				Mean: number.Draw(t, "wait"),
			})
			r.Scalars = append(r.Scalars, runfolder.Scalar{Tag: name.Draw(t, "tag"), Step: number.Draw(t, "step"), Value: number.Draw(t, "value")})
		}
		page, err := render(config{}, []*runfolder.Run{r})
		if err != nil {
			t.Fatal(err)
		}
		if body := page[bytes.Index(page, []byte("<body>")):bytes.Index(page, []byte("<script type"))]; bytes.Contains(body, []byte("NaN")) ||
			bytes.Contains(body, []byte("Inf")) {
			t.Fatal("NaN or Inf in the page")
		}
	})
}

// The page and the command report that a run is incomplete, such as one that began on a full disk.
func TestIncomplete(t *testing.T) {
	for manifest, want := range map[string]string{
		`"started":"2026-03-01T12:00:00Z"`:                                "The run is incomplete: it has not noted its end",
		`"started":"2026-03-01T12:00:00Z","error":"stop"`:                 "The run is incomplete: it ended before its time: stop",
		`"started":"2026-03-01T12:00:00Z","ended":"2026-03-01T12:01:00Z"`: "",
	} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "manifest.json"), []byte(`{"schema":1,"kind":"eval",`+manifest+`}`), 0o600); err != nil {
			t.Fatal(err)
		}
		var page, errs bytes.Buffer
		app := &ucli.App{Name: "gnnsched", Writer: &page, ErrWriter: &errs, Commands: []*ucli.Command{Command()}}
		if err := app.Run([]string{"gnnsched", "report", "--out", "-", dir}); err != nil {
			t.Fatal(err)
		}
		for where, text := range map[string]string{"page": page.String(), "command": errs.String()} {
			if says := strings.Contains(text, "is incomplete"); says != (want != "") || !strings.Contains(text, want) {
				t.Errorf("%s: the %s does not say %q", manifest, where, want)
			}
		}
	}
}

// A difference is coloured by its mark, never by its p or its interval alone.
func TestTone(t *testing.T) {
	for mark, want := range map[runfolder.State]string{runfolder.Better: "good", runfolder.Worse: "bad", runfolder.Level: "unclear",
		runfolder.Unclear: "unclear", "": "unclear"} {
		if got := tone(runfolder.Difference{Mean: -1, Low: ptr(-2), High: ptr(-0.5), P: ptr(0.01), Mark: mark}); got != want {
			t.Errorf("%s: %s, want %s", mark, got, want)
		}
	}
}
