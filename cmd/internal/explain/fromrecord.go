package explain

import (
	"errors"
	"fmt"

	ucli "github.com/urfave/cli/v2"

	"gnnsched/cmd/internal/recording"
	"gnnsched/internal/exit"
	"gnnsched/scheduler/decision"
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
	source, err := recording.Open(dir, replay.Window{Instant: true})
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
