package driver

import (
	"cmp"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/rs/zerolog"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/clock"

	"gnnsched/internal/cluster"
	"gnnsched/internal/exit"
	"gnnsched/workload"
	"gnnsched/workload/cleanup"
	"gnnsched/workload/record/play"
	"gnnsched/workload/trace"
	"gnnsched/workload/usage"
)

// The defaults of Config.
const (
	DefaultNamespace = "gnnsched-sim"
	defaultSettle    = 30 * time.Second
	// defaultImage runs without doing anything. Simulated nodes pull no images.
	defaultImage = "registry.k8s.io/pause:3.10"
)

// Config is the setting of a run. Client, Cleaner, Plan, SchedulerName and RunID are required.
type Config struct {
	Client  kubernetes.Interface
	Cleaner *cleanup.Client // deletes the run's objects at each reset
	Plan    workload.Plan

	SchedulerName string // of the pods
	Namespace     string // created if it is missing; default: DefaultNamespace
	RunID         string // a label value that no other run on the cluster has; see NewRunID
	Image         string // of the pods' container; default: defaultImage

	// Capacity is the cluster's capacity, from Measure. Loads in progress and summary are fractions
	// of it; they are 0 without it.
	Capacity Capacity
	// Bare creates pods without Deployments. The pods then appear in the plan's order, which
	// controllers do not keep.
	Bare bool
	// replay, if not nil, holds the recorded parts of the plan's pods, by their names. The pods are created with all their constraints. Each
	// namespace of the record becomes a new one, whose name begins with Namespace. Needs Bare.
	replay *play.Replay
	// Simulated states that all nodes of the cluster are simulated. On any other cluster, pods of a record preempt nothing.
	Simulated bool
	// Interval is the pause after each Deployment.
	Interval time.Duration
	// Speed is the number of seconds of the plan that pass in one real second: each step then waits for its time. 0 ignores the steps' times.
	Speed float64
	// Settle limits how long a fill waits without any new binding before it reports the remaining pods as pending. Default: defaultSettle.
	Settle time.Duration

	// Progress, if not nil, is called from Run's goroutine, at least once a second and at most
	// every 100 ms.
	Progress func(Progress)
	// Record, if not nil, is called from Run's goroutine after each step. An error ends the run.
	Record func(workload.Step) error

	Clock clock.WithTicker // default: the real clock
	Log   zerolog.Logger   // the zero value drops everything
}

// NewRunID returns a unique id that sorts by time.
func NewRunID(now time.Time) string {
	b := make([]byte, 2)
	rand.Read(b) // documented never to fail
	return now.Format("20060102-150405") + "-" + hex.EncodeToString(b)
}

// Validate returns every required field that is missing and every value that Kubernetes would
// refuse.
func (c *Config) Validate() error {
	bad := &exit.Faults{}
	bad.If(c.Client == nil || c.Cleaner == nil, "the driver needs a client and a cleaner")
	if p := validation.IsDNS1123Subdomain(c.SchedulerName); len(p) > 0 {
		bad.Add("scheduler name %q: %s", c.SchedulerName, p[0])
	}
	if p := validation.IsDNS1123Label(c.Namespace); c.Namespace != "" && len(p) > 0 {
		bad.Add("namespace %q: %s", c.Namespace, p[0])
	}
	if p := validation.IsValidLabelValue(c.RunID); c.RunID == "" || len(p) > 0 {
		bad.Add("run id %q must be a label value: at most 63 letters, digits, '-', '_' and '.'", c.RunID)
	}
	bad.If(c.Interval < 0 || c.Settle < 0, "interval %v and settle %v must not be negative", c.Interval, c.Settle)
	bad.If(!(c.Speed >= 0), "speed %v must be 0 or more", c.Speed)
	bad.If(c.replay != nil && !c.Bare, "the pods of a record have no Deployments")
	bad.In("", c.Plan.Validate())
	c.validateUsage(bad)
	if err := bad.Err(); err != nil {
		return exit.New(exit.Usage, err, "")
	}
	return nil
}

// validateUsage refuses models of usage that no annotation of a pod can hold.
func (c *Config) validateUsage(bad *exit.Faults) {
	seen := map[*usage.Model]bool{nil: true}
	for i, s := range c.Plan.Steps {
		m := s.Deployment.Shape.Usage
		if seen[m] {
			continue
		}
		seen[m] = true
		if _, err := usage.FormatAnnotation(m); err != nil {
			bad.Add("step %d of the plan: %s: usage: %w", i+1, s.Deployment.Name, err)
		}
	}
}

// complete validates c and fills in the defaults.
func (c *Config) complete() error {
	if err := c.Validate(); err != nil {
		return err
	}
	c.Namespace = cmp.Or(c.Namespace, DefaultNamespace)
	c.Image = cmp.Or(c.Image, defaultImage)
	c.Settle = cmp.Or(c.Settle, defaultSettle)
	c.Clock = cmp.Or[clock.WithTicker](c.Clock, clock.RealClock{})
	if c.Progress == nil {
		c.Progress = func(Progress) {}
	}
	if c.Record == nil {
		c.Record = func(workload.Step) error { return nil }
	}
	return nil
}

// Source makes the plan of a run. [Generated], [Recorded], [Traced] and [Replayed] make sources.
type Source struct {
	Tolerations []cluster.Toleration                    // of the pods, for Measure
	Fixed       bool                                    // the plan is the same for every cluster
	Seed        *uint64                                 // of a random plan; else nil
	Plan        func(Capacity) (workload.Plan, error)   // for a cluster; fixed plans ignore it
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
func (s Source) Ends(p workload.Plan, capacity Capacity) (flags []string) {
	for _, f := range p.Fills() {
		if flag := workload.LoadOf(capacity.Used.Plus(f.Requests), capacity.Allocatable).Reached(s.Target); flag != "" {
			flags = append(flags, "--"+flag)
		}
	}
	return flags
}

// fixed returns the source of a plan.
func fixed(p workload.Plan, notes []string) Source {
	return Source{
		Tolerations: p.Tolerations(), Fixed: true, Plan: func(Capacity) (workload.Plan, error) { return p, nil },
		Notes: func(workload.Plan) []string { return notes },
	}
}

// Generated draws random Deployments. Its plan depends on the cluster's capacity. Its notes name the shapes that the run's CSV cannot hold.
func Generated(g workload.Generator) Source {
	return Source{Tolerations: workload.Tolerations(g.Shapes), Seed: &g.Seed, Target: g.Target, Plan: func(c Capacity) (workload.Plan, error) {
		g := g
		g.Capacity, g.Used = c.Allocatable, c.Used
		p, err := g.Plan()
		switch {
		case errors.Is(err, workload.ErrNoCapacity):
			err = fmt.Errorf("%w (%d nodes are excluded by taints or cordons)", err, c.Excluded)
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
