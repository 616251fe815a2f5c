package learn

import (
	"fmt"
	"reflect"
	"slices"

	"github.com/urfave/cli/v2"

	"gnnsched/gnn/checkpoint"
	"gnnsched/internal/choice"
	"gnnsched/scheduler/learn/rollouts"
	"gnnsched/scheduler/learn/run"
)

// Config holds every hyperparameter of a training run. The zero value is not valid; start from
// defaultConfig. Its JSON form is stored in the checkpoint, and is the form of a job's YAML file.
type Config struct {
	run.Settings
	Rollouts rollouts.Config `json:"rollouts"`
	run.Selection
}

// variants are the networks that can be trained. Those of encoder gnn send messages.
var variants = []struct {
	name    string
	encoder checkpoint.Encoder
	head    checkpoint.Head
}{
	{"gnn", checkpoint.GNN, checkpoint.DQN}, {"dqn", checkpoint.MLP, checkpoint.DQN},
	{"acgnn", checkpoint.GNN, checkpoint.ActorCritic}, {"acdqn", checkpoint.MLP, checkpoint.ActorCritic},
}

// variantNames returns the names of the networks that can be trained.
func variantNames() (names []string) {
	for _, v := range variants {
		names = append(names, v.name)
	}
	return names
}

// Architecture returns the network of a variant, with hidden layers of the width.
func Architecture(variant string, hidden int) checkpoint.Architecture {
	a := checkpoint.Architecture{Hidden: hidden}
	for _, v := range variants {
		if v.name == variant {
			a.Encoder, a.Head = v.encoder, v.head
		}
	}
	return a
}

// Architecture returns the network that the run trains.
func (c Config) Architecture() checkpoint.Architecture {
	a := Architecture(c.Variant, c.Hidden)
	a.Features = c.Features
	return a
}

// defaultConfig returns the hyperparameters that a variant starts from. The shipped networks are trained
// with the files in the folder runs.
func defaultConfig(variant string) (Config, error) {
	c := Config{
		Settings: run.Settings{
			Variant: variant, Hidden: 32, Seed: 1, Steps: 60_000, LearningRate: 1e-3, BatchSize: 128, ClipNorm: 5,
			Imitation: run.Imitation{Teacher: "linear", Share: 0.5},
		},
		Rollouts:  rollouts.Defaults(),
		Selection: run.Selection{EvaluateEvery: 5_000, EvaluateSeeds: 100, Unscheduled: 1},
	}
	return c, checkVariant(variant)
}

func checkVariant(variant string) error {
	if !slices.Contains(variantNames(), variant) {
		return choice.Unknown("variant", variant, variantNames())
	}
	return nil
}

// Validate reports the first value out of range.
func (c Config) Validate() error {
	if err := checkVariant(c.Variant); err != nil {
		return err
	}
	if err := c.Architecture().Validate(); err != nil {
		return err
	}
	if err := c.Settings.Validate(); err != nil {
		return err
	}
	if err := c.Rollouts.Validate(c.BatchSize); err != nil {
		return err
	}
	return c.Selection.Validate()
}

// useHeuristic is the flag that switches all imitation off.
const useHeuristic = "use-heuristic"

// Flags returns the flags of the hyperparameters that people change most; the file of --config has all. They have no
// default values: Apply sets what the user gives and leaves the rest.
func Flags() []cli.Flag {
	var out []cli.Flag
	first, err := defaultConfig("gnn")
	if err != nil {
		panic(err) // it is one of variants
	}
	eachField(&first, func(name, usage string, v reflect.Value) {
		text := fmt.Sprint(v.Interface())
		switch v.Kind() {
		case reflect.Float64:
			out = append(out, &cli.Float64Flag{Name: name, Usage: usage, DefaultText: text})
		case reflect.Int:
			out = append(out, &cli.IntFlag{Name: name, Usage: usage, DefaultText: text})
		case reflect.Uint64:
			out = append(out, &cli.Uint64Flag{Name: name, Usage: usage, DefaultText: text})
		case reflect.String:
			out = append(out, &cli.StringFlag{Name: name, Usage: usage, DefaultText: text})
		default:
			panic("flags: no flag for a field of type " + v.Type().String())
		}
	})
	return append(out, &cli.BoolFlag{Name: useHeuristic, Value: true,
		Usage: "imitate a heuristic at first; --" + useHeuristic + "=false learns without a teacher"})
}

// GroupFlag puts a flag under a heading in --help.
func GroupFlag(f cli.Flag, heading string) {
	reflect.ValueOf(f).Elem().FieldByName("Category").SetString(heading)
}

// FlagNames returns the names of the flags in All.
func FlagNames() []string { return choice.Names(Flags(), firstName) }

func firstName(f cli.Flag) string { return f.Names()[0] }

// ApplyFlags sets the hyperparameters whose flags the user gave.
func ApplyFlags(c *cli.Context, config *Config) {
	eachField(config, func(name, _ string, v reflect.Value) {
		if c.IsSet(name) {
			v.Set(reflect.ValueOf(c.Value(name)).Convert(v.Type()))
		}
	})
	if c.IsSet(useHeuristic) && !c.Bool(useHeuristic) {
		config.Imitation.Share = 0
	}
}

// eachField calls f with every field that has a flag, those of structs inside included.
func eachField(c *Config, f func(name, usage string, v reflect.Value)) {
	fields(reflect.ValueOf(c).Elem(), f)
}

func fields(s reflect.Value, f func(name, usage string, v reflect.Value)) {
	for i := range s.NumField() {
		tag := s.Type().Field(i).Tag
		if name := tag.Get("flag"); name != "" {
			f(name, tag.Get("usage"), s.Field(i))
		} else if s.Field(i).Kind() == reflect.Struct {
			fields(s.Field(i), f)
		}
	}
}
