package convert

import (
	"fmt"

	"github.com/rs/zerolog"
	ucli "github.com/urfave/cli/v2"

	"gnnsched/cmd/internal/recording"
	"gnnsched/internal/exit"
	"gnnsched/workload/record"
)

// measuredFlags are the flags that have no effect on a record.
var measuredFlags = []string{"format", "step", "days", "limit"}

// toRecord makes a record of Prometheus' history, or a new one of kubectl's output or of a trace.
func toRecord(c *ucli.Context, log zerolog.Logger) error {
	for _, f := range measuredFlags {
		if c.IsSet(f) {
			return exit.Usagef("--%s has no effect on a record; leave it out", f)
		}
	}
	dir := c.String("out")
	if c.IsSet("prometheus") {
		return historyToRecord(c, log)
	}
	if record.Is(dir) {
		return exit.New(exit.Usage, fmt.Errorf("%s is a record already", dir), "name another folder with --out")
	}
	if isTraces(c.Args().Slice()) {
		return traceToRecord(c, log)
	}
	return recording.FromKubectl(dir, c.App.Version, c.Args().Slice(), log)
}
