package flags

import (
	"reflect"
	"slices"
	"testing"

	"github.com/urfave/cli/v2"

	"gnnsched/scheduler/learn"
)

func apply(t *testing.T, args ...string) learn.Config {
	t.Helper()
	c := defaults("gnn")
	app := &cli.App{Flags: All(), Action: func(ctx *cli.Context) error { Apply(ctx, &c); return nil }}
	if err := app.Run(append([]string{"x"}, args...)); err != nil {
		t.Fatal(err)
	}
	return c
}

func TestApply(t *testing.T) {
	if c := apply(t); !reflect.DeepEqual(c, defaults("gnn")) {
		t.Errorf("no flag changed the configuration to %+v", c)
	}
	c := apply(t, "--gamma", "0.25", "--replay-buffer-size=777", "--seed", "9", "--method", "ppo",
		"--actor-learning-rate", "0.002")
	if c.Gamma != 0.25 || c.DQN.ReplayBufferSize != 777 || c.Seed != 9 || c.Method != "ppo" || c.PPO.ActorLearningRate != 0.002 {
		t.Errorf("%+v", c)
	}
	if c := apply(t, "--use-heuristic=false"); c.Imitation.Share != 0 {
		t.Errorf("%+v", c.Imitation)
	}
	if c := apply(t, "--use-heuristic"); c.Imitation != defaults("gnn").Imitation {
		t.Errorf("%+v", c.Imitation)
	}
}

// Users of AAML find the names that they know, and no two hyperparameters share a flag.
func TestNames(t *testing.T) {
	names := Names()
	for _, name := range []string{
		"hidden-layers", "init-epsi", "epsi-decay", "gamma", "learning-rate", "actor-learning-rate", "critic-learning-rate",
		"replay-buffer-size", "update-frequency", "target-update-frequency", "batch-size", "use-heuristic",
	} {
		if !slices.Contains(names, name) {
			t.Errorf("no flag --%s", name)
		}
	}
	slices.Sort(names)
	if len(slices.Compact(names)) != len(Names()) {
		t.Error("two hyperparameters share a flag")
	}
	all := defaults("gnn")
	each(&all, func(name, usage string, v reflect.Value) {
		if usage == "" {
			t.Errorf("--%s has no help", name)
		}
	})
}
