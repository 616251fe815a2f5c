package flags

import (
	"fmt"
	"reflect"

	"github.com/urfave/cli/v2"

	"gnnsched/scheduler/learn"
)

// Heuristic is the flag that switches imitation off as a whole.
const Heuristic = "use-heuristic"

// All are the flags of all hyperparameters. They have no values of their own: Apply changes what
// is given and leaves the rest as it is.
func All() []cli.Flag {
	var out []cli.Flag
	q, p := defaults("gnn"), defaults("acgnn")
	each(&q, func(name, usage string, v reflect.Value) {
		text := fmt.Sprint(v.Interface())
		if other := value(&p, name); fmt.Sprint(other.Interface()) != text {
			text = fmt.Sprintf("%s; %v for acgnn and acdqn", text, other.Interface())
		}
		switch v.Kind() {
		case reflect.Float64:
			out = append(out, &cli.Float64Flag{Name: name, Usage: usage, DefaultText: text})
		case reflect.Int:
			out = append(out, &cli.IntFlag{Name: name, Usage: usage, DefaultText: text})
		case reflect.Uint64:
			out = append(out, &cli.Uint64Flag{Name: name, Usage: usage, DefaultText: text})
		case reflect.Bool:
			out = append(out, &cli.BoolFlag{Name: name, Usage: usage, DefaultText: text})
		case reflect.String:
			out = append(out, &cli.StringFlag{Name: name, Usage: usage, DefaultText: text})
		default:
			panic("flags: no kind of flag for " + v.Type().String())
		}
	})
	return append(out, &cli.BoolFlag{Name: Heuristic, Value: true, Usage: "imitate a heuristic at first; --" + Heuristic + "=false learns from nothing"})
}

// Group puts a flag under a heading of --help.
func Group(f cli.Flag, heading string) {
	reflect.ValueOf(f).Elem().FieldByName("Category").SetString(heading)
}

// Names are the names of All.
func Names() []string {
	var names []string
	for _, f := range All() {
		names = append(names, f.Names()[0])
	}
	return names
}

// Apply sets the hyperparameters whose flags are given.
func Apply(c *cli.Context, config *learn.Config) {
	each(config, func(name, _ string, v reflect.Value) {
		if c.IsSet(name) {
			v.Set(reflect.ValueOf(c.Value(name)).Convert(v.Type()))
		}
	})
	if c.IsSet(Heuristic) && !c.Bool(Heuristic) {
		config.Imitation.Share, config.Imitation.Coefficient, config.Imitation.MarginFloor = 0, 0, 0
	}
}

func defaults(variant string) learn.Config {
	c, err := learn.Defaults(variant)
	if err != nil {
		panic(err) // the names are constants
	}
	return c
}

// each calls f with every field that has a flag.
func each(c *learn.Config, f func(name, usage string, v reflect.Value)) {
	walk(reflect.ValueOf(c).Elem(), f)
}

func walk(s reflect.Value, f func(name, usage string, v reflect.Value)) {
	for i := range s.NumField() {
		tag := s.Type().Field(i).Tag
		if name := tag.Get("flag"); name != "" {
			f(name, tag.Get("usage"), s.Field(i))
		} else if s.Field(i).Kind() == reflect.Struct {
			walk(s.Field(i), f)
		}
	}
}

// value is the field of a flag.
func value(c *learn.Config, name string) (out reflect.Value) {
	each(c, func(n, _ string, v reflect.Value) {
		if n == name {
			out = v
		}
	})
	return out
}
