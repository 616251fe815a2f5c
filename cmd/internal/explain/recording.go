// Package explain is the command `gnnsched explain`, with the client that asks running schedulers for their decisions and learning curves,
// and the flags of schedulers that record decisions.
package explain

import (
	"fmt"

	"github.com/rs/zerolog"
	ucli "github.com/urfave/cli/v2"

	"gnnsched/internal/exit"
	"gnnsched/scheduler/decision"
	"gnnsched/scheduler/plugin"
)

// RecordingFlags returns the flags that configure a scheduler's records of decisions.
func RecordingFlags() []ucli.Flag {
	return []ucli.Flag{
		&ucli.IntFlag{Name: "decisions", Value: decision.DefaultBookSize,
			Usage: "keep the last `NUMBER` of decisions in memory, for gnnsched explain; 0 for none"},
		&ucli.StringFlag{Name: "decision-log", Usage: "write every decision to `FILE` as JSON lines; " +
			"renamed at 100 MB, the last four are kept"},
		&ucli.BoolFlag{Name: "decision-events", Usage: "each pod that gets a node gets an event that says why"},
	}
}

// defaultShare is the share of the time that may go into asking what the default profile would choose.
const defaultShare = 0.01

// maxDecisions bounds the memory to about 4 GB.
const maxDecisions = 1_000_000

// Recording reads the flags. The caller must call done when the scheduler has ended. Errors have the exit code exit.Usage.
func Recording(c *ucli.Context, log zerolog.Logger) (r plugin.Recording, done func(), err error) {
	size := c.Int("decisions")
	if size < 0 || size > maxDecisions {
		return r, nil, exit.Usagef("--decisions %d: choose 0 to %d", size, maxDecisions)
	}
	if size == 0 {
		for _, name := range []string{"decision-log", "decision-events"} {
			if c.IsSet(name) {
				return r, nil, exit.New(exit.Usage, fmt.Errorf("--%s and --decisions 0 exclude each other", name), "leave --decisions out")
			}
		}
		return r, func() {}, nil
	}
	var journal *decision.Journal
	done = func() {}
	if path := c.String("decision-log"); path != "" {
		journal, err = decision.OpenJournal(path, func(err error, lost uint64) {
			if err == nil {
				log.Warn().Uint64("lost", lost).Str("file", path).Msg("decisions are written again; the lost ones were in memory only")
				return
			}
			log.Error().Err(err).Str("file", path).Msg("decisions are kept in memory only until the file can be written")
		})
		if err != nil {
			return r, nil, exit.New(exit.Usage, fmt.Errorf("--decision-log: %w", err), "name a file in a folder that you can write to")
		}
		done = func() {
			if err := journal.Close(); err != nil {
				log.Error().Err(err).Str("file", path).Msg("the file with decisions cannot be closed")
			}
		}
	}
	return plugin.Recording{Book: decision.NewBook(size, journal), DefaultShare: defaultShare, Events: c.Bool("decision-events")}, done, nil
}
