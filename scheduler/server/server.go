package server

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"
	_ "k8s.io/component-base/metrics/prometheus/clientgo" // as kube-scheduler: requests, work queues, the lease
	_ "k8s.io/component-base/metrics/prometheus/version"  // as kube-scheduler
	"k8s.io/kubernetes/cmd/kube-scheduler/app/options"

	"gnnsched/internal/exit"
	"gnnsched/scheduler/plugin"
	"gnnsched/scheduler/plugin/userconfig"
)

// Endpoint is the address at which the process serves its health and metrics, over TLS with a
// self-signed certificate. Everybody may read /healthz, /livez and /readyz. Every other path needs a
// token that the API server knows, of a user whom it authorizes for the path.
//
// The decisions that Recording.Book keeps are served at decision.DebugPath, the samples of Recording.Curves at learningcurve.Path,
// and the state of measured usage at usage.Path.
type Endpoint struct {
	Address   string
	Port      int // 0 for no endpoint
	Recording plugin.Recording
	// FeatureGates are feature gates of Kubernetes to set, each as NAME=BOOL, as kube-scheduler's flag does. They hold for the process.
	FeatureGates []string
}

// Run runs kube-scheduler with the configuration file until ctx ends; then it returns nil. It calls
// onReady, unless that is nil, once right before the scheduler runs. Errors have exit codes:
// exit.Usage for an invalid configuration and for a port in use, exit.Unreachable for a cluster that does not answer.
func Run(ctx context.Context, configFile string, e Endpoint, onReady func()) error {
	if err := e.check(); err != nil {
		return err
	}
	o, err := e.options(configFile)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx) // ends what an error leaves behind
	defer cancel()
	p, err := newProcess(ctx, o, e.Recording)
	if err != nil {
		return exit.New(exit.Usage, fmt.Errorf("set up kube-scheduler: %w", err), "check the flags, or the file given by --config")
	}
	defer p.close()
	if ctx.Err() != nil {
		return nil
	}
	if onReady != nil {
		onReady()
	}
	if err := p.run(ctx); err != nil && ctx.Err() == nil {
		return fmt.Errorf("kube-scheduler ended: %w", err)
	}
	return nil
}

// options returns upstream's options with the configuration file and the endpoint.
func (e Endpoint) options(configFile string) (*options.Options, error) {
	o := options.NewOptions()
	flags := pflag.NewFlagSet("kube-scheduler", pflag.ContinueOnError)
	for _, f := range o.Flags.FlagSets {
		flags.AddFlagSet(f)
	}
	file, err := userconfig.Read(configFile)
	if err != nil {
		return nil, err
	}
	kubeconfig := file.Kubeconfig() // empty: use the service account of the pod that this process runs in
	if err := flags.Parse([]string{
		"--config=" + configFile, "--bind-address=" + e.Address, "--secure-port=" + strconv.Itoa(e.Port),
		// The API server that authorizes callers of the endpoint. Without it no token gives metrics.
		"--authentication-kubeconfig=" + kubeconfig, "--authorization-kubeconfig=" + kubeconfig,
		// Do not look up the cluster's CA for client certificates: clusters without one, such as
		// ours, would fill the log with errors.
		"--authentication-skip-lookup",
		"--feature-gates=" + strings.Join(e.FeatureGates, ","),
	}); err != nil {
		return nil, exit.New(exit.Usage, fmt.Errorf("kube-scheduler's options: %w", err), gateHint)
	}
	if err := o.ComponentGlobalsRegistry.Set(); err != nil {
		return nil, exit.New(exit.Usage, fmt.Errorf("kube-scheduler's feature gates: %w", err), gateHint)
	}
	o.Metrics = nil // we set none of these options, which logs a warning at each start
	return o, nil
}

const gateHint = "check --feature-gates; each is NAME=true or NAME=false, and kube-scheduler --help lists the names"

// check validates the port and returns a helpful error if it is in use.
func (e Endpoint) check() error {
	if e.Port == 0 {
		return nil
	}
	if e.Port < 0 || e.Port > 65535 {
		return exit.Usagef("port %d: choose 1 to 65535, or 0 for none", e.Port)
	}
	l, err := net.Listen("tcp", net.JoinHostPort(e.Address, strconv.Itoa(e.Port)))
	if err != nil {
		return exit.New(exit.Usage, fmt.Errorf("serve metrics: %w", err),
			"another scheduler may be running; choose another port with --port, or none with --port 0")
	}
	return errors.Join(l.Close())
}

// CheckHealth asks a running scheduler at u, such as https://127.0.0.1:10259/readyz, and writes its
// answer to out. It returns an error with exit code 3 unless the status is 200. It does not verify
// the scheduler's certificate, which is self-signed.
func CheckHealth(ctx context.Context, u *url.URL, timeout time.Duration, out io.Writer) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return exit.New(exit.Usage, err, "")
	}
	client := http.Client{Transport: &http.Transport{
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true,
	}}
	response, err := client.Do(request)
	if err != nil {
		return exit.New(exit.Unreachable, fmt.Errorf("no scheduler answers: %w", err), "is it running, with this port? see rungnn --port")
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, 64<<10))
	if err != nil {
		return exit.New(exit.Unreachable, fmt.Errorf("read the scheduler's answer: %w", err), "")
	}
	if response.StatusCode != http.StatusOK {
		return exit.New(exit.Unreachable, fmt.Errorf("the scheduler says %s: %s", response.Status, strings.TrimSpace(string(body))),
			"its log says why")
	}
	fmt.Fprintln(out, strings.TrimSpace(string(body)))
	return nil
}
