package tracerun

import (
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"

	"gnnsched/scheduler/eval"
	"gnnsched/scheduler/eval/published"
	"gnnsched/scheduler/sim"
	"gnnsched/workload/driver"
)

// SteadyReport is the result of RunSteady. Times are in seconds of the trace.
type SteadyReport struct {
	PodsFile string `json:"podList"`
	// GPURequests is the form of the pods' requests for GPUs.
	GPURequests driver.GPURequests `json:"gpuRequests,omitempty"`
	Load        float64            `json:"load"`
	Nodes       int                `json:"nodes"`
	GPUs        int64              `json:"gpus"`
	Speed       float64            `json:"speed"` // seconds of the trace in one second
	WarmUp      float64            `json:"warmUp"`
	Duration    float64            `json:"duration"`
	Trials      []SteadyTrial      `json:"trials"` // in the order in which they ran

	// All makes Write show every class of pods, as in published.Steady.
	All bool `json:"-"`
}

// SteadyTrial is the result of one profile with the arrivals of one seed.
type SteadyTrial struct {
	Policy    string             `json:"policy"`
	Seed      uint64             `json:"seed"`
	Measured  float64            `json:"measured"` // seconds after the warm-up; less than Duration if it was interrupted
	Cluster   *sim.SteadyOutcome `json:"cluster"`
	Simulated *sim.SteadyOutcome `json:"simulated"` // of the same episode
	Started   int                `json:"started"`   // pods that were to run at the start
	SameStart int                `json:"sameStart"` // of them, on the same node and devices as in the simulator, or rejected in both
	Fallbacks int                `json:"fallbacks"` // decisions taken by upstream's scoring instead of the policy
	timing
}

const secondsADay = 86400

// tables returns the tables of the cluster and of the simulator. They have the measured policies, on the seeds that all of these have.
func (r *SteadyReport) tables() published.Steady {
	on := func(where, how string, of func(SteadyTrial) *sim.SteadyOutcome) *eval.Comparison {
		c := eval.Collect(r.Trials, func(t SteadyTrial) (string, uint64, sim.Outcome) {
			return t.Policy, t.Seed, sim.Outcome{Steady: of(t)}
		})
		c.Scenario = eval.Scenario{Name: filepath.Base(r.PodsFile) + " " + where, About: how}
		return c
	}
	machines := fmt.Sprintf("%d machines of the trace with %d GPUs%s", r.Nodes, r.GPUs, forms[r.GPURequests].text)
	s := published.MeasuredSteady(r.WarmUp/secondsADay, r.Duration/secondsADay, r.Load,
		on("on a simulated cluster", fmt.Sprintf("%s and the real kube-scheduler; %.4g seconds of the trace pass in one", machines, r.Speed),
			func(t SteadyTrial) *sim.SteadyOutcome { return t.Cluster }),
		on("in the simulator", machines+", the same pods", func(t SteadyTrial) *sim.SteadyOutcome { return t.Simulated }))
	s.All = r.All
	return s
}

// Write writes the tables for a terminal, or as Markdown, and a table of how fast the cluster was.
func (r *SteadyReport) Write(w io.Writer, markdown bool) error {
	if len(r.Trials) == 0 {
		_, err := fmt.Fprintln(w, "Nothing was measured: no round got past its warm-up.")
		return err
	}
	if err := r.tables().Write(w, markdown); err != nil {
		return err
	}
	p := eval.Page{Markdown: markdown}
	p.Printf("\nHow fast the cluster was. At once: mean time to a node of the pods that the scheduler never refused; it is part of\n" +
		"every wait on the cluster, and none in the simulator. Late: 95th percentile of the time by which pods came too late.\n\n")
	p.Table(r.speeds())
	if t := r.Trials[len(r.Trials)-1]; t.Measured < r.Duration {
		p.Printf("\nInterrupted: %s on seed %d was measured for %.3g of %.3g days, and its figures in the simulator are of the same time.\n",
			t.Policy, t.Seed, t.Measured/secondsADay, r.Duration/secondsADay)
	}
	return p.Write(w)
}

// speeds returns the rows of the last table.
func (r *SteadyReport) speeds() [][]string {
	rows := [][]string{{
		"seed", "policy", "at once s", "in seconds of the trace", "late s", "fallbacks", "days measured", "same devices at the start %",
	}}
	for _, t := range r.Trials {
		rows = append(rows, []string{
			fmt.Sprint(t.Seed), t.Policy, fmt.Sprintf("%.3f", t.AtOnce), fmt.Sprintf("%.0f", t.AtOnce*r.Speed), fmt.Sprintf("%.3f", t.Late),
			fmt.Sprint(t.Fallbacks), fmt.Sprintf("%.3g", t.Measured/secondsADay),
			fmt.Sprintf("%.1f", 100*float64(t.SameStart)/float64(max(t.Started, 1))),
		})
	}
	return rows
}

// WriteCSV writes the rows of published.Steady.WriteCSV, for the cluster and for the simulator.
func (r *SteadyReport) WriteCSV(w io.Writer) error { return r.tables().WriteCSV(w) }

// MarshalJSON implements json.Marshaler. The object has the trials, and means and differences as in published.Steady.
func (r *SteadyReport) MarshalJSON() ([]byte, error) {
	type plain SteadyReport
	out := struct {
		*plain
		Tables published.Steady `json:"tables"`
	}{plain: (*plain)(r), Tables: r.tables()}
	return json.Marshal(out)
}
