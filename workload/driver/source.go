package driver

import (
	"errors"
	"fmt"
	"strings"

	"gnnsched/internal/cluster"
	"gnnsched/internal/exit"
	"gnnsched/workload"
	"gnnsched/workload/trace"
	"gnnsched/workload/trace/openb"
)

// Source makes the plan of a run. Its implementations are [Generated], [Recorded], [Traced] and
// [Inflated].
type Source interface {
	// Tolerations returns the pods' tolerations, for Measure.
	Tolerations() []cluster.Toleration
	// Fixed reports whether the plan is the same for every cluster.
	Fixed() bool
	// Plan returns the plan for a cluster. Fixed plans ignore the room.
	Plan(room Room) (workload.Plan, error)
	// Seed returns the seed of a random plan, else nil.
	Seed() *uint64
	// Notes returns warnings about the plan.
	Notes(p workload.Plan) []string
	// Pace sets the fields of c that depend on the kind of source: Bare and Speed.
	Pace(c *Config)
}

// Generated draws random Deployments. Its plan depends on the cluster's room.
type Generated struct{ workload.Generator }

func (g Generated) Tolerations() []cluster.Toleration { return workload.Tolerations(g.Shapes) }
func (g Generated) Fixed() bool                       { return false }
func (g Generated) Seed() *uint64                     { return &g.Generator.Seed }
func (g Generated) Pace(*Config)                      {}

func (g Generated) Plan(room Room) (workload.Plan, error) {
	g.Capacity, g.Used = room.Allocatable, room.Used
	p, err := g.Generator.Plan()
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
}

// Notes names the shapes that the run's CSV cannot hold.
func (g Generated) Notes(p workload.Plan) []string {
	lost := trace.Lost(trace.Plan, p)
	if len(lost) == 0 {
		return nil
	}
	return []string{"the CSV has no labels, node selectors, tolerations, GPUs or usage, but these shapes do: " + strings.Join(lost, ", ") + "; repeat the run by its seed instead"}
}

// Recorded deploys a plan that an earlier run recorded in a CSV.
type Recorded struct{ File trace.PlanFile }

func (r Recorded) Tolerations() []cluster.Toleration { return r.File.Tolerations() }
func (r Recorded) Fixed() bool                       { return true }
func (r Recorded) Plan(Room) (workload.Plan, error)  { return r.File.Plan, nil }
func (r Recorded) Seed() *uint64                     { return nil }
func (r Recorded) Notes(workload.Plan) []string      { return r.File.Notes }
func (r Recorded) Pace(*Config)                      {}

// Traced deploys the pods of a trace at the trace's times, without Deployments.
type Traced struct {
	Arrivals workload.Trace
	Speed    float64  // seconds of the trace that pass in one real second
	Limit    int      // pods to deploy; 0 for all
	Lacks    []string // warnings about the trace's missing parts
}

func (t Traced) Tolerations() []cluster.Toleration {
	return firstPods(t.Arrivals, t.Limit).Plan().Tolerations()
}
func (t Traced) Fixed() bool                      { return true }
func (t Traced) Plan(Room) (workload.Plan, error) { return firstPods(t.Arrivals, t.Limit).Plan(), nil }
func (t Traced) Seed() *uint64                    { return nil }
func (t Traced) Notes(workload.Plan) []string     { return t.Lacks }
func (t Traced) Pace(c *Config)                   { c.Bare, c.Speed = true, t.Speed }

// Inflated deploys the pods of an openb pod list in random order, followed by pods that are drawn
// from the list, until Factor times the cluster's GPUs are requested. See [openb.Inflate].
type Inflated struct {
	Pods   []openb.Pod
	Factor float64
	Random uint64 // the seed
	Limit  int    // pods to deploy; 0 for all
}

func (i Inflated) Tolerations() []cluster.Toleration { return workload.Tolerations(nil) }
func (i Inflated) Fixed() bool                       { return false }
func (i Inflated) Seed() *uint64                     { return &i.Random }
func (i Inflated) Notes(workload.Plan) []string      { return nil }
func (i Inflated) Pace(c *Config)                    { c.Bare = true }

func (i Inflated) Plan(room Room) (workload.Plan, error) {
	pods, err := openb.Inflate(i.Pods, i.Factor, room.Allocatable.GPU*cluster.DeviceMilli, i.Random)
	if err != nil {
		return workload.Plan{}, exit.New(exit.Usage, err,
			"`kwokcluster up --nodes-file openb_node_list_gpu_node.csv` makes a cluster with the trace's GPUs")
	}
	return firstPods(openb.InOrder(pods), i.Limit).Plan(), nil
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
