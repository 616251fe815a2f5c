package learn

import (
	"fmt"
	"reflect"

	"github.com/urfave/cli/v2"

	"gnnsched/internal/choice"
)

// useHeuristic is the flag that switches all imitation off.
const useHeuristic = "use-heuristic"

// Flags returns the flags of the hyperparameters that people change most; the file of --config has all. They have no
// default values: Apply sets what the user gives and leaves the rest.
func Flags() []cli.Flag {
	var out []cli.Flag
	first, other := flagDefaults("gnn"), flagDefaults("acgnn")
	eachField(&first, func(name, usage string, v reflect.Value) {
		text := fmt.Sprint(v.Interface())
		if v := fieldByFlag(&other, name); fmt.Sprint(v.Interface()) != text {
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
	if c.IsSet("gamma") {
		config.HalfLife = 0
	}
	if c.IsSet(useHeuristic) && !c.Bool(useHeuristic) {
		i := &config.Imitation
		i.Share, i.Coefficient = 0, 0
		i.MarginFloor = 0
	}
}

// flagDefaults returns those of a variant that exists.
func flagDefaults(variant string) Config {
	c, err := defaultConfig(variant)
	if err != nil {
		panic(err) // only names of variantNames come here
	}
	return c
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

// fieldByFlag returns the field of a flag.
func fieldByFlag(c *Config, name string) (out reflect.Value) {
	eachField(c, func(n, _ string, v reflect.Value) {
		if n == name {
			out = v
		}
	})
	return out
}
