package shadow

import (
	"github.com/rs/zerolog"
	ucli "github.com/urfave/cli/v2"
	"k8s.io/utils/clock"

	"gnnsched/internal/cli"
	"gnnsched/internal/runfolder"
	"gnnsched/scheduler/shadow"
)

// folder is the run folder of --out. nil stands for no folder.
type folder struct {
	*runfolder.Writer
	log    zerolog.Logger
	failed bool
}

// openFolder makes the folder of --out, if there is one.
func openFolder(c *ucli.Context, log zerolog.Logger, s Scheduler) (*folder, error) {
	dir := c.String(outFlag)
	if dir == "" {
		return nil, nil
	}
	m := cli.Manifest(c, "shadow")
	m.Title = s.Name + " in the shadow"
	w, err := runfolder.Create(dir, m, clock.RealClock{})
	if err != nil {
		return nil, err
	}
	return &folder{Writer: w, log: log}, nil
}

// tell adds the points of now.
func (f *folder) tell(r shadow.Report) {
	if f != nil {
		f.keep(r.Points()...)
	}
}

// keep adds rows. The first failure is logged; watching goes on.
func (f *folder) keep(rows ...runfolder.Row) {
	f.Add(rows...)
	if err := f.Failed(); err != nil && !f.failed {
		f.failed = true
		f.log.Error().Err(err).Msg("the run folder lacks what is found from now on")
	}
}

// end adds the results of the whole watch and closes the folder. failed is the error that ended the watch, or nil.
func (f *folder) end(r shadow.Report, failed error) error {
	if f == nil {
		return nil
	}
	if failed == nil {
		f.Add(append(r.Points(), r.Rows()...)...)
	}
	return f.Close(failed)
}
