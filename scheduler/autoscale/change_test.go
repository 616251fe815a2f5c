package autoscale

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"gnnsched/internal/fatal"
)

// Changes have names and amounts, and what is not varied is said. Each can be read, and differs in what it says alone.
func TestChanges(t *testing.T) {
	pool := func(name, spec string) string {
		return fmt.Sprintf("\n---\n{kind: NodePool, metadata: {name: %s}, spec: {%s}}", name, spec)
	}
	both := "template: {spec: {requirements: [{key: karpenter.sh/capacity-type, operator: In, values: [spot, on-demand], minValues: 2}, " +
		"{key: kubernetes.io/arch, operator: In, values: [amd64]}]}}"
	for name, c := range map[string]struct {
		pools, changes string
		notes          []string
	}{
		"none":        {"\n", "", []string{"without a file of NodePools"}},
		"of tests":    {pools, "general limits x0.5, general limits x2, general without limits, without general, spot limits x0.5, spot limits x2, " + "spot without limits, without spot", nil},
		"one of both": {pool("all", both), "all on-demand only, all spot only", []string{"NodePool all has no limits that could be varied"}},
		"in a list": {"items: [{kind: NodePool, metadata: {name: a}, spec: {limits: {memory: 8Gi}, " + both + "}}]",
			"a limits x0.5, a limits x2, a without limits, a on-demand only, a spot only", nil},
		"closed": {pool("shut", "limits: {cpu: 0}") + pool("open", "limits: {nodes: 1, example.com/gpu: 0}"),
			"open limits x2, open without limits, without open, open on-demand only, open spot only",
			[]string{"open limits x0.5 are not tried, because example.com/gpu 0, nodes 1 stays the same",
				"NodePool shut starts no machine, because of its limits cpu 0"}},
	} {
		all, notes, err := Changes([]byte(machineTypes), []byte(c.pools))
		fatal.If(t, err)
		var names []string
		for _, x := range all {
			if names = append(names, x.Name); x.Do == "" {
				t.Errorf("%s: %s says nothing to do", name, x.Name)
			}
			_, err := Read([]byte(machineTypes), x.Pools)
			fatal.If(t, err)
		}
		same := slices.EqualFunc(notes, c.notes, strings.HasPrefix)
		if got := strings.Join(names, ", "); got != c.changes || !same {
			t.Errorf("%s: %s; %q", name, got, notes)
		}
	}
	_, _, err := Changes([]byte(machineTypes), []byte("kind: NodePool"))
	if err == nil {
		t.Error("a pool without a name is varied")
	}
}

// A change of limits or of capacity types leaves everything else in the file.
func TestChanged(t *testing.T) {
	all, _, err := Changes([]byte(machineTypes), []byte(strings.Replace(pools, "limits: {cpu: 20}", "limits: {cpu: 2.5, memory: 5Gi, nodes: 3}", 1)))
	fatal.If(t, err)
	now := "cpu 2500m, memory 5Gi, nodes 3"
	for i, want := range []struct{ limits, do string }{
		{"cpu 1250m, memory 2560Mi, nodes 2", "set the limits of NodePool general to cpu 1250m, memory 2560Mi, nodes 2 (now " + now + ")"},
		{"cpu 5, memory 10Gi, nodes 6", "set the limits of NodePool general to cpu 5, memory 10Gi, nodes 6 (now " + now + ")"},
		{"nodes 5k", "remove the limits of NodePool general (now " + now + "); tried with at most 5000 machines"},
	} {
		c := fatal.Value(Read([]byte(machineTypes), all[i].Pools))(t)
		if p := c.Pool("general"); listed(p.Limits) != want.limits || all[i].Do != want.do || p.Weight != 5 || p.Labels["team"] != "web" || len(c.Pools) != 2 {
			t.Errorf("%s; %s; %+v", listed(p.Limits), all[i].Do, p)
		}
		if s := c.Pool("spot"); len(s.Taints) != 1 || s.Limits.Name(nodesLimit, "").Value() != 3 || !slices.Contains(c.Notes, "not used: 1 of kind Service") {
			t.Errorf("%+v, %q", s, c.Notes)
		}
	}
	if c := fatal.Value(Read([]byte(machineTypes), all[3].Pools))(t); c.Pool("general") != nil || c.Pool("spot") == nil {
		t.Error("the wrong pool is left out")
	}
	all, _, err = Changes([]byte(machineTypes), []byte("{kind: NodePool, metadata: {name: all}}"))
	fatal.If(t, err)
	for i, wantSpot := range []bool{false, true} {
		c := fatal.Value(Read([]byte(machineTypes), all[i].Pools))(t)
		for _, l := range c.Offers(&c.Pools[0]) {
			if l.Spot != wantSpot {
				t.Errorf("%s starts %+v", all[i].Name, l)
			}
		}
	}
}

// A search tries few changes of many pools, and says so.
func TestMostChanges(t *testing.T) {
	var many strings.Builder
	for i := range 30 {
		fmt.Fprintf(&many, "\n---\n{kind: NodePool, metadata: {name: p%02d}, spec: {limits: {cpu: 8}, weight: %d}}", i, i)
	}
	all, notes, err := Changes([]byte(machineTypes), []byte(many.String()))
	fatal.If(t, err)
	if len(all) != mostChanges || !strings.HasPrefix(all[0].Name, "p29 ") || len(notes) != 1 || !strings.HasPrefix(notes[0], "of 180 changes of NodePools 20 are tried") {
		t.Errorf("%d, %q, %q", len(all), all[0].Name, notes)
	}
}
