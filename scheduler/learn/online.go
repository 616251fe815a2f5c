package learn

import (
	"fmt"

	"github.com/urfave/cli/v2"

	"gnnsched/gnn/checkpoint"
)

// The flags of online learning that are not hyperparameters.
const (
	Tolerance     = "tolerance"
	GuardEpisodes = "guard-episodes"
)

// OnlineFlags returns the flags that gnntrain --online and a scheduler that learns have in common.
func OnlineFlags() []cli.Flag {
	return []cli.Flag{
		&cli.Float64Flag{Name: Tolerance, Value: 0.1,
			Usage: "how much worse than the best network so far a network may score, as a `SHARE` of the default scoring's score"},
		&cli.IntFlag{Name: GuardEpisodes, Value: 8, Usage: "`NUMBER` of held-out episodes on which a network is judged before the scheduler " +
			"gets it; 0: its scores only have to be finite"},
	}
}

// OnlineJobFromFlags returns the valid job of learn.OnlineJobFromFlags with the changes of the flags. The scheduler's
// command checks it before it starts a trainer, which checks it again.
func OnlineJobFromFlags(c *cli.Context, start *checkpoint.Checkpoint) (Job, error) {
	job, err := onlineJob(start)
	if err != nil {
		return job, err
	}
	ApplyFlags(c, &job.Config)
	if t := c.Float64(Tolerance); !(t >= 0) {
		return job, fmt.Errorf("--%s is %v, want 0 or more", Tolerance, t)
	}
	if n := c.Int(GuardEpisodes); n < 0 || n > 1000 {
		return job, fmt.Errorf("--%s is %d, want 0 to 1000", GuardEpisodes, n)
	}
	return job, job.Validate()
}
