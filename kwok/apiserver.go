package kwok

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/component-base/configz"
	apiserverapp "k8s.io/kubernetes/cmd/kube-apiserver/app"
	apiserveroptions "k8s.io/kubernetes/cmd/kube-apiserver/app/options"
	kcmapp "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	kcmoptions "k8s.io/kubernetes/cmd/kube-controller-manager/app/options"

	"gnnsched/internal/exit"
	"gnnsched/kwok/usage"
)

// ownGate switches the replica set controller's staleness check off, because it floods the log under load.
const ownGate = "StaleControllerConsistencyReplicaSet=false"

// featureGates returns the flag with the feature gates of all components, which share them in one process.
func (cl *Cluster) featureGates() string {
	return "--feature-gates=" + strings.Join(append([]string{ownGate}, cl.config.FeatureGates...), ",")
}

const flagHint = "check --feature-gates and --runtime-config; each of their values is NAME=true or NAME=false"

// apiServerArgs returns the flags of kube-apiserver.
func (cl *Cluster) apiServerArgs(etcdSocket string) []string {
	advertise := cl.config.localHost() // must be an IP address; not used here
	return []string{
		"--etcd-servers=unix://" + etcdSocket,
		"--bind-address=" + cl.config.BindAddress,
		"--advertise-address=" + advertise,
		"--secure-port=" + strconv.Itoa(cl.port),
		"--tls-cert-file=" + cl.dir.file(fileServerCert),
		"--tls-private-key-file=" + cl.dir.file(fileServerKey),
		"--token-auth-file=" + cl.dir.file(fileTokens),
		"--anonymous-auth=false",
		"--authorization-mode=RBAC", // the token of the kubeconfig is in system:masters, which has all rights
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file=" + cl.dir.file(fileServiceAccountKey),
		"--service-account-signing-key-file=" + cl.dir.file(fileServiceAccountKey),
		"--service-cluster-ip-range=10.96.0.0/16",
		"--disable-admission-plugins=ServiceAccount", // nothing runs in the pods that could use its tokens
		"--endpoint-reconciler-type=none",
		"--enable-priority-and-fairness=false",
		"--max-requests-inflight=0",
		"--max-mutating-requests-inflight=0",
		"--event-ttl=10m",
		"--delete-collection-workers=16",
		"--profiling=false",
		"--runtime-config=" + strings.Join(cl.config.RuntimeConfig, ","),
		cl.featureGates(),
	}
}

// runAPIServer runs kube-apiserver on the listener until ctx is cancelled. It does not use the component's command, whose signal handler
// can be installed only once in a process. The server also serves the sampler's data.
func runAPIServer(ctx context.Context, listener net.Listener, args []string, sampler *usage.Sampler) error {
	s := apiserveroptions.NewServerRunOptions()
	flags := pflag.NewFlagSet("kube-apiserver", pflag.ContinueOnError)
	for _, f := range s.Flags().FlagSets {
		flags.AddFlagSet(f)
	}
	if err := flags.Parse(args); err != nil {
		return exit.New(exit.Usage, fmt.Errorf("kube-apiserver's flags: %w", err), flagHint)
	}
	s.SecureServing.Listener = listener
	if err := s.GenericServerRunOptions.ComponentGlobalsRegistry.Set(); err != nil {
		return exit.New(exit.Usage, fmt.Errorf("feature gates: %w", err), flagHint)
	}
	completed, err := s.Complete(ctx)
	if err != nil {
		return err
	}
	if errs := completed.Validate(); len(errs) > 0 {
		return exit.New(exit.Usage, errors.Join(errs...), flagHint) // only the caller's settings can be wrong
	}
	return serve(ctx, completed, sampler)
}

// serve takes the same steps as apiserverapp.Run, which leaves no room between them. It adds metrics.k8s.io,
// and the kubelets' metrics at the path at which the server would connect to kubelets: behind its TLS, token
// and authorization.
func serve(ctx context.Context, options apiserveroptions.CompletedOptions, sampler *usage.Sampler) error {
	config, err := apiserverapp.NewConfig(options)
	if err != nil {
		return err
	}
	generic := &config.Aggregator.GenericConfig.Config
	chain := generic.BuildHandlerChainFunc
	generic.BuildHandlerChainFunc = func(api http.Handler, c *genericapiserver.Config) http.Handler {
		return chain(sampler.Intercept(api), c)
	}
	completed, err := config.Complete()
	if err != nil {
		return err
	}
	server, err := apiserverapp.CreateServerChain(completed)
	if err != nil {
		return err
	}
	if err := server.GenericAPIServer.InstallAPIGroup(sampler.APIGroup()); err != nil {
		return fmt.Errorf("add metrics.k8s.io: %w", err)
	}
	prepared, err := server.PrepareRun()
	if err != nil {
		return err
	}
	return prepared.Run(ctx)
}

const (
	apiPoll    = 50 * time.Millisecond
	apiTimeout = 2 * time.Minute
)

// waitAPI waits until the API server is ready and returns a client. The end of ctx does not
// shorten the wait: stopping an API server during its start would end the whole process, because
// its start hooks call klog.Fatal.
func (cl *Cluster) waitAPI(ctx context.Context, server *component) (*kubernetes.Clientset, error) {
	cs, err := kubernetes.NewForConfig(cl.protobuf())
	if err != nil {
		return nil, err
	}
	tick := time.NewTicker(apiPoll)
	defer tick.Stop()
	limit := time.NewTimer(apiTimeout)
	defer limit.Stop()
	for {
		if ready(context.WithoutCancel(ctx), cs.RESTClient()) == nil {
			return cs, context.Cause(ctx)
		}
		select {
		case <-server.done:
			return nil, fmt.Errorf("wait for the API server: %w", context.Cause(ctx))
		case <-limit.C:
			return nil, fmt.Errorf("the API server is not ready after %v", apiTimeout)
		case <-tick.C:
		}
	}
}

// protobuf returns a client configuration for typed clients with the fastest encoding.
func (cl *Cluster) protobuf() *rest.Config {
	rc := cl.REST()
	rc.ContentType = "application/vnd.kubernetes.protobuf"
	rc.AcceptContentTypes = "application/vnd.kubernetes.protobuf,application/json"
	return rc
}

// ready returns nil if the API server reports that it is ready.
func ready(ctx context.Context, c rest.Interface) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	return c.Get().AbsPath("/readyz").Do(ctx).Error()
}

// managedControllers are the controllers of kube-controller-manager that make sense without real machines. The node lifecycle controller
// removes the not-ready taint that admission puts on new nodes. The protection controllers remove the finalizers that admission adds. The
// resource claim controller makes the claims of templates, and frees the claims of removed pods. Older releases lack some.
var managedControllers = []string{
	"deployment-controller", "replicaset-controller", "replicationcontroller-controller",
	"statefulset-controller", "daemonset-controller", "job-controller", "cronjob-controller",
	"namespace-controller", "serviceaccount-controller", "garbage-collector-controller",
	"pod-garbage-collector-controller", "node-lifecycle-controller", "taint-eviction-controller",
	"disruption-controller", "resourcequota-controller", "ttl-after-finished-controller",
	"persistentvolume-binder-controller", "persistentvolumeclaim-protection-controller",
	"persistentvolume-protection-controller", "podgroup-protection-controller", "volumeattributesclass-protection-controller",
	"service-cidr-controller", "resourceclaim-controller", "device-taint-eviction-controller", "ephemeral-volume-controller",
	"clusterrole-aggregation-controller",
}

// controllerManagerArgs returns the flags of kube-controller-manager.
func (cl *Cluster) controllerManagerArgs() []string {
	unknown := func(name string) bool { return !slices.Contains(kcmapp.KnownControllers(), name) }
	return []string{
		"--kubeconfig=" + cl.dir.localKubeconfig(),
		"--controllers=" + strings.Join(slices.DeleteFunc(slices.Clone(managedControllers), unknown), ","),
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
