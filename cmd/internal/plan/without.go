package plan

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	ucli "github.com/urfave/cli/v2"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"gnnsched/cmd/internal/recording"
	"gnnsched/internal/cli"
	"gnnsched/internal/exit"
	"gnnsched/scheduler/plan"
	"gnnsched/scheduler/server"
	"gnnsched/workload/record"
)

// texts is the value of a repeatable flag whose texts may contain commas.
type texts []string

// Set implements flag.Value.
func (t *texts) Set(s string) error {
	*t = append(*t, s)
	return nil
}

// String implements flag.Value.
func (t *texts) String() string { return strings.Join(*t, " ") }

// nodesOf returns which nodes the values of --without select: node=NAME, zone=NAME or a selector of labels.
func nodesOf(values []string) (func(*record.Node) bool, error) {
	names := map[string]bool{}
	var selectors []labels.Selector
	for _, v := range values {
		if name, is := strings.CutPrefix(v, "node="); is {
			names[name] = true
			continue
		}
		text := v
		if zone, is := strings.CutPrefix(v, "zone="); is {
			text = v1.LabelTopologyZone + "=" + zone
		}
		s, err := labels.Parse(text)
		if err == nil && s.Empty() {
			err = errors.New("it selects every node")
		}
		if err != nil {
			return nil, exit.New(exit.Usage, fmt.Errorf("--without %q: %w", v, err),
				"write node=NAME, zone=NAME or a selector of labels such as disk=ssd")
		}
		selectors = append(selectors, s)
	}
	return func(n *record.Node) bool {
		set := labels.Set(record.Labels(n.Labels))
		return names[n.Name] || slices.ContainsFunc(selectors, func(s labels.Selector) bool { return s.Matches(set) })
	}, nil
}

// runWithout plays the loss of nodes.
func runWithout(c *ucli.Context, bar *cli.Bar) error {
	values := *c.Generic("without").(*texts)
	gone, err := nodesOf(values)
	if err != nil {
		return err
	}
	source, err := sourceAt(c)
	if err != nil {
		return err
	}
	if _, lost := plan.Lose(source, gone); len(lost.Lost) == 0 || len(lost.Lost) == lost.Nodes {
		return exit.New(exit.Usage, fmt.Errorf("--without %s selects %d of the %d nodes at this time", strings.Join(values, " "), len(lost.Lost),
			lost.Nodes), hintOf(source.Nodes))
	}
	profiles, err := profilesOf(c)
	if err != nil {
		return err
	}
	out, err := plan.Without(c.Context, source, gone, profiles,
		func(done float64) { bar.Show(done, "place", fmt.Sprintf("%.0f %%", 100*done)) })
	bar.Close()
	if err != nil {
		return failed(c, err)
	}
	return cli.Print(c, out)
}

// hintOf names some nodes and zones of the record.
func hintOf(nodes []record.Node) string {
	names, zones := map[string]bool{}, map[string]bool{}
	for i := range nodes {
		names[nodes[i].Name] = true
		if z := record.Labels(nodes[i].Labels)[v1.LabelTopologyZone]; z != "" {
			zones[z] = true
		}
	}
	some := func(m map[string]bool) string {
		list := slices.Sorted(maps.Keys(m))
		if len(list) > 5 {
			list = append(list[:5:5], "...")
		}
		return strings.Join(list, ", ")
	}
	hint := "the record has the nodes " + some(names)
	if len(zones) > 0 {
		hint += " in the zones " + some(zones)
	}
	return hint
}

// profilesOf decodes the profiles of the flags.
func profilesOf(c *ucli.Context) (out []plan.Profile, err error) {
	chosen, err := recording.Profiles(c)
	if err != nil {
		return nil, err
	}
	decoded, err := server.Config{Profiles: chosen, QPS: 1}.Decode()
	if err != nil {
		return nil, err
	}
	for i, p := range decoded.Profiles {
		out = append(out, plan.Profile{Name: chosen[i].SchedulerName, KubeSchedulerProfile: p})
	}
	return out, nil
}
