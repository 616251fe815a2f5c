// Package trial has the commands that play policies in the simulator: gnnsched eval with eval openb, bench, and tune.
// This file has what they share: flags, progress and formats.
package trial

import (
	"io"

	ucli "github.com/urfave/cli/v2"

	"gnnsched/cmd/internal/progress"
	"gnnsched/cmd/internal/work"
	"gnnsched/internal/cli"
	"gnnsched/internal/exit"
	"gnnsched/internal/seeds"
	"gnnsched/scheduler/eval"
)

// seedsOf reads --seeds, which is least or more, and --seed.
func seedsOf(c *ucli.Context, least int) ([]uint64, error) {
	first, n := c.Uint64("seed"), c.Int("seeds")
	if n < least || n > 100_000 {
		return nil, exit.Usagef("--seeds %d is outside %d to 100000", n, least)
	}
	if err := seeds.CheckEvaluation(first, n); err != nil {
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

// play plays a comparison behind a progress bar, and prints it.
func play[R any](c *ucli.Context, compare func(eval.Progress) (R, error), print func(R) error) error {
	return cli.PrintResult(func() (result R, err error) {
		bar := progress.Stderr(c.App.ErrWriter)
		defer bar.Close()
		crew, err := work.Begin(c, bar)
		if err != nil {
			return result, err
		}
		defer crew.Close()
		return compare(bar.Episodes)
	}, print)
}

// report is the result of a comparison. It encodes itself as JSON, too.
type report interface {
	Write(w io.Writer, markdown bool) error
	WriteCSV(w io.Writer) error
}

// writeReport writes a report in the format of --output.
func writeReport(w io.Writer, r report, format string) error {
	switch format {
	case "json":
		return cli.JSON(w, r)
	case "csv":
		return r.WriteCSV(w)
	}
	return r.Write(w, format == "markdown")
}
