package driver

import (
	"errors"
	"fmt"
	"strings"

	"gnnsched/internal/cluster"
	"gnnsched/internal/exit"
	"gnnsched/workload"
	"gnnsched/workload/record/play"
	"gnnsched/workload/trace"
)

// Source makes the plan of a run. [Generated], [Recorded], [Traced] and [Replayed] make sources.
type Source struct {
	Tolerations []cluster.Toleration                    // of the pods, for Measure
	Fixed       bool                                    // the plan is the same for every cluster
	Seed        *uint64                                 // of a random plan; else nil
	Plan        func(Room) (workload.Plan, error)       // for a cluster; fixed plans ignore the room
	Notes       func(workload.Plan) (warnings []string) // about the plan

	Target workload.Load // that ends a fill of a random plan

	Bare   bool         // as in Config
	Speed  float64      // as in Config
	replay *play.Replay // as in Config
}

// Pace sets the fields of c that depend on the kind of source: Bare, Speed and replay.
func (s Source) Pace(c *Config) {
	c.Bare, c.Speed, c.replay = s.Bare, s.Speed, s.replay
}

// Ends returns the flags of runsim that end the fills of a random plan; none for other plans.
func (s Source) Ends(p workload.Plan, room Room) (flags []string) {
	for _, f := range p.Fills() {
		if flag := workload.LoadOf(room.Used.Plus(f.Requests), room.Allocatable).Reached(s.Target); flag != "" {
			flags = append(flags, "--"+flag)
		}
	}
	return flags
}

// fixed returns the source of a plan.
func fixed(p workload.Plan, notes []string) Source {
	return Source{
		Tolerations: p.Tolerations(), Fixed: true, Plan: func(Room) (workload.Plan, error) { return p, nil },
		Notes: func(workload.Plan) []string { return notes },
	}
}

// Generated draws random Deployments. Its plan depends on the cluster's room. Its notes name the shapes that the run's CSV cannot hold.
func Generated(g workload.Generator) Source {
	return Source{Tolerations: workload.Tolerations(g.Shapes), Seed: &g.Seed, Target: g.Target, Plan: func(room Room) (workload.Plan, error) {
		g := g
		g.Capacity, g.Used = room.Allocatable, room.Used
		p, err := g.Plan()
		switch {
		case errors.Is(err, workload.ErrNoCapacity):
			err = fmt.Errorf("%w (%d nodes are excluded by taints or cordons)", err, room.Excluded)
			return p, exit.New(exit.Usage, err,
				"check with `kubectl get nodes` that nodes are Ready; shapes with tolerations make tainted nodes schedulable")
		case errors.Is(err, workload.ErrLoaded):
			return p, exit.New(exit.Usage, err,
				"remove earlier runs with `cleancluster`, or set higher targets with --cpu-load, --mem-load and --pod-load")
		}
		return p, err
	}, Notes: func(p workload.Plan) []string {
		lost := trace.Lost(p)
		if len(lost) == 0 {
			return nil
		}
		return []string{"the CSV has no labels, node selectors, tolerations, GPUs or usage, but these shapes do: " + strings.Join(lost, ", ") +
			"; repeat the run by its seed instead"}
	}}
}

// Recorded deploys a plan that an earlier run recorded in a CSV.
func Recorded(file trace.PlanFile) Source { return fixed(file.Plan, file.Notes) }

// Traced deploys the first pods of a trace, or all if limit is 0, at the trace's times, without Deployments. speed is the number of seconds
// of the trace that pass in one real second; lacks are warnings about the trace's missing parts.
func Traced(t workload.Trace, speed float64, limit int, lacks []string) Source {
	s := fixed(firstPods(t, limit).Plan(), lacks)
	s.Bare, s.Speed = true, speed
	return s
}

// Replayed plays the pods of a record with all their constraints, as Traced does those of a trace.
func Replayed(r play.Replay, speed float64, limit int) Source {
	s := Traced(r.Trace, speed, limit, r.Notes)
	s.replay = &r
	return s
}

// firstPods returns the first arrivals of a trace with at most limit pods; 0 means all.
func firstPods(all workload.Trace, limit int) workload.Trace {
	pods := 0
	for i, a := range all {
		if pods += a.Deployment.Replicas; limit > 0 && pods > limit {
			return all[:i]
		}
	}
	return all
}
