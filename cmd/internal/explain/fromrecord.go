// Package explain is the command `gnnsched explain`, with the client that asks running schedulers for their decisions and learning curves,
// and the flags of schedulers that record decisions. It compares the chosen node of a decision with another one, feature by feature, and
// looks for the smallest change that would have turned the choice.
package explain

import (
	"errors"
	"fmt"

	"github.com/rs/zerolog"
	ucli "github.com/urfave/cli/v2"

	"gnnsched/cmd/internal/recording"
	"gnnsched/internal/exit"
	"gnnsched/scheduler/decision"
	"gnnsched/scheduler/plugin"
	"gnnsched/scheduler/replay"
	"gnnsched/scheduler/server"
)

// fromRecord returns the decision that the profile of the flags would have made about a pod of a recorded cluster.
func fromRecord(c *ucli.Context, dir string, q decision.Query) (*decision.Record, error) {
	for _, flag := range []string{"trace", "server", "ca-file", "token-file", "kubeconfig", "context"} {
		if c.IsSet(flag) {
			return nil, exit.Usagef("--%s has no effect with --record", flag)
		}
	}
	chosen, err := recording.Profile(c.String("profile"), c.String("checkpoint"))
	if err != nil {
		return nil, err
	}
	config, err := server.Config{Profiles: []server.Profile{chosen}, QPS: 1}.Decode()
	if err != nil {
		return nil, err
	}
	source, err := recording.Open(dir, replay.Window{Instant: true}, c.App.ErrWriter)
	if err != nil {
		return nil, err
	}
	row := source.Newest(q.Namespace, q.Pod)
	if row < 0 {
		return nil, exit.New(exit.Usage, fmt.Errorf("%s has no pod %s/%s", dir, exit.Clean(q.Namespace, 253), exit.Clean(q.Pod, 253)),
			"-n NAMESPACE names its namespace")
	}
	d, notes, err := replay.Decide(c.Context, source, row, config.Profiles[0])
	if err != nil {
		return nil, exit.New(exit.Usage, fmt.Errorf("pod %s/%s: %w", exit.Clean(q.Namespace, 253), exit.Clean(q.Pod, 253), err), "")
	}
	if d == nil {
		return nil, exit.New(exit.Usage, errors.New("the profile has no network or policy whose scores could be explained"),
			"--profile kube-scheduler has the default profile's scores")
	}
	d.Profile = chosen.SchedulerName
	if d.Fingerprint != 0 {
		d.Policy = chosen.SchedulerName
	}
	if source.Pods[row].Claims != "" {
		notes = append(notes, "the record does not say where the pod's volumes are; it is placed as if it had none")
	}
	for _, n := range notes {
		fmt.Fprintf(c.App.ErrWriter, "note: %s\n", n)
	}
	r := decision.RecordOf(d)
	r.Outcome = decision.Shadow // also for a pod without a node
	return &r, nil
}

// RecordingFlags returns the flags that configure a scheduler's records of decisions.
func RecordingFlags() []ucli.Flag {
	return []ucli.Flag{
		&ucli.IntFlag{Name: "decisions", Value: decision.DefaultBookSize,
			Usage: "keep the last `NUMBER` of placements in memory, and as many attempts without a node, for gnnsched explain; 0 for none"},
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
