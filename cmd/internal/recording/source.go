// Package recording reads the flags and arguments that the commands on records share: the record, the window of time, and the profiles.
package recording

import (
	"errors"
	"fmt"
	"os"
	"time"

	ucli "github.com/urfave/cli/v2"

	"gnnsched/internal/exit"
	"gnnsched/scheduler/replay"
	"gnnsched/workload/record"
)

// WindowFlags returns the flags that Window reads.
func WindowFlags() []ucli.Flag {
	return []ucli.Flag{
		&ucli.TimestampFlag{Name: "from", Layout: time.RFC3339,
			Usage: "replay from this `TIME` on, such as 2026-06-01T00:00:00Z; by default from the beginning"},
		&ucli.TimestampFlag{Name: "to", Layout: time.RFC3339, Usage: "replay until this `TIME`; by default to the end"},
	}
}

// Window returns the window of --from and --to.
func Window(c *ucli.Context) (w replay.Window) {
	if t := c.Timestamp("from"); t != nil {
		w.From = *t
	}
	if t := c.Timestamp("to"); t != nil {
		w.To = *t
	}
	return w
}

// Source reads a window of the record that the only argument names. Its errors have exit code exit.Usage.
func Source(c *ucli.Context, w replay.Window) (replay.Source, error) {
	if c.NArg() != 1 {
		return replay.Source{}, exit.New(exit.Usage, fmt.Errorf("there are %d arguments, want the folder of a record", c.NArg()),
			"gnnsched record --out prod.record writes one")
	}
	return Open(c.Args().First(), w)
}

// Open reads a window of the record in a folder. Its errors are usage errors.
func Open(dir string, w replay.Window) (replay.Source, error) {
	r, err := record.Open(dir)
	if err != nil {
		hint := "" // record.Open says which files the folder lacks
		if errors.Is(err, os.ErrNotExist) {
			hint = "gnnsched record --out prod.record writes a record"
		}
		return replay.Source{}, exit.New(exit.Usage, fmt.Errorf("read the record: %w", err), hint)
	}
	s, err := replay.Read(r, w)
	if err != nil {
		return s, exit.New(exit.Usage, fmt.Errorf("%s: %w", dir, err), "choose another time within the record, or a record of a longer time")
	}
	return s, nil
}
