package explain

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	ucli "github.com/urfave/cli/v2"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"gnnsched/gnn/checkpoint"
	"gnnsched/gnn/infer"
	"gnnsched/internal/cli"
	"gnnsched/internal/exit"
	"gnnsched/scheduler/decision"
	"gnnsched/scheduler/explain"
)

// Command returns the command.
func Command() *ucli.Command {
	return &ucli.Command{
		Name:      "explain",
		Usage:     "say why a pod got its node, from the running scheduler, a file of decisions or a recorded cluster",
		ArgsUsage: "pod/NAME",
		Description: "It asks the scheduler on this machine, with the token of the kubeconfig, or reads a file that a scheduler wrote\n" +
			"with --decision-log. It explains the pod's newest decision.\n\n" +
			"With --record it says where a profile would have sent a pod of a recorded cluster, whichever scheduler placed it.\n\n" +
			"Examples:\n" +
			"   gnnsched explain pod/web-0                              # of a scheduler on this machine\n" +
			"   gnnsched explain -o json pod web-0 | jq .best           # the decision itself\n" +
			"   gnnsched explain -n shop --trace decisions.jsonl pod/web-0\n" +
			"   gnnsched explain -n shop --record prod.record --profile linear pod/web-0\n" +
			"   gnnsched explain --server https://10.0.0.7:10259 --ca-file ca.crt --token-file token pod/web-0",
		Flags: slices.Concat(cli.ClusterFlags(), []ucli.Flag{
			&ucli.StringFlag{Name: "namespace", Aliases: []string{"n"}, Value: "default", Usage: "`NAMESPACE` of the pod"},
			&ucli.StringFlag{Name: "trace", Usage: "read decisions from `FILE` instead of asking a scheduler"},
			&ucli.StringFlag{Name: "record", Usage: "ask what --profile would have done with the pod in the recorded cluster of a folder `DIR`"},
			&ucli.StringFlag{Name: "profile", Aliases: []string{"p"}, Value: "gnn",
				Usage: "`NAME` of the profile that decides with --record: a network or a policy, as in rungnn"},
			&ucli.StringFlag{Name: "output", Aliases: []string{"o"}, Value: "text",
				Usage: "`FORMAT`: text, or json for the decision as --decision-log writes it"},
			&ucli.StringFlag{Name: "checkpoint", Usage: "`FILE` with the weights of the network that decided, if they are not built in; " +
				"with --record, what decides in place of --profile"},
		}, serverFlags()),
		Action: run,
	}
}

func run(c *ucli.Context) error {
	name, is := strings.CutPrefix(strings.Join(c.Args().Slice(), "/"), "pod/")
	if !is || name == "" || strings.Contains(name, "/") {
		return exit.New(exit.Usage, errors.New("say which pod, as pod/NAME or pod NAME"), "for example gnnsched explain -n default pod/web-0")
	}
	format, err := cli.Format(c, []string{"text", "json"})
	if err != nil {
		return err
	}
	q := decision.Query{Namespace: c.String("namespace"), Pod: name, Limit: 1}
	var r *decision.Record
	moved := ""
	switch dir, path := c.String("record"), c.String("trace"); {
	case dir != "":
		r, err = fromRecord(c, dir, q)
	case c.IsSet("profile"):
		err = exit.Usagef("--profile has no effect without --record")
	case path != "":
		r, err = fromTrace(path, q)
	default:
		r, err = fromServer(c, q)
		if !c.IsSet("token-file") { // else there may be no kubeconfig
			if client, _, err := cli.Target(c).Connect(c.Context); err == nil {
				moved = whyMoved(c.Context, client, q)
			}
		}
	}
	if err != nil {
		return err
	}
	if format == "json" && r != nil {
		return cli.JSON(c.App.Writer, r)
	}
	if _, err := fmt.Fprint(c.App.Writer, moved); err != nil || r == nil && moved != "" {
		return err
	}
	if r == nil {
		return exit.New(exit.Usage, fmt.Errorf("there is no decision about pod %s/%s", exit.Clean(q.Namespace, 253),
			exit.Clean(q.Pod, 253)),
			"the scheduler keeps the last ones only, see its flag --decisions; --decision-log keeps more for --trace. "+
				"Profiles without a network or policy, such as default-scheduler, record only pods that find no node")
	}
	return Write(c.App.Writer, *r, c.String("checkpoint"))
}

// whyMoved returns what gnnsched defrag tells of a pod that it moved, as a line; "" if it tells nothing.
func whyMoved(ctx context.Context, c kubernetes.Interface, q decision.Query) string {
	list, err := c.CoreV1().Events(q.Namespace).List(ctx, metav1.ListOptions{FieldSelector: "involvedObject.name=" + q.Pod})
	if err != nil {
		return "" // a user may not read events
	}
	var last v1.Event
	for _, e := range list.Items {
		if e.Reason == "Moved" && e.InvolvedObject.Name == q.Pod && !e.LastTimestamp.Before(&last.LastTimestamp) {
			last = e
		}
	}
	if last.Message == "" {
		return ""
	}
	return exit.Clean(last.Message, 400) + "\n"
}

// Write explains why a record's pod got its node, or none. It looks for the deciding weights in the file, or among the shipped ones if file
// is empty. It returns an error if the file has other weights.
func Write(w io.Writer, r decision.Record, file string) error {
	var net *infer.Network
	if r.Fingerprint != "" { // else upstream's scoring decided, or a policy without weights
		var err error
		if net, err = networkOf(file, r.Fingerprint); err != nil {
			return err
		}
	}
	return explain.Write(w, r, net)
}

// fromTrace returns the newest record of a file that the query matches; nil if none does.
func fromTrace(path string, q decision.Query) (newest *decision.Record, err error) {
	err = decision.ReadRecords(path, func(r decision.Record) {
		if r.Namespace == q.Namespace && r.Pod == q.Pod && (newest == nil || !r.Time.Before(newest.Time)) {
			newest = &r
		}
	})
	if err != nil {
		return nil, exit.New(exit.Usage, fmt.Errorf("--trace: %w", err), "name a file that a scheduler wrote with --decision-log")
	}
	return newest, nil
}

// fromServer asks the running scheduler.
func fromServer(c *ucli.Context, q decision.Query) (*decision.Record, error) {
	client, err := newClient(c)
	if err != nil {
		return nil, err
	}
	records, err := client.Last(c.Context, q)
	if err != nil || len(records) == 0 {
		return nil, err
	}
	return &records[0], nil
}

// networkOf returns the network with the fingerprint, from a file or from the shipped ones; nil if there is none.
func networkOf(path, fingerprint string) (*infer.Network, error) {
	if path != "" {
		c, err := checkpoint.Load(path)
		if err != nil {
			return nil, exit.New(exit.Checkpoint, fmt.Errorf("--checkpoint: %w", err), "")
		}
		if got := fmt.Sprintf("%016x", c.Fingerprint()); got != fingerprint {
			return nil, exit.New(exit.Checkpoint, fmt.Errorf("--checkpoint %s has the fingerprint %s, but %s decided",
				path, got, exit.Clean(fingerprint, 40)), "name the file with the weights that decided")
		}
		return infer.New(c)
	}
	for _, name := range checkpoint.ShippedNames() {
		if c, err := checkpoint.Shipped(name); err == nil && fmt.Sprintf("%016x", c.Fingerprint()) == fingerprint {
			return infer.New(c)
		}
	}
	return nil, nil
}
