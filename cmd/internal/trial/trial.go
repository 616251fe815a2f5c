// Package trial has the flags, progress, formats, figures and the folder of --out of the commands that compare policies.
package trial

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"

	ucli "github.com/urfave/cli/v2"

	"gnnsched/cmd/internal/progress"
	"gnnsched/internal/cli"
	"gnnsched/internal/exit"
	"gnnsched/internal/runfolder"
	"gnnsched/internal/seeds"
	"gnnsched/scheduler/eval"
)

// Seeds reads --seeds, which is least or more, and --seed.
func Seeds(c *ucli.Context, least int) ([]uint64, error) {
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
func Refuse(c *ucli.Context, format string, flags ...string) error {
	for _, name := range flags {
		if c.IsSet(name) {
			return exit.Usagef(format, name)
		}
	}
	return nil
}

// Default sets the flags that are not set.
func Default(c *ucli.Context, values map[string]string) error {
	for name, value := range values {
		if !c.IsSet(name) {
			if err := c.Set(name, value); err != nil {
				return err
			}
		}
	}
	return nil
}

// Run plays a comparison behind a progress bar, prints it, and leaves it in the folder of --out.
func Run[R interface{ Folder() []runfolder.Row }](
	c *ucli.Context, seeds []uint64, play func(eval.Progress) (R, error), print func(R) error,
) error {
	return cli.InFolder(c, cli.Computation[R]{
		Manifest: cli.RunManifest(c, "eval", seeds),
		Run: func(*runfolder.Writer) (R, error) {
			bar := progress.Stderr(c.App.ErrWriter)
			defer bar.Close()
			return play(bar.Episodes)
		},
		Print: print,
		Rows:  R.Folder,
	})
}

// Report is the result of a comparison. It encodes itself as JSON, too.
type Report interface {
	Write(w io.Writer, markdown bool) error
	WriteCSV(w io.Writer) error
}

// Write writes a report in the format of --output.
func Write(w io.Writer, r Report, format string) error {
	switch format {
	case "json":
		return JSON(w, r)
	case "csv":
		return r.WriteCSV(w)
	}
	return r.Write(w, format == "markdown")
}

// JSON writes a value with indents.
func JSON(w io.Writer, v any) error {
	out := json.NewEncoder(w)
	out.SetIndent("", "  ")
	return out.Encode(v)
}

// Plot draws figures, by the names of their files, into the directory of --plot, if there is one.
func Plot(c *ucli.Context, draw func() (map[string][]byte, error)) error {
	dir := c.String("plot")
	if dir == "" {
		return nil
	}
	if err := cli.MakeDir(c.App.ErrWriter, dir, "--plot", 0o755); err != nil {
		return err
	}
	figures, err := draw()
	if err != nil {
		return err
	}
	for name, svg := range figures {
		if err := os.WriteFile(filepath.Join(dir, name+".svg"), svg, 0o644); err != nil {
			return exit.New(exit.Usage, fmt.Errorf("--plot: %w", err), "choose a directory that you can write to")
		}
	}
	return nil
}
