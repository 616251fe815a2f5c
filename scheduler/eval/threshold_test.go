package eval

import (
	"math"
	"strings"
	"testing"

	"gnnsched/internal/each"
	"gnnsched/internal/fatal"
)

func TestParseThreshold(t *testing.T) {
	for text, want := range map[string]string{
		"gnn.cpuStd<=0.75*kube-scheduler.cpuStd":                 "gnn.cpuStd <= 0.75*kube-scheduler.cpuStd",
		" a.unscheduled < b.unscheduled+0.5 ":                    "a.unscheduled < b.unscheduled + 0.5",
		"aaml: gnn.cpuVariance < 4e-4":                           "aaml: gnn.cpuVariance < 0.0004",
		"hetero*:1*a.cost + -2 * v1.2.cost>3":                    "hetero*: a.cost + -2*v1.2.cost > 3",
		"kube-scheduler.nodesInUse>=best-fit.nodesInUse + 1e300": "kube-scheduler.nodesInUse >= best-fit.nodesInUse + 1e300",
		`"greedy:pack".cost<gnn.cost`:                            `"greedy:pack".cost < gnn.cost`,
		`zon*: a.cost >= 2 * "greedy:pack=0.5+zones".zoneStd+1`:  `zon*: a.cost >= 2*"greedy:pack=0.5+zones".zoneStd + 1`,
		`"gnn".cost<"my <net> *2".cost`:                          `gnn.cost < "my <net> *2".cost`,
	} {
		got, err := ParseThreshold(text)
		if err != nil || got.String() != want {
			t.Errorf("%q: %q, %v; want %q", text, got, err, want)
		}
	}
	for text, say := range map[string]string{
		"":                                 "write <, <=, > or >= between",
		"a.cpuStd = b.cpuStd":              "write <, <=, > or >= between",
		"a.cpuStd <":                       `"" is neither`,
		"a.cpuStd < b":                     `"b" is neither`,
		"a.cpuSdt < 1":                     `no metric is called "cpuSdt" (did you mean cpuStd?); there are cost, meanCost, cpuStd`,
		"x*a.cpuStd < 1":                   `"x" is not a number before a *`,
		"a.cpuStd < 1e999":                 `"1e999" is neither`,
		"a.cpuStd < NaN":                   `"NaN" is neither`,
		"a.cpuStd < b.cpuStd < 1":          "neither",
		": a.cpuStd < 1":                   "the colon has no scenario before it",
		"[: a.cpuStd < 1":                  "not a pattern",
		"a.cost < greedy:pack.cost":        `double quotes, as in "greedy:pack".cost`,
		"x: a.cost < greedy:pack=0.5.cost": `double quotes, as in "greedy:pack".cost`,
		`"a.cost < 1`:                      "not closed",
		`"".cost < 1`:                      "neither",
		`"a".cost" < 1"`:                   "write <, <=, > or >= between",
		`"a"b.cost < 1`:                    "neither",
		`a"b".cost < 1`:                    "neither",
		`"a.cost" < 1`:                     "neither",
	} {
		if _, err := ParseThreshold(text); err == nil || !strings.Contains(err.Error(), say) || !strings.Contains(err.Error(), "threshold") {
			t.Errorf("%q: %v, want %q", text, err, say)
		}
	}
}

// The String of a threshold parses again, to the same threshold.
func FuzzParseThreshold(f *testing.F) {
	for _, s := range []string{"gnn.cpuStd<=0.75*kube-scheduler.cpuStd", "aaml: a.cost + 2 < 1e300", "a.b.cost>-3*b.waited+1", "x:<", "*<*",
		`"greedy:pack=0.5+zones".cost<2*"a b".cost`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		a, err := ParseThreshold(text)
		if err != nil {
			return
		}
		b, err := ParseThreshold(a.String())
		if err != nil || b.String() != a.String() {
			t.Fatalf("%q became %q, which became %q, %v", text, a, b, err)
		}
	})
}

func threshold(t testing.TB, text string) Threshold {
	return fatal.Value(ParseThreshold(text))(t)
}

func TestJudge(t *testing.T) {
	c := made(4) // cpuStd 0.1 and 0.05, unscheduled 2 and 3.5
	c.Scenario.Thresholds = []Threshold{threshold(t, "other.unscheduled <= base.unscheduled")}
	given := []Threshold{
		threshold(t, "other.cpuStd<=0.5*base.cpuStd"), threshold(t, "moon: other.cpuStd > 7"),
		threshold(t, "ma*: base.cpuStd + 2*other.cpuStd + 1 < 1.2"),
	}
	fatal.If(t, c.Judge(given))
	got := each.Map(c.Verdicts, Verdict.String)
	want := `PASS other.cpuStd <= 0.5*base.cpuStd (0.05 and 0.05, p 1)
FAIL ma*: base.cpuStd + 2*other.cpuStd + 1 < 1.2 (1.2 and 1.2, p 1)
FAIL other.unscheduled <= base.unscheduled (3.5 and 2, p 0.75)`
	if strings.Join(got, "\n") != want || math.Abs(c.Verdicts[1].Left-1.2) > 1e-12 {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), want)
	}
	if err := c.Judge([]Threshold{threshold(t, "gnn.cpuStd < 1")}); err == nil || !strings.Contains(err.Error(), "base, other") {
		t.Errorf("a policy that is not in the comparison: %v", err)
	}
}
