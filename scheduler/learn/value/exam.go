//go:build torch

package value

import (
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"gnnsched/gnn/checkpoint"
	"gnnsched/gnn/infer"
	"gnnsched/internal/cluster"
	"gnnsched/scheduler/eval"
	"gnnsched/scheduler/experience"
	"gnnsched/scheduler/learn/online"
	"gnnsched/scheduler/policy"
	"gnnsched/scheduler/policy/heuristic"
	"gnnsched/scheduler/policy/neural"
	"gnnsched/scheduler/sim"
	"gnnsched/workload/trace/openb"
)

// Exam judges networks that learn online. The nodes are the running cluster's, and the pods are drawn from the
// typical ones of the network's training. An episode follows the published protocol: pods arrive until they have requested 130 % of the
// GPUs, and none leaves. A network's total is the share of the GPUs that could be allocated and is not, as a mean over the
// loads at which networks are compared, and over the episodes.
type Exam struct {
	Config   Config
	Typical  *checkpoint.TypicalPods
	Episodes int

	machines map[experience.MachineKind]int // of the running cluster
	workload Workload                       // nil pods until the nodes are known
	nodes    []openb.Node
}

var _ online.Exam = (*Exam)(nil)

// examNodes is about the largest number of nodes of an episode: a larger cluster is sampled, so that an episode takes
// a fraction of a second.
const examNodes = 64

// examPods is about the number of pods of the list that arrivals are drawn from.
const examPods = 1000

// examSeeds is the first seed of the arrivals.
const examSeeds = 1 << 42

// See implements online.Exam: it takes over the nodes of the cluster.
func (e *Exam) See(s experience.Step) {
	machines := map[experience.MachineKind]int{}
	for _, n := range s.GPU.Nodes {
		machines[s.GPU.Kinds[n.Kind]]++
	}
	if len(machines) == 0 || maps.Equal(machines, e.machines) {
		return
	}
	e.machines = machines
	kinds := slices.SortedFunc(maps.Keys(machines), func(a, b experience.MachineKind) int {
		return cmp.Or(cmp.Compare(a.Model, b.Model), cmp.Compare(a.Devices, b.Devices), cmp.Compare(a.MilliCPU, b.MilliCPU),
			cmp.Compare(a.Memory, b.Memory))
	})
	var nodes []openb.Node
	for _, k := range kinds {
		for range machines[k] {
			nodes = append(nodes, openb.Node{
				Name: fmt.Sprintf("node-%d", len(nodes)), MilliCPU: min(k.MilliCPU, cluster.MaxMilliCPU),
				MemoryMiB: min(k.Memory, cluster.MaxMemory) >> 20,
				GPUs:      min(k.Devices, cluster.MaxDevices), Model: k.Model,
			})
		}
	}
	e.nodes = openb.Sample(nodes, examNodes)
	e.workload = Workload{Name: "typical", Pods: typicalList(e.Typical, e.nodes)}
}

// typicalList returns a list of pods in which each typical pod has its frequency, without those that fit on no node. Of the
// models that a pod accepts, those of the nodes count; if no node has one of them, it accepts any.
func typicalList(t *checkpoint.TypicalPods, nodes []openb.Node) (out []openb.Pod) {
	for _, p := range t.Pods {
		pod := openb.Pod{MilliCPU: p.MilliCPU, GPUs: p.GPU, Created: openb.NoTime, Deleted: openb.NoTime, Scheduled: openb.NoTime}
		if pod.GPUs > 0 {
			pod.GPUMilli = cluster.DeviceMilli
		} else if p.GPUMilli > 0 {
			pod.GPUs, pod.GPUMilli = 1, p.GPUMilli
		}
		for _, m := range p.GPUModels {
			if slices.ContainsFunc(nodes, func(n openb.Node) bool { return n.Model == m }) {
				pod.Models = append(pod.Models, m)
			}
		}
		fits := func(n openb.Node) bool {
			return n.MilliCPU >= pod.MilliCPU && n.GPUs >= pod.GPUs && (len(pod.Models) == 0 || slices.Contains(pod.Models, n.Model))
		}
		if !slices.ContainsFunc(nodes, fits) {
			continue
		}
		for range max(1, int(examPods*p.Frequency+0.5)) {
			pod.Name = fmt.Sprintf("pod-%d", len(out))
			out = append(out, pod)
		}
	}
	return out
}

// errNoExam is the error while there are no nodes, or no typical pod with GPUs fits on them.
var errNoExam = errors.New("no typical pod with GPUs fits on the cluster's nodes")

// Key implements online.Exam.
func (e *Exam) Key() (string, error) {
	if !slices.ContainsFunc(e.workload.Pods, func(p openb.Pod) bool { return p.GPUs > 0 }) {
		return "", errNoExam
	}
	text, err := json.Marshal([]any{e.nodes, e.workload.Pods, e.Episodes, e.Config.Factor, e.Config.loads()})
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%x", sha256.Sum256(text)), nil
}

// Default implements online.Exam.
func (e *Exam) Default() (float64, error) {
	return e.mean(func(*sim.Env) policy.Policy { return heuristic.Kubernetes{} }, true)
}

// Total implements online.Exam.
func (e *Exam) Total(c *checkpoint.Checkpoint) (float64, error) {
	net, err := infer.New(c)
	if err != nil {
		return 0, err
	}
	return e.mean(func(env *sim.Env) policy.Policy { return neural.New("learning", net, env.Typical()) }, false)
}

// mean returns the total of a policy.
func (e *Exam) mean(of func(*sim.Env) policy.Policy, randomTies bool) (float64, error) {
	p := player{e.Config, e.nodes}
	totals := make([]float64, e.Episodes)
	err := parallel(e.Episodes, func(i int) error {
		env, err := p.env(e.workload)
		if err != nil {
			return err
		}
		seed := examSeeds + uint64(i)
		o, err := eval.Play(env, seed, of(env), eval.Contender{RandomTies: randomTies}.Ties(seed))
		if err != nil {
			return err
		}
		for _, l := range o.GPU.Loads {
			totals[i] += (min(l.Load, 1) - l.Allocation) / float64(len(o.GPU.Loads))
		}
		return nil
	})
	sum := 0.0
	for _, t := range totals {
		sum += t / float64(e.Episodes)
	}
	return sum, err
}
