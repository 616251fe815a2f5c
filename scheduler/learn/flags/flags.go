package flags

import (
	"fmt"
	"reflect"

	"github.com/urfave/cli/v2"

	"gnnsched/internal/choice"
	"gnnsched/scheduler/learn"
)

// useHeuristic is the flag that switches all imitation off.
const useHeuristic = "use-heuristic"

// All returns the flags of the hyperparameters that people change most; the file of --config has all. They have no
// default values: Apply sets what the user gives and leaves the rest.
func All() []cli.Flag {
	var out []cli.Flag
	first, other := defaults("gnn"), defaults("acgnn")
	each(&first, func(name, usage string, v reflect.Value) {
		text := fmt.Sprint(v.Interface())
		if v := value(&other, name); fmt.Sprint(v.Interface()) != text {
			text = fmt.Sprintf("%s; %v for acgnn and acdqn", text, v.Interface())
		}
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

// Group puts a flag under a heading in --help.
func Group(f cli.Flag, heading string) {
	reflect.ValueOf(f).Elem().FieldByName("Category").SetString(heading)
}

// Names returns the names of the flags in All.
func Names() []string { return choice.Names(All(), firstName) }

func firstName(f cli.Flag) string { return f.Names()[0] }

// Apply sets the hyperparameters whose flags the user gave.
func Apply(c *cli.Context, config *learn.Config) {
	each(config, func(name, _ string, v reflect.Value) {
		if c.IsSet(name) {
			v.Set(reflect.ValueOf(c.Value(name)).Convert(v.Type()))
		}
	})
	if c.IsSet("gamma") {
		config.HalfLife = 0
	}
	if c.IsSet(useHeuristic) && !c.Bool(useHeuristic) {
		i := &config.Imitation
		i.Share, i.Coefficient = 0, 0
		i.MarginFloor = 0
	}
}

// defaults returns those of a variant that exists.
func defaults(variant string) learn.Config {
	c, err := learn.Defaults(variant)
	if err != nil {
		panic(err) // only names of learn.Variants come here
	}
	return c
}

// each calls f with every field that has a flag, those of structs inside included.
func each(c *learn.Config, f func(name, usage string, v reflect.Value)) {
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

// value returns the field of a flag.
func value(c *learn.Config, name string) (out reflect.Value) {
	each(c, func(n, _ string, v reflect.Value) {
		if n == name {
			out = v
		}
	})
	return out
}
