package kwok

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/pflag"
	"k8s.io/component-base/configz"
	kcmapp "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	kcmoptions "k8s.io/kubernetes/cmd/kube-controller-manager/app/options"
)

// managedControllers are those of kube-controller-manager that make sense without real machines.
// The node lifecycle controller is needed even so: admission taints a new node as not ready,
// and it lifts the taint. The protection controllers are needed because admission adds their
// finalizers, which nobody else removes.
var managedControllers = []string{
	"deployment-controller", "replicaset-controller", "replicationcontroller-controller",
	"statefulset-controller", "daemonset-controller", "job-controller", "cronjob-controller",
	"namespace-controller", "serviceaccount-controller", "garbage-collector-controller",
	"pod-garbage-collector-controller", "node-lifecycle-controller", "taint-eviction-controller",
	"disruption-controller", "resourcequota-controller", "ttl-after-finished-controller",
	"persistentvolume-binder-controller", "persistentvolumeclaim-protection-controller",
	"persistentvolume-protection-controller",
}

// controllerManagerArgs are the flags of kube-controller-manager.
func (cl *Cluster) controllerManagerArgs() []string {
	return []string{
		"--kubeconfig=" + cl.dir.localKubeconfig(),
		"--controllers=" + strings.Join(managedControllers, ","),
		"--leader-elect=false",
		"--use-service-account-credentials=false",
		"--secure-port=0",
		"--kube-api-qps=5000", "--kube-api-burst=10000",
		"--concurrent-deployment-syncs=20", "--concurrent-replicaset-syncs=20", "--concurrent-job-syncs=20",
		"--node-monitor-grace-period=" + nodeGrace.String(),
		featureGates,
	}
}

// runControllerManager runs kube-controller-manager until ctx is cancelled.
func runControllerManager(ctx context.Context, args []string) error {
	s, err := kcmoptions.NewKubeControllerManagerOptions()
	if err != nil {
		return err
	}
	known, disabled, aliases := kcmapp.KnownControllers(), kcmapp.ControllersDisabledByDefault(), kcmapp.ControllerAliases()
	named := s.Flags(known, disabled, aliases)
	flags := pflag.NewFlagSet("kube-controller-manager", pflag.ContinueOnError)
	for _, f := range named.FlagSets {
		flags.AddFlagSet(f)
	}
	if err := flags.Parse(args); err != nil {
		return fmt.Errorf("flags: %w", err)
	}
	s.ParsedFlags = &named
	if err := s.ComponentGlobalsRegistry.Set(); err != nil {
		return fmt.Errorf("feature gates: %w", err)
	}
	c, err := s.Config(ctx, known, disabled, aliases)
	if err != nil {
		return err
	}
	// Run registers its configuration under a global name, which a second start would find taken.
	defer configz.Delete(kcmapp.ConfigzName)
	return kcmapp.Run(ctx, c.Complete())
}
