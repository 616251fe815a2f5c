package rollouts

import (
	"fmt"

	"gnnsched/scheduler/learn/run"
)

// Config holds the hyperparameters of policy iteration with rollouts.
type Config struct {
	Envs       int `json:"envs"`       // number of the simulator's clusters side by side
	Every      int `json:"every"`      // placements in each of these clusters between two decisions that are learned from
	Candidates int `json:"candidates"` // candidates to try at a decision
	Random     int `json:"random"`     // how many of them are random; the others are those that the network likes best
	Horizon    int `json:"horizon"`    // placements of a rollout
	// WaitPlacements is the cost that a waiting pod adds to a rollout, whose cost is a sum over placements.
	// The environment's waitCost, in units of the objective, is what it takes from the reward of one placement.
	WaitPlacements float64 `json:"waitPlacements"` // a pod that has to wait in a rollout costs as much as this many placements with an objective of 1
	// Anchor keeps the network near its teacher where rollouts tell little: their noise is many times larger
	// than the differences between good candidates.
	Anchor    float64 `json:"anchor"`    // weight of the teacher's scores of all candidates in the loss, beside the rollouts
	Memory    int     `json:"memory"`    // latest decisions, from which updates draw
	Updates   int     `json:"updates"`   // updates after each decision of all clusters
	Averaging float64 `json:"averaging"` // share of the learning network in the average that plays, at each update
	// Scale says what a decision's worths, and the teacher's scores, are divided by: byRun (the default) or byDecision. By the run, the
	// loss counts what a choice is worth, so the few decisions on which much depends, such as those that overload a link, can rule it.
	Scale string `json:"scale,omitempty"` // what worths are divided by: run, the spread of all decisions; or decision, that of each by itself
}

// What Config.Scale may be.
const (
	byRun      = "run"
	byDecision = "decision"
)

// Defaults returns the values that a run starts from. With them 20,000 placements, a minute, are enough to learn something.
func Defaults() Config {
	return Config{Envs: 16, Every: 1, Candidates: 6, Random: 1, Horizon: 60, WaitPlacements: 0.3, Anchor: 0.3, Memory: 40_000, Updates: 2,
		Averaging: 0.02}
}

// Validate reports the first value out of range. batch is the number of decisions that an update draws.
func (c Config) Validate(batch int) error {
	if c.Scale != "" && c.Scale != byRun && c.Scale != byDecision {
		return fmt.Errorf("scale of rollouts %q is not known; choose %s or %s", c.Scale, byRun, byDecision)
	}
	return run.CheckRanges([]run.Range{
		{Name: "environments of rollouts", Value: float64(c.Envs), Low: 1, High: 4096},
		{Name: "every", Value: float64(c.Every), Low: 1, High: 1e6},
		{Name: "candidates", Value: float64(c.Candidates), Low: 2, High: 1e4},
		{Name: "random candidates", Value: float64(c.Random), Low: 0, High: float64(c.Candidates - 1)},
		{Name: "horizon", Value: float64(c.Horizon), Low: 1, High: 1e6},
		{Name: "wait placements", Value: c.WaitPlacements, Low: 0, High: 1e6},
		{Name: "anchor", Value: c.Anchor, Low: 0, High: 1e3},
		{Name: "memory of rollouts", Value: float64(c.Memory), Low: float64(batch), High: 1e7},
		{Name: "updates", Value: float64(c.Updates), Low: 1, High: 1e4},
		{Name: "averaging", Value: c.Averaging, Low: 1e-6, High: 1},
	})
}

// settings are the hyperparameters of a run by this method.
type settings struct {
	run.Settings
	Config
}

// imitates tells whether the teacher's scores are learned at a step, before any rollout.
func (s settings) imitates(step int) bool { return s.TeacherShare(step) > 0 }

// The tags of the figures that this method alone reports.
const (
	tagLoss      = "losses/advantage_loss"
	tagSpread    = "rollouts/spread"    // variance of the costs at a decision, in squares of the objective times placements
	tagAgreement = "rollouts/agreement" // share of decisions at which the network's choice was the cheapest
)
