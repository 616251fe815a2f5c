// Package trial has the commands that play policies in the simulator: gnnsched eval, bench, and tune.
// This file has what they share: flags.
package trial

import (
	ucli "github.com/urfave/cli/v2"

	"gnnsched/internal/exit"
	"gnnsched/scheduler/eval"
	"gnnsched/scheduler/sim"
)

// seedsOf reads --seeds, which is least or more, and --seed.
func seedsOf(c *ucli.Context, least int) ([]uint64, error) {
	first, n := c.Uint64("seed"), c.Int("seeds")
	if n < least || n > 100_000 {
		return nil, exit.Usagef("--seeds %d is outside %d to 100000", n, least)
	}
	if err := sim.CheckEvaluationSeeds(first, n); err != nil {
		return nil, exit.New(exit.Usage, err, "")
	}
	return eval.Seeds(first, n), nil
}

// Refuse returns a usage error for the first of some flags that is set; format has a place for its name.
func refuse(c *ucli.Context, format string, flags ...string) error {
	for _, name := range flags {
		if c.IsSet(name) {
			return exit.Usagef(format, name)
		}
	}
	return nil
}

// Default sets the flags that are not set.
func setDefaults(c *ucli.Context, values map[string]string) error {
	for name, value := range values {
		if !c.IsSet(name) {
			if err := c.Set(name, value); err != nil {
				return err
			}
		}
	}
	return nil
}
