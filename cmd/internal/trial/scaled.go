package trial

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	ucli "github.com/urfave/cli/v2"
	corev1 "k8s.io/api/core/v1"

	"gnnsched/cmd/internal/compare"
	page "gnnsched/cmd/internal/report"
	"gnnsched/internal/cluster"
	"gnnsched/internal/exit"
	"gnnsched/scheduler/eval"
	"gnnsched/scheduler/eval/contender"
	"gnnsched/scheduler/policy/preference"
	"gnnsched/scheduler/replay"
	"gnnsched/scheduler/server"
	"gnnsched/scheduler/sim"
	"gnnsched/workload"
	"gnnsched/workload/record"
	"gnnsched/workload/record/play"
)

// scaledFlags are the flags of episodes in which an autoscaler starts and removes nodes.
func scaledFlags() []ucli.Flag {
	return append(compare.AutoscalerFlags(), &ucli.DurationFlag{Name: "unit", Value: time.Minute,
		Usage: "mean `TIME` between two pods of a scenario that does not say how long its unit of time is"})
}

// runScaled plays the episodes with autoscalers, as gnnsched compare plays a record.
func runScaled(c *ucli.Context) error {
	err := refuse(c, "--%s does not go with --autoscaler: leave one of them out",
		"live", "objective", "threshold", "all", "metrics", "from", "workers")
	if err != nil {
		return err
	}
	e, err := evaluationWith(c, map[string]string{"policies": contender.Kubernetes + ",most-allocated,gnn", "seeds": "5"})
	if err != nil {
		return err
	}
	contenders, err := contender.WithProfiles(e.contenders, c.StringSlice("checkpoint"))
	if err != nil {
		return exit.New(exit.Usage, fmt.Errorf("--autoscaler: %w", err),
			"scheduler profiles decide there: "+strings.Join(server.ProfileNames(), ", ")+", greedy:OBJECTIVE and files of --checkpoint")
	}
	run, err := page.Begin(c, "eval", e.seeds, "log-dir log-level")
	if err != nil {
		return err
	}
	if f := c.String("output"); len(e.scenarios) > 1 && f != "table" {
		return exit.Usagef("-o %s prints one scenario at a time with --autoscaler; name one", f)
	}
	var all []compare.Episodes
	for _, s := range e.scenarios {
		x := compare.Episodes{Scenario: s, Seeds: e.seeds}
		for _, k := range contenders {
			x.Profiles = append(x.Profiles, k.In(s))
		}
		if x.Sources, err = episodes(c, s, e.seeds); err != nil {
			return exit.New(exit.Usage, fmt.Errorf("scenario %s: %w", s.Name, err), "docs/how-to/cost.md says what becomes of a scenario")
		}
		all = append(all, x)
	}
	for _, x := range all {
		if err := x.Report(c, &run); err != nil {
			return err
		}
	}
	return run.Write(c, nil)
}

// episodes draws the episodes of seeds for replays. An error names what a replay cannot hold.
func episodes(c *ucli.Context, s eval.Scenario, seeds []uint64) (out []replay.Source, err error) {
	for what, has := range map[string]bool{
		"mig": s.MIG != nil, "initial": s.Initial > 0, "lose": s.Lose > 0, "thresholds": len(s.Thresholds) > 0, "optimum": s.Optimum,
	} {
		if has {
			return nil, fmt.Errorf("%s is for the simulator's own nodes; leave it or --autoscaler out", what)
		}
	}
	seconds := s.Seconds()
	switch unit := c.Duration("unit"); {
	case seconds > 0 && c.IsSet("unit"):
		return nil, fmt.Errorf("its unit of time is %g s; leave --unit out", seconds)
	case unit < time.Millisecond || unit > 24*time.Hour:
		return nil, fmt.Errorf("--unit %v is not 1ms to 24h", unit)
	case seconds == 0:
		seconds = unit.Seconds()
	}
	env, err := sim.New(s.Config)
	for _, seed := range seeds {
		var e replay.Source
		if err == nil {
			e, err = episode(s, env, seed, seconds)
		}
		out = append(out, e)
	}
	return out, err
}

// episode returns the nodes and pods of a seed's episode, with so many seconds in a unit of its time. Pods of a Deployment are of its
// ReplicaSet, which takes them away. A Deployment's only pod, if it leaves, and those of a trace, are of Jobs: they run for their lifetime.
func episode(s eval.Scenario, env *sim.Env, seed uint64, seconds float64) (e replay.Source, err error) {
	if err := env.Reset(seed); err != nil {
		return e, err
	}
	plan, replicas := env.Plan(), map[*cluster.Pod]int{}
	for _, a := range plan {
		replicas[a.Pod]++
	}
	end := plan[len(plan)-1].At + 1
	var arrivals workload.Trace
	for i, a := range plan {
		if a.Usage != nil && a.Usage.Work > 0 {
			return e, fmt.Errorf("pods such as %s leave when their work is done, which depends on their nodes", a.Pod.Name)
		}
		p, ends := a.Pod, min(max(a.At, env.FillEnd())+a.Lifetime, end)
		d := workload.Deployment{Name: fmt.Sprintf("%s-%d", p.Name, i), Replicas: 1, Shape: workload.Shape{Requests: p.Requests, Limits: p.Limits,
			NodeSelector: p.NodeSelector, NodeAffinity: p.NodeAffinity, Tolerations: p.Tolerations, GPUModels: p.GPUModels}}
		if p.Owner != "" && (replicas[p] > 1 || math.IsInf(a.Lifetime, 1)) {
			d.Shape.Labels = map[string]string{"app": p.Owner}
		}
		arrivals = append(arrivals, workload.Arrival{At: a.At * seconds, Lifetime: (ends - a.At) * seconds, Deployment: d})
	}
	e.Pods, e.From, e.To = play.PodRows(arrivals), play.Midnight, play.Midnight+int64(math.Round(1000*end*seconds))
	for i := range e.Pods {
		p := &e.Pods[i]
		if p.Ended >= e.To {
			p.Ended, p.End = 0, ""
		}
		if s.PreferenceMode() != preference.First {
			p.Labels = "" // without a selector of their ReplicaSet, pods need not be spread
		}
		if p.OwnerKind == record.KindJob {
			e.Objects = append(e.Objects, record.Object{Kind: p.OwnerKind, Namespace: p.Namespace, Name: p.OwnerName, From: p.Arrived,
				Scale: record.JSON(record.Scale{Parallelism: new(int32(1)), Completions: new(int32(1))})})
		}
	}
	e.Objects = append(e.Objects, play.Owned(e.Pods)...)
	e.Nodes, e.Notes = play.NodeRows(env.Nodes()), []string{fmt.Sprintf("a unit of the scenario's time is %g s", seconds)}
	for i, n := range env.Nodes() {
		labels := record.Labels(e.Nodes[i].Labels)
		labels[corev1.LabelHostname] = n.Name
		e.Nodes[i].Labels = record.Column(labels)
	}
	powered := slices.ContainsFunc(env.Nodes(), func(n *cluster.Node) bool { return n.Power != nil })
	if s.Usage != nil || s.Traffic != nil || powered {
		e.Notes = append(e.Notes, "not played: what pods use (they use what they request) and send each other, and what nodes draw")
	}
	return e, nil
}
