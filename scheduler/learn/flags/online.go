package flags

import (
	"fmt"

	"github.com/urfave/cli/v2"

	"gnnsched/gnn/checkpoint"
	"gnnsched/scheduler/learn"
)

// The flags of learning from a scheduler's placements, which are about no hyperparameter.
const (
	WaitCost      = "wait-cost"
	Tolerance     = "tolerance"
	GuardEpisodes = "guard-episodes"
	GuardScenario = "guard-scenario"
)

// Online are the flags of gnntrain --online that a scheduler which learns has too.
func Online() []cli.Flag {
	return []cli.Flag{
		&cli.Float64Flag{Name: WaitCost, Usage: "`COST` in the reward of each pod that has to wait", DefaultText: AsTrained},
		&cli.Float64Flag{Name: Tolerance, Value: 0.1, Usage: "how much worse a network may do there than the best so far, as a `SHARE` of the default scoring's score"},
		&cli.StringFlag{Name: GuardScenario, Usage: "`NAME` of the scenario of these episodes", DefaultText: "that which the network was chosen on in training"},
		&cli.IntFlag{Name: GuardEpisodes, Value: 8, Usage: "`NUMBER` of held-out simulated episodes that a network is judged on before the scheduler gets it; 0 for none: its scores then only have to be finite"},
	}
}

// AsTrained is the default of what the network's manifest says.
const AsTrained = "as the network was trained"

// OnlineJob is learn.OnlineJob with what the flags change, checked: what a trainer would refuse,
// whoever starts it can refuse before.
func OnlineJob(c *cli.Context, start *checkpoint.Checkpoint) (learn.Job, error) {
	job, err := learn.OnlineJob(start)
	if err != nil {
		return job, err
	}
	Apply(c, &job.Config)
	if c.IsSet(WaitCost) {
		job.Environment.WaitCost = c.Float64(WaitCost)
	}
	if name := c.String(GuardScenario); name != "" {
		held, err := learn.EnvironmentByName(name)
		if err != nil {
			return job, fmt.Errorf("--%s: %w", GuardScenario, err)
		}
		job.HeldOut = &held
	}
	if t := c.Float64(Tolerance); !(t >= 0) {
		return job, fmt.Errorf("--%s is %v, want 0 or more", Tolerance, t)
	}
	if n := c.Int(GuardEpisodes); n < 0 || n > 1000 {
		return job, fmt.Errorf("--%s is %d, want 0 to 1000", GuardEpisodes, n)
	}
	return job, job.Validate()
}
