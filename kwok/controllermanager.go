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

// managedControllers are the controllers of kube-controller-manager that make sense without real machines. The node lifecycle controller
// removes the not-ready taint that admission puts on new nodes. The protection controllers remove the finalizers that admission adds. The
// resource claim controller makes the claims of templates, and frees the claims of removed pods.
var managedControllers = []string{
	"deployment-controller", "replicaset-controller", "replicationcontroller-controller",
	"statefulset-controller", "daemonset-controller", "job-controller", "cronjob-controller",
	"namespace-controller", "serviceaccount-controller", "garbage-collector-controller",
	"pod-garbage-collector-controller", "node-lifecycle-controller", "taint-eviction-controller",
	"disruption-controller", "resourcequota-controller", "ttl-after-finished-controller",
	"persistentvolume-binder-controller", "persistentvolumeclaim-protection-controller",
	"persistentvolume-protection-controller", "resourceclaim-controller",
}

// controllerManagerArgs returns the flags of kube-controller-manager.
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
		cl.featureGates(),
	}
}

// runControllerManager runs kube-controller-manager until ctx is cancelled.
func runControllerManager(ctx context.Context, args []string) error {
	s, err := kcmoptions.NewKubeControllerManagerOptions()
	if err != nil {
		return err
	}
	known, disabled := kcmapp.KnownControllers(), kcmapp.ControllersDisabledByDefault()
	aliases := kcmapp.ControllerAliases()
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
	// Run registers its configuration under a global name, which must be free for the next start.
	defer configz.Delete(kcmapp.ConfigzName)
	return kcmapp.Run(quiet(ctx), c.Complete())
}
