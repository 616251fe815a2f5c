package cli

import (
	"errors"
	"reflect"

	"github.com/urfave/cli/v2"
	"k8s.io/utils/clock"

	"gnnsched/internal/runfolder"
)

// Computation is a command's computation: its result is printed and kept in a run folder.
type Computation[R any] struct {
	Manifest runfolder.Manifest
	// Run computes the result. w, which is nil without a folder, takes rows during the computation. With an error, a non-zero result covers a
	// part, and is printed and kept, too.
	Run func(w *runfolder.Writer) (R, error)
	// Print prints a result. Its error, such as of a missed threshold, does not end the run before its time.
	Print func(R) error
	Rows  func(R) []runfolder.Row // of the folder; nil if Run writes all of them
}

// InFolder runs a computation, in the folder of --out if there is one. The result is printed before its rows are written, so that a folder
// that cannot be written costs no result. Errors are joined.
func InFolder[R any](c *cli.Context, do Computation[R]) error {
	var w *runfolder.Writer
	if dir := c.String("out"); dir != "" {
		var err error
		if w, err = runfolder.Create(dir, do.Manifest, clock.RealClock{}); err != nil {
			return err
		}
	}
	result, err := do.Run(w)
	var printed error
	some := err == nil || !reflect.ValueOf(&result).Elem().IsZero()
	if some {
		printed = do.Print(result)
	}
	if w == nil {
		return errors.Join(err, printed)
	}
	if some && do.Rows != nil {
		w.Add(do.Rows(result)...)
	}
	return errors.Join(err, printed, w.Close(err))
}

// RunManifest is Manifest with the seeds of a run.
func RunManifest(c *cli.Context, kind string, seeds []uint64) runfolder.Manifest {
	m := Manifest(c, kind)
	m.Seeds = seeds
	return m
}

// PrintResult prints what a computation found. With an error, a result that is not zero covers a part, and is printed, too. Errors are
// joined.
func PrintResult[R any](compute func() (R, error), print func(R) error) error {
	result, err := compute()
	if err != nil && reflect.ValueOf(&result).Elem().IsZero() {
		return err
	}
	return errors.Join(err, print(result))
}
