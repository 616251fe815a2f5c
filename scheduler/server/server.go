package server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"

	"github.com/spf13/pflag"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/component-base/configz"
	"k8s.io/kubernetes/cmd/kube-scheduler/app"
	"k8s.io/kubernetes/cmd/kube-scheduler/app/options"

	"gnnsched/internal/exit"
	"gnnsched/scheduler/plugin"
)

// Endpoint says where the process serves /metrics, /healthz and /readyz, over TLS with a
// self-signed certificate. The cluster decides who may read metrics: it is asked about the
// caller's token, and about callers without one. Health is for everybody.
type Endpoint struct {
	Address string // loopback unless asked otherwise
	Port    int    // 0 for none
}

// Run runs kube-scheduler with the configuration file until ctx ends. onReady, if not nil,
// is called once when the scheduler is made and about to run. The errors carry exit codes:
// 2 for a configuration that is refused and for a port in use.
func Run(ctx context.Context, configFile string, e Endpoint, onReady func()) error {
	if err := e.check(); err != nil {
		return err
	}
	o := options.NewOptions()
	flags := pflag.NewFlagSet("kube-scheduler", pflag.ContinueOnError)
	for _, f := range o.Flags.FlagSets {
		flags.AddFlagSet(f)
	}
	file, err := ReadFile(configFile)
	if err != nil {
		return err
	}
	kubeconfig := file.Kubeconfig() // empty for the one that a pod in a cluster has
	if err := flags.Parse([]string{
		"--config=" + configFile, "--bind-address=" + e.Address, "--secure-port=" + strconv.Itoa(e.Port),
		// Whom to ask about callers of the endpoint; without, no token is good for metrics.
		"--authentication-kubeconfig=" + kubeconfig, "--authorization-kubeconfig=" + kubeconfig,
		// Client certificates are the cluster's own matter; where it publishes no CA for them
		// (ours does not), looking for it fills the log.
		"--authentication-skip-lookup",
	}); err != nil {
		return fmt.Errorf("kube-scheduler options: %w", err)
	}
	if err := o.ComponentGlobalsRegistry.Set(); err != nil {
		return fmt.Errorf("kube-scheduler feature gates: %w", err)
	}
	o.Metrics = nil // we set none of these options, and they complain of it on every start
	cc, sched, err := app.Setup(ctx, o, plugins()...)
	if utilnet.IsConnectionRefused(err) || utilnet.IsTimeout(err) {
		return exit.New(exit.Unreachable, fmt.Errorf("set up kube-scheduler: %w", err), "is the cluster up?")
	}
	if err != nil {
		return exit.New(exit.Usage, fmt.Errorf("set up kube-scheduler: %w", err), "check the flags, or the file given by --config")
	}
	timeAttempts(sched)
	defer configz.Delete("componentconfig") // or a second scheduler in this process fails
	if onReady != nil {
		onReady()
	}
	err = app.Run(ctx, cc, sched) // ends with an error even after a clean stop
	if ctx.Err() != nil {
		return nil
	}
	return fmt.Errorf("kube-scheduler ended: %w", err)
}

// check finds a port in use before kube-scheduler does, for an error that helps.
func (e Endpoint) check() error {
	if e.Port == 0 {
		return nil
	}
	if e.Port < 0 || e.Port > 65535 {
		return exit.Usagef("port %d: choose 1 to 65535, or 0 for none", e.Port)
	}
	l, err := net.Listen("tcp", net.JoinHostPort(e.Address, strconv.Itoa(e.Port)))
	if err != nil {
		return exit.New(exit.Usage, fmt.Errorf("serve metrics: %w", err), "another scheduler may be running; choose a port with --port, or none with --port 0")
	}
	return errors.Join(l.Close())
}

// plugins are the options that add ours to upstream's.
func plugins() (out []app.Option) {
	for name, factory := range plugin.Registry() {
		out = append(out, app.WithPlugin(name, factory))
	}
	return out
}
