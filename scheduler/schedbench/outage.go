package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	ucli "github.com/urfave/cli/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"gnnsched/internal/cli"
	"gnnsched/internal/exit"
	"gnnsched/internal/logging"
	"gnnsched/internal/tcpproxy"
	"gnnsched/scheduler/eval/testbed"
	"gnnsched/scheduler/eval/testbed/inprocess"
)

func outageCommand() *ucli.Command {
	return &ucli.Command{
		Name:  "outage",
		Usage: "compare the time to a new pod's node after the API server was away, with upstream's kube-scheduler",
		Description: "Our scheduler and upstream's, without any of our code and with its default options, run in processes\n" +
			"of their own on one cluster. Both reach it through one proxy, which cuts both off at the same time. When\n" +
			"the server is back, each gets a new pod.\n" +
			"Examples:\n" +
			"   go run ./scheduler/schedbench outage                             # about five minutes\n" +
			"   go run ./scheduler/schedbench outage --kind hang --length 90s    # the server answers nothing",
		Flags: []ucli.Flag{
			&ucli.DurationFlag{Name: "length", Value: time.Minute, Usage: "`TIME` for which the server is away"},
			&ucli.StringFlag{Name: "kind", Value: kindRefuse, Usage: "`KIND` of outage: refuse (connections break and are refused) or hang (they stay, and nothing is answered)"},
			&ucli.IntFlag{Name: "pairs", Value: 3, Usage: "number of outages, each with new processes; there are `PAIRS` of times"},
			&ucli.DurationFlag{Name: "within", Usage: "end with exit code 99 if our scheduler ever needs more than `TIME`; 0 for no limit"},
		},
		Action: cli.FlagsOnly(func(c *ucli.Context) error {
			o := &outage{
				length: c.Duration("length"), kind: c.String("kind"), pairs: c.Int("pairs"), within: c.Duration("within"), out: c.App.Writer,
				log: c.App.ErrWriter,
			}
			switch {
			case o.kind != kindRefuse && o.kind != kindHang:
				return exit.Usagef("--kind %q: want %s or %s", o.kind, kindRefuse, kindHang)
			case o.pairs < 1 || o.length <= 0:
				return exit.Usagef("--pairs and --length must be more than 0")
			}
			return o.run(c.Context)
		}),
	}
}

// Kinds of outages.
const (
	kindRefuse = "refuse"
	kindHang   = "hang"
)

// outage compares schedulers after outages of the API server.
type outage struct {
	length time.Duration
	kind   string
	pairs  int
	within time.Duration

	out, log io.Writer
	bed      *testbed.Bed
	proxy    *tcpproxy.Proxy
	dir      string // of the schedulers' files
	pods     int    // created so far
}

// ourProfile is the profile of our scheduler. The default profile is upstream's.
const ourProfile = "gnn"

// run makes the outages and prints the results.
func (o *outage) run(ctx context.Context) (err error) {
	logging.DropKlog() // a cluster in this process logs a lot
	if o.dir, err = os.MkdirTemp("", "gnnsched-outage-"); err != nil {
		return err
	}
	defer os.RemoveAll(o.dir)
	c := testbed.Config{Name: "outage", Launcher: inprocess.Launcher{}, Nodes: testbed.Nodes{Pools: pools(10)}}
	return testbed.Run(ctx, c, func(ctx context.Context, b *testbed.Bed) (err error) {
		u, err := url.Parse(b.REST.Host)
		if err != nil {
			return err
		}
		o.bed = b
		if o.proxy, err = tcpproxy.Start(u.Host); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, o.proxy.Close()) }()
		if err := writeKubeconfig(b.REST, o.proxy.Address(), o.kubeconfig()); err != nil {
			return err
		}
		return o.measure(ctx)
	})
}

func (o *outage) kubeconfig() string { return filepath.Join(o.dir, "kubeconfig") }

// writeKubeconfig writes a kubeconfig for a cluster that is reached at another address.
func writeKubeconfig(c *rest.Config, address, path string) error {
	const name = "outage"
	k := clientcmdapi.NewConfig()
	k.Clusters[name] = &clientcmdapi.Cluster{Server: "https://" + address, CertificateAuthority: c.CAFile, CertificateAuthorityData: c.CAData}
	k.AuthInfos[name] = &clientcmdapi.AuthInfo{Token: c.BearerToken}
	k.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name}
	k.CurrentContext = name
	return clientcmd.WriteToFile(*k, path)
}

// measure makes all outages.
func (o *outage) measure(ctx context.Context) error {
	var ours, theirs []float64
	for i := range o.pairs {
		fmt.Fprintf(o.log, "%s  outage %d of %d\n", time.Now().Format(time.TimeOnly), i+1, o.pairs)
		a, b, err := o.pair(ctx)
		if err != nil {
			return err
		}
		ours, theirs = append(ours, a.Seconds()), append(theirs, b.Seconds())
		fmt.Fprintf(o.out, "  pair %d   %s %.2f s   %s %.2f s\n", i+1, ourProfile, a.Seconds(), upstreamCommandName, b.Seconds())
		if o.within > 0 && a > o.within {
			return exit.New(exit.Gate, fmt.Errorf("a new pod got its node %v after the outage, over %v", a, o.within), "")
		}
	}
	fmt.Fprintf(o.out, "outage of %v (%s), new pod placed after: %s %.2f s, %s %.2f s (medians of %d), ratio %.2f\n",
		o.length, o.kind, ourProfile, median(ours), upstreamCommandName, median(theirs), o.pairs, median(ours)/median(theirs))
	return nil
}

// pair starts both schedulers, cuts them off, and returns the time that each needed after that for a new pod.
func (o *outage) pair(ctx context.Context) (ours, theirs time.Duration, err error) {
	ctx, cancel := context.WithCancel(ctx)
	var started []*exec.Cmd
	defer func() {
		cancel()
		for _, c := range started {
			_ = c.Wait() // it was killed
		}
	}()
	for _, args := range [][]string{
		{ourCommandName, o.kubeconfig()}, {upstreamCommandName, "--kubeconfig=" + o.kubeconfig(), "--leader-elect=false", "--secure-port=0"},
	} {
		c, err := o.start(ctx, args)
		if err != nil {
			return 0, 0, err
		}
		started = append(started, c)
	}
	if _, _, err := o.place(ctx); err != nil { // both work
		return 0, 0, err
	}
	if err := o.away(ctx); err != nil {
		return 0, 0, err
	}
	return o.place(ctx)
}

// start starts this program as a scheduler.
func (o *outage) start(ctx context.Context, args []string) (*exec.Cmd, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	log, err := os.Create(filepath.Join(o.dir, args[0]+".log"))
	if err != nil {
		return nil, err
	}
	defer log.Close() // the process has its own handle
	c := exec.CommandContext(ctx, self, args...)
	c.Stdout, c.Stderr = log, log
	return c, c.Start()
}

// away makes the outage.
func (o *outage) away(ctx context.Context) error {
	if o.kind == kindHang {
		o.proxy.Hang()
	} else if err := o.proxy.Refuse(); err != nil {
		return err
	}
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(o.length):
	}
	return o.proxy.Restore()
}

// placeLimit limits a scheduler's time for a pod.
const placeLimit = 5 * time.Minute

// place creates a pod for each scheduler, and returns the time that each needed.
func (o *outage) place(ctx context.Context) (ours, theirs time.Duration, err error) {
	ctx, cancel := context.WithTimeout(ctx, placeLimit)
	defer cancel()
	began := time.Now()
	o.pods++
	pods := o.bed.Client.CoreV1().Pods(metav1.NamespaceDefault)
	took := map[string]time.Duration{}
	for _, s := range []string{ourProfile, defaultProfile} {
		if _, err := pods.Create(ctx, pod(s, o.pods), metav1.CreateOptions{}); err != nil {
			return 0, 0, err
		}
	}
	for len(took) < 2 {
		for _, s := range []string{ourProfile, defaultProfile} {
			list, err := pods.List(ctx,
				metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector("metadata.name", pod(s, o.pods).Name).String()})
			if err != nil {
				return 0, 0, fmt.Errorf("wait for the pods, of which %d got a node: %w", len(took), err)
			}
			if took[s] == 0 && len(list.Items) == 1 && list.Items[0].Spec.NodeName != "" {
				took[s] = time.Since(began)
			}
		}
		time.Sleep(20 * time.Millisecond)
	}
	return took[ourProfile], took[defaultProfile], nil
}
