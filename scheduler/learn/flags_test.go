package learn

import (
	"reflect"
	"slices"
	"testing"

	"github.com/urfave/cli/v2"
)

func apply(t *testing.T, args ...string) Config {
	t.Helper()
	c := defaults(t, "gnn")
	app := &cli.App{Flags: Flags(), Action: func(ctx *cli.Context) error { ApplyFlags(ctx, &c); return nil }}
	if err := app.Run(append([]string{"x"}, args...)); err != nil {
		t.Fatal(err)
	}
	return c
}

func TestApply(t *testing.T) {
	if c := apply(t); !reflect.DeepEqual(c, defaults(t, "gnn")) {
		t.Errorf("no flag changed the configuration to %+v", c)
	}
	c := apply(t, "--learning-rate", "0.25", "--batch-size=77", "--seed", "9")
	if c.LearningRate != 0.25 || c.BatchSize != 77 || c.Seed != 9 {
		t.Errorf("%+v", c)
	}
	if c := apply(t, "--use-heuristic=false"); c.Imitation.Share != 0 {
		t.Errorf("%+v", c.Imitation)
	}
	if c := apply(t, "--use-heuristic"); c.Imitation != defaults(t, "gnn").Imitation {
		t.Errorf("%+v", c.Imitation)
	}
}

// Users of AAML find the names that they know, and no two hyperparameters share a flag.
func TestNames(t *testing.T) {
	names := FlagNames()
	for _, name := range []string{
		"hidden-layers", "init-epsi", "epsi-decay", "learning-rate", "replay-buffer-size", "batch-size", "use-heuristic",
	} {
		if !slices.Contains(append(SchedulerNames(), names...), name) {
			t.Errorf("no flag --%s", name)
		}
	}
	slices.Sort(names)
	if len(slices.Compact(names)) != len(FlagNames()) {
		t.Error("two hyperparameters share a flag")
	}
	all := defaults(t, "gnn")
	eachField(&all, func(name, usage string, v reflect.Value) {
		if usage == "" {
			t.Errorf("--%s has no help", name)
		}
	})
}
