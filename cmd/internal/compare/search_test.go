package compare

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gnnsched/internal/exit"
	"gnnsched/internal/fatal"
	"gnnsched/scheduler/autoscale"
	"gnnsched/scheduler/server"
)

const bothKinds = "[{name: m, resources: {cpu: 8, memory: 32Gi}, overhead: {}, offerings: [{price: 0.5}, {price: 0.2, spot: true}]}]"

const twoPools = `
{kind: NodePool, metadata: {name: base}, spec: {weight: 1, template: {spec: {requirements: [{key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}]}}}}
---
{kind: NodePool, metadata: {name: spot}, spec: {limits: {cpu: 16}, template: {spec: {requirements: [{key: karpenter.sh/capacity-type, operator: In, values: [spot]}]}}}}
`

// A search varies the autoscaler and the NodePools, says what to change and what it did not vary, and has one table.
func TestSearch(t *testing.T) {
	types, pools := filepath.Join(t.TempDir(), "types.yaml"), filepath.Join(t.TempDir(), "pools.yaml")
	dir := written(t, "prod", 0, 300_000, func(int64) (cpu, node int64) { return 1000, 0 })
	fatal.If(t, os.WriteFile(types, []byte(bothKinds), 0o600))
	fatal.If(t, os.WriteFile(pools, []byte(twoPools), 0o600))
	code, out, errs := execute(t, "--profile", "default", "--autoscaler", "cluster-autoscaler@0.5", "--types", types, "--nodepools", pools,
		"--seeds", "2", "--at-most-waiting", "2", dir)
	for _, want := range []string{
		"To change: remove the limits of NodePool spot (now cpu 16); tried with at most 5000 machines.\n" +
			"The cheapest with at most 2 pods waiting is cluster-autoscaler@0.5, spot without limits: ",
		"\nNow, with cluster-autoscaler@0.5: ", "│ cluster-autoscaler@0.5, spot limits x2 ", "│ cluster-autoscaler@0.5, without base ",
		`"NodePool base has no limits that could be varied"`, "settings that were tried with each profile: 7,",
	} {
		if code != exit.OK || !strings.Contains(out, want) {
			t.Errorf("code %d, no %q: %s\n%s", code, want, errs, out)
		}
	}
	if strings.Count(out, "┌") > 1 || strings.Contains(out, "costs as much as") {
		t.Errorf("more than what was tried:\n%s", out)
	}
	chosen := []server.Profile{{SchedulerName: "a"}, {SchedulerName: "b"}}
	second := contender{1, setting{Name: "x", Change: "do so"}}
	if name, change := second.name(chosen), second.change(chosen); name != "b, x" || change != "do so, schedule with b" {
		t.Errorf("%s: %s", name, change)
	}
}

// The answer of a search is the cheapest row with few enough pods waiting, or the one with the fewest. By default few are as many as now.
func TestAnswer(t *testing.T) {
	r := result{Unrecorded: "so", view: view{scaled: true}}
	for name, x := range map[string][2]float64{"a": {10, 1}, "b": {8, 2}, "c": {5, 9}, "d": {9, 1.004}} {
		r.Rows = append(r.Rows, row{Name: name, Pods: 1, Figures: map[string]float64{billFigure: x[0], "waiting_pods": x[1]}, Scaled: &activity{},
			Change: "make it " + name})
	}
	slices.SortFunc(r.Rows, func(x, y row) int { return strings.Compare(x.Name, y.Name) })
	for most, want := range map[float64]string{0.5: "No setting that was tried keeps at most 0.5 pods waiting. The fewest wait with a: 10.00 a day",
		1: "Leave it as it is", -1: "Leave it as it is: nothing that was tried is cheaper with at most 1 pods waiting, as now, than a",
		3: "To change: make it b.\nThe cheapest with at most 3 pods waiting is b: 8.00 a day", 10: "is c: 5.00 a day"} {
		if got := r.answer(most); !strings.Contains(got, want) {
			t.Errorf("at most %v: %s, want %s", most, got, want)
		}
	}
	low, high := 1., 3. // what waits less is dearer, surely
	r.Rows = append(r.Rows, row{Name: "e", Figures: map[string]float64{billFigure: 12, "waiting_pods": 0.2}, Scaled: &activity{}, Change: "make it e",
		Differences: map[string]difference{r.judged().name: {2, &low, &high}}})
	if got := r.answer(0.3); !strings.HasSuffix(got, "differs by +2.00 (+1.00 to +3.00)") {
		t.Error(got)
	}
	for scaler, want := range map[string]bool{"cluster-autoscaler:price@0.7+deletion-costs": true, "cluster-autoscaler": false,
		"karpenter:60s+defrag+deletion-costs": true, "karpenter+defrag": false} {
		if s, err := (setting{Scaler: scaler, Types: autoscale.ExampleTypes}).scaling(); err != nil || s.DeletionCosts != want {
			t.Errorf("%s: %+v, %v", scaler, s, err)
		}
	}
}

// Near a setting are those that differ in one thing that was not said, each with what a person sets.
func TestNear(t *testing.T) {
	const ca, noPools = "set --scale-down-utilization-threshold=", "without a file of NodePools"
	for _, c := range []struct {
		named setting
		want  []string
		note  string
	}{
		{setting{Name: "none", Scaler: "none", Pools: []byte(twoPools)}, nil, ""},
		{setting{Name: "cluster-autoscaler:price", Scaler: "cluster-autoscaler:price"},
			[]string{"cluster-autoscaler:price@0.3: " + ca + "0.3", "cluster-autoscaler:price@0.7: " + ca + "0.7"}, noPools},
		{setting{Name: "cluster-autoscaler@0.4+defrag", Scaler: "cluster-autoscaler@0.4+defrag"},
			[]string{"cluster-autoscaler:price@0.4+defrag: set --expander=price"}, noPools},
		{setting{Name: "karpenter@5m today", Scaler: "karpenter@5m", Pools: []byte(twoPools), Change: "take today"},
			[]string{"karpenter@5m today, without base: take today, leave out NodePool base, whose present nodes stay",
				"karpenter@5m today, spot limits x0.5: take today, set the limits of NodePool spot to cpu 8 (now cpu 16)",
				"karpenter@5m today, spot limits x2: take today, set the limits of NodePool spot to cpu 32 (now cpu 16)",
				"karpenter@5m today, spot without limits: take today, remove the limits of NodePool spot (now cpu 16); tried with at most 5000 machines",
				"karpenter@5m today, without spot: take today, leave out NodePool spot, whose present nodes stay"}, "NodePool base has no limits that could be varied"},
	} {
		c.named.Types = []byte(bothKinds)
		s := search{}
		near := fatal.Value(s.near(c.named))(t)
		var got []string
		for _, x := range near {
			got = append(got, x.Name+": "+x.Change)
		}
		if !slices.Equal(got, c.want) || !strings.HasPrefix(strings.Join(s.notes, ""), c.note) {
			t.Errorf("%s: %q, %q", c.named.Name, got, s.notes)
		}
	}
}
