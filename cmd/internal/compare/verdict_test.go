package compare

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"gnnsched/cmd/internal/report"
	"gnnsched/internal/exit"
)

// judged returns a result whose replay is off by a distance, and in which a profile's cost and waiting differ by intervals.
func judged(distance float64, cost, waiting difference) result {
	return result{Rows: []row{
		{Name: reality, Pods: 9}, {Name: "now", Pods: 9, Differences: map[string]difference{"cost": {Mean: distance}}},
		{Name: "gnn", Pods: 9, Differences: map[string]difference{"cost": cost, "waiting_pods": waiting}},
	}}
}

func from(low, high float64) difference {
	return difference{Mean: (low + high) / 2, Low: &low, High: &high}
}

// A profile is better or worse only if the whole interval is beyond the distance between replay and reality.
func TestVerdict(t *testing.T) {
	same := from(0, 0)
	for _, c := range []struct {
		name  string
		r     result
		state report.State
		say   string
	}{
		{"beyond", judged(-0.02, from(-0.06, -0.03), same), report.Better,
			"gnn costs less than now: cost -0.04500 (-0.06000 to -0.03000), and the replay is off by 0.02000"},
		{"worse", judged(0.02, from(0.03, 0.06), same), report.Worse, "gnn costs more than now"},
		{"within the distance", judged(0.02, from(-0.06, -0.01), same), report.Unclear, "gnn costs less than now in the replay only"},
		{"all within", judged(0.02, from(0.001, 0.002), same), report.Unclear, "gnn costs more than now in the replay only"},
		{"around 0", judged(0, from(-0.01, 0.01), same), report.Level, "gnn costs as much as now"},
		{"too little time", judged(0, difference{Mean: -1}, same), report.Note, "over too little time"},
		{"cheaper, but pods wait", judged(0.02, from(-0.06, -0.03), from(1, 3)), report.Note, "but more pods wait: +2.00 (+1.00 to +3.00)"},
	} {
		if v := c.r.verdict(c.r.Rows[2]); v.State != c.state || !strings.Contains(v.Text, c.say) {
			t.Errorf("%s: %+v, want %s: %s", c.name, v, c.state, c.say)
		}
	}
	idle := judged(0, same, same)
	for i := range idle.Rows {
		idle.Rows[i].Pods = 0
	}
	if v := idle.verdict(idle.Rows[2]); v.State != report.Note ||
		v.Text != "gnn: no pod came within this time, so nothing can be compared" {
		t.Errorf("without pods: %+v", v)
	}
	unknown := judged(0, from(-0.06, -0.03), same)
	unknown.Rows, unknown.Unrecorded = unknown.Rows[1:], unrecorded
	if v := unknown.verdict(unknown.Rows[1]); v.State != report.Unclear || !strings.Contains(v.Text, "not known") {
		t.Errorf("without what really happened: %+v", v)
	}
}

// Which seeds are drawn does not change a verdict, though a profile that draws among equal nodes places pods otherwise with each.
// Every line fits 80 columns.
func TestSeedsDoNotFlipVerdicts(t *testing.T) {
	// draws decide the cost: few pods of many sizes on equal nodes
	dir := written(t, "drawing", 4, 30_500, func(i int64) (cpu, node int64) { return 300 * (1 + i%7), i * i % 4 })
	first := ""
	for _, seed := range []string{"1", "7", "4711"} {
		code, out, errs := execute(t, "--present", "round-robin", "--profile", "random", "--seed", seed, "-o", "json", dir)
		var r result
		if err := json.Unmarshal([]byte(out), &r); code != exit.OK || err != nil || len(r.Seeds) != 5 {
			t.Fatalf("code %d, %v: %s", code, err, errs)
		}
		if first == "" {
			first = string(r.Verdicts[0].State)
		}
		if got := string(r.Verdicts[0].State); got != first {
			t.Errorf("seed %s says %s, another one %s: %s", seed, got, first, r.Verdicts[0].Text)
		}
	}
	_, out, _ := execute(t, "--profile", "random", "--profile", "linear-pack", dir)
	for _, line := range strings.Split(out, "\n") {
		if n := utf8.RuneCountInString(line); n > 80 {
			t.Errorf("%d columns: %s", n, line)
		}
	}
	if code, _, errs := execute(t, "--seeds", "1", dir); code != exit.Usage || !strings.Contains(errs, "one seed cannot tell") {
		t.Errorf("code %d: %s", code, errs)
	}
}
