package cli

import (
	"errors"

	"github.com/urfave/cli/v2"
	"k8s.io/utils/clock"

	"gnnsched/internal/runfolder"
)

// InFolder calls run, and writes its report into the folder of --out, if there is one, as the run of a kind. The report of an
// interrupted run is written too.
func InFolder[R interface{ Folder() []runfolder.Row }](c *cli.Context, kind string, seeds []uint64, run func() (R, error)) (report R, err error) {
	dir := c.String("out")
	if dir == "" {
		return run()
	}
	m := Manifest(c, kind)
	m.Seeds = seeds
	w, err := runfolder.Create(dir, m, clock.RealClock{})
	if err != nil {
		return report, err
	}
	defer func() { err = errors.Join(err, w.Close(err)) }()
	report, err = run()
	return report, errors.Join(err, w.Add(report.Folder()...))
}
