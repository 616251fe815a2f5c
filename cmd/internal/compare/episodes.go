package compare

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	ucli "github.com/urfave/cli/v2"
	v1 "k8s.io/api/core/v1"

	"gnnsched/cmd/internal/report"
	"gnnsched/internal/each"
	"gnnsched/scheduler/eval"
	"gnnsched/scheduler/objective"
	"gnnsched/scheduler/replay"
	"gnnsched/scheduler/server"
	"gnnsched/workload/record"
)

// Episodes are those of a scenario, one for each seed, and the profiles that play them, the baseline first.
type Episodes struct {
	Scenario eval.Scenario
	Seeds    []uint64
	Sources  []replay.Source // by seed
	Profiles []server.Profile
}

// Report plays the episodes with the autoscalers of the flags, prints the figures, and puts them onto the page.
func (e Episodes) Report(c *ucli.Context, page *report.Run) error {
	search, err := searchOf(c)
	if err = errors.Join(checkFormat(c), err); err != nil {
		return err
	}
	p, err := newPlayer(c, search, e.Profiles, e.Seeds)
	if err != nil {
		return err
	}
	if !c.IsSet("nodepools") {
		for i := range p.contenders {
			p.contenders[i].setting.Pools = poolsOf(e.Sources)
		}
	}
	p.scenario, p.sources, p.config.Objective = e.Scenario, e.Sources, objective.Balance{}
	return errors.Join(p.report(c, formats[c.String("output")], page))
}

// poolsOf returns NodePools of machines on demand: one for each set of labels and taints that nodes have, of any type and in any zone.
func poolsOf(sources []replay.Source) (out []byte) {
	const pool = `---
{apiVersion: karpenter.sh/v1, kind: NodePool, metadata: {name: pool-%d}, spec: {template: {metadata: {labels: %s}, spec: {taints: %s,
  requirements: [{key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}]}}}}
`
	seen := map[string]bool{}
	for _, n := range slices.Concat(each.Map(sources, func(s replay.Source) []record.Node { return s.Nodes })...) {
		labels := record.Labels(n.Labels)
		delete(labels, v1.LabelHostname)
		delete(labels, v1.LabelTopologyZone)
		if key := record.JSON(labels) + n.Taints; !seen[key] {
			out = fmt.Appendf(out, pool, len(seen), record.JSON(labels), cmp.Or(n.Taints, "[]"))
			seen[key] = true
		}
	}
	return out
}
