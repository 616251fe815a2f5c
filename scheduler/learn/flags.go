package learn

import (
	"fmt"
	"reflect"

	"github.com/urfave/cli/v2"

	"gnnsched/gnn/checkpoint"
	"gnnsched/scheduler/learn/value"
)

// The flags of online learning.
const (
	Tolerance     = "tolerance"
	GuardEpisodes = "guard-episodes"
	Remember      = "replay-buffer-size"
	learningRate  = "learning-rate"
)

// OnlineFlags returns the flags that gnntrain --online and a scheduler that learns have in common, but that of the learning rate.
func OnlineFlags() []cli.Flag {
	return []cli.Flag{
		&cli.IntFlag{Name: Remember, Value: 4000, Usage: "`NUMBER` of snapshots of the cluster that learning draws from; " +
			"there is one for every 8 placements"},
		&cli.Float64Flag{Name: Tolerance, Value: 0.1,
			Usage: "how much worse than the best network so far a network may score, as a `SHARE` of that score"},
		&cli.IntFlag{Name: GuardEpisodes, Value: 8, Usage: "`NUMBER` of held-out episodes on which a network is judged before the scheduler " +
			"gets it; 0: its prices only have to be finite"},
	}
}

// OnlineFromFlags returns the valid configuration with which a network goes on learning, with the changes of the flags. The scheduler's
// command checks it before it starts a trainer, which checks it again.
func OnlineFromFlags(c *cli.Context, start *checkpoint.Checkpoint) (value.Config, error) {
	config, err := value.OnlineConfig(start)
	if err != nil {
		return config, err
	}
	if c.IsSet(learningRate) {
		config.LearningRate = c.Float64(learningRate)
	}
	if t := c.Float64(Tolerance); !(t >= 0) {
		return config, fmt.Errorf("--%s is %v, want 0 or more", Tolerance, t)
	}
	if n := c.Int(GuardEpisodes); n < 0 || n > 1000 {
		return config, fmt.Errorf("--%s is %d, want 0 to 1000", GuardEpisodes, n)
	}
	if n := c.Int(Remember); n < config.BatchSnapshots {
		return config, fmt.Errorf("--%s is %d, want %d or more", Remember, n, config.BatchSnapshots)
	}
	return config, config.Validate()
}

// GroupFlag puts a flag under a heading in --help.
func GroupFlag(f cli.Flag, heading string) {
	reflect.ValueOf(f).Elem().FieldByName("Category").SetString(heading)
}

func firstName(f cli.Flag) string { return f.Names()[0] }
