package kwok

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rs/zerolog"
	"github.com/spf13/pflag"
	genericapiserver "k8s.io/apiserver/pkg/server"
	etcdmetrics "k8s.io/apiserver/pkg/storage/etcd3/metrics"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/component-base/configz"
	apiserverapp "k8s.io/kubernetes/cmd/kube-apiserver/app"
	apiserveroptions "k8s.io/kubernetes/cmd/kube-apiserver/app/options"
	kcmapp "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	kcmoptions "k8s.io/kubernetes/cmd/kube-controller-manager/app/options"

	"gnnsched/internal/exit"
	"gnnsched/kwok/internal/etcdlog"
	"gnnsched/kwok/nodepool"
	"gnnsched/kwok/usage"
)

// Config is the setting of a cluster. Only Dir is required.
type Config struct {
	// Dir holds the cluster's data, keys and kubeconfig. It is created if it is missing. It must
	// be empty or belong to a cluster.
	Dir string
	// Port is the API server's port. 0 means the port of the previous start in Dir, so that
	// kubeconfigs stay valid, or any free port at the first start.
	Port int
	// BindAddress is the IP address to listen on. Default: 127.0.0.1. Any address other than
	// loopback opens the cluster to the network, still with TLS and token, and requires
	// AdvertiseHost.
	BindAddress string
	// AdvertiseHost is the host name or IP address under which others reach the cluster. The
	// certificate and the kubeconfig contain it. Default: the loopback address.
	AdvertiseHost string
	// Pools are the nodes. Nil means the pools of the previous start in Dir, or
	// nodepool.Default(10) at the first start.
	Pools []nodepool.Pool
	// Context names the kubeconfig's cluster, user and context. Default: gnnsched-kwok for the
	// default directory, and a name of its own for any other.
	Context string
	// KubeconfigCopies are files that get a copy of the kubeconfig, for example on a volume that
	// another container reads.
	KubeconfigCopies []string
	// NoWait makes Start return once the nodes exist, without waiting until they are Ready.
	NoWait bool
	// UsageInterval is the time between two samples of the pods' usage. Default: 10 s.
	UsageInterval time.Duration
	// FeatureGates are feature gates of Kubernetes to set, each as NAME=BOOL, besides the cluster's own. All components
	// of the process share them. An unknown one makes Start fail.
	FeatureGates []string
	// RuntimeConfig lists the versions of APIs to serve besides the usual ones, each as GROUP/VERSION=BOOL, as in kube-apiserver's flag.
	RuntimeConfig []string
	// Log receives warnings and errors of all components. The zero value drops them.
	Log zerolog.Logger
	// Progress, if not nil, is called from one goroutine with a short sentence for each step of
	// Start.
	Progress func(step string)
}

// Cluster is a running cluster.
type Cluster struct {
	config     Config
	dir        *dataDir
	rest       *rest.Config
	port       int
	started    time.Time
	cancel     context.CancelCauseFunc // makes supervise stop the components
	booted     chan struct{}           // closed when no more components will be launched
	done       chan struct{}           // closed when all components have ended
	err        error                   // why the cluster ended; valid after done; nil after Stop
	components []*component            // in the order of their starts
}

var errStopped = errors.New("stopped")

// Start starts a cluster and waits until its nodes are Ready, unless NoWait is set. The
// cluster runs until Stop is called, ctx is cancelled or a component fails. Errors that the
// user can correct are of type *exit.Error and have a hint.
func Start(ctx context.Context, c Config) (*Cluster, error) {
	if err := c.complete(); err != nil {
		return nil, err
	}
	d, err := openDir(c.Dir)
	if err != nil {
		return nil, err
	}
	listener, err := listen(&c, d)
	if err != nil {
		return nil, errors.Join(err, d.close())
	}
	run, cancel := context.WithCancelCause(ctx)
	cl := &Cluster{
		config: c, dir: d, cancel: cancel, booted: make(chan struct{}), done: make(chan struct{}),
		started: time.Now(), port: listener.Addr().(*net.TCPAddr).Port,
	}
	etcdlog.Route(new(c.Log.With().Str("source", "etcd-client").Logger()))
	go cl.supervise(run)
	err = cl.boot(run, listener)
	close(cl.booted)
	if err == nil {
		return cl, nil
	}
	cancel(err) // keeps an earlier cause, such as the error of a component
	<-cl.done
	_ = listener.Close() // the API server, which would close it, may not have started
	if cause := context.Cause(run); errors.Is(err, context.Canceled) {
		err = cause
	}
	return nil, err
}

// boot starts the components one after another.
func (cl *Cluster) boot(ctx context.Context, listener net.Listener) error {
	c := &cl.config
	creds, err := cl.dir.credentials(c.hosts())
	if err != nil {
		return err
	}
	if err := cl.writeKubeconfigs(creds); err != nil {
		return err
	}
	if err := cl.dir.writeRun(runFile{
		PID: os.Getpid(), Start: processStart(os.Getpid()), StartedAt: cl.started,
		Address: cl.localURL(), Advertised: cl.URL(), NoWait: c.NoWait,
	}); err != nil {
		return err
	}
	c.Progress("starting etcd")
	sock, err := cl.startEtcd(ctx)
	if err != nil {
		return err
	}
	c.Progress("starting kube-apiserver")
	sampler := usage.New(usage.Config{Interval: c.UsageInterval, Log: c.Log.With().Str("source", "usage").Logger()})
	server := cl.launch(ctx, "kube-apiserver", func(ctx context.Context) error {
		return runAPIServer(ctx, listener, cl.apiServerArgs(sock), sampler)
	})
	cs, err := cl.waitAPI(ctx, server)
	if err != nil {
		return err
	}
	c.Progress("starting kube-controller-manager and kwok")
	cl.launch(ctx, "kube-controller-manager", func(ctx context.Context) error {
		return runControllerManager(ctx, cl.controllerManagerArgs())
	})
	cl.launch(ctx, "kwok", func(ctx context.Context) error {
		return runKwok(ctx, cl.dir.localKubeconfig(), cl.protobuf(), c.Log)
	})
	if err := usage.Register(ctx, cl.REST()); err != nil {
		return err
	}
	cl.launch(ctx, "usage", func(ctx context.Context) error { return sampler.Run(ctx, cs) })
	return cl.bootNodes(ctx, cs)
}

// bootNodes makes the nodes match the pools and waits until they are ready.
func (cl *Cluster) bootNodes(ctx context.Context, cs kubernetes.Interface) error {
	c := &cl.config
	c.Progress(fmt.Sprintf("making %d nodes", nodepool.Nodes(c.Pools)))
	res, err := nodepool.Reconcile(ctx, cs, c.Pools)
	if err != nil {
		return fmt.Errorf("make the nodes: %w", err)
	}
	if err := cl.dir.savePools(c.Pools); err != nil {
		return err
	}
	c.Progress("nodes: " + counted(res))
	devices, err := nodepool.Publish(ctx, cs, c.Pools)
	if err != nil {
		return fmt.Errorf("publish the devices: %w", err)
	}
	if devices != (nodepool.Result{}) {
		c.Progress("device classes and resource slices: " + counted(devices))
	}
	if !c.NoWait {
		if err := waitNodes(ctx, cs, c.Pools, c.Progress); err != nil {
			return err
		}
	}
	return cl.dir.markReady()
}

func counted(r nodepool.Result) string {
	return fmt.Sprintf("%d created, %d updated, %d deleted, %d unchanged", r.Created, r.Updated, r.Deleted, r.Unchanged)
}

// Kubeconfig returns the path of the kubeconfig file.
func (cl *Cluster) Kubeconfig() string { return cl.dir.kubeconfig() }

// Pools returns the node pools that the cluster was started with.
func (cl *Cluster) Pools() []nodepool.Pool { return slices.Clone(cl.config.Pools) }

// Context returns the name of the kubeconfig's context.
func (cl *Cluster) Context() string { return cl.config.Context }

// REST returns a client configuration with full rights and without a rate limit. The caller owns
// it.
func (cl *Cluster) REST() *rest.Config { return rest.CopyConfig(cl.rest) }

// URL returns the address of the API server, with AdvertiseHost if it is set.
func (cl *Cluster) URL() string {
	host := cl.config.AdvertiseHost
	if host == "" {
		return cl.localURL()
	}
	return "https://" + net.JoinHostPort(host, strconv.Itoa(cl.port))
}

// localURL returns the address of the API server for this machine, without AdvertiseHost.
func (cl *Cluster) localURL() string {
	return "https://" + net.JoinHostPort(cl.config.localHost(), strconv.Itoa(cl.port))
}

// Done is closed when the cluster has ended.
func (cl *Cluster) Done() <-chan struct{} { return cl.done }

// Wait blocks until the cluster has ended. It returns nil after Stop, the context's error if
// Start's context was cancelled, and the component's error if a component failed.
func (cl *Cluster) Wait() error {
	<-cl.done
	return cl.err
}

// Stop stops the cluster and waits until all components have ended or ctx ends. The data stays
// in the directory. Stop may be called more than once.
func (cl *Cluster) Stop(ctx context.Context) error {
	cl.cancel(errStopped)
	select {
	case <-cl.done:
		return cl.err
	case <-ctx.Done():
		return fmt.Errorf("the cluster has not stopped yet: %w", context.Cause(ctx))
	}
}

// writeKubeconfigs writes two kubeconfigs: for the components, with the local address, and for
// users, with the advertised one. It also sets cl.rest.
func (cl *Cluster) writeKubeconfigs(creds credentials) error {
	local := kubeconfig(cl.config.Context, cl.localURL(), creds)
	rc, err := clientcmd.NewDefaultClientConfig(*local, nil).ClientConfig()
	if err != nil {
		return fmt.Errorf("make a client configuration: %w", err)
	}
	rc.QPS = -1 // no limit
	rc.UserAgent = "kwokcluster"
	cl.rest = rc
	localYAML, err := clientcmd.Write(*local)
	if err != nil {
		return fmt.Errorf("make the kubeconfig: %w", err)
	}
	publicYAML, err := clientcmd.Write(*kubeconfig(cl.config.Context, cl.URL(), creds))
	if err != nil {
		return fmt.Errorf("make the kubeconfig: %w", err)
	}
	if err := errors.Join(cl.dir.write(fileLocalKubeconfig, localYAML), cl.dir.write(fileKubeconfig, publicYAML)); err != nil {
		return err
	}
	for _, path := range cl.config.KubeconfigCopies {
		if err := copyKubeconfig(path, publicYAML); err != nil {
			return err
		}
	}
	return nil
}

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

// component is a part of the cluster that runs until its context is cancelled.
type component struct {
	name   string
	cancel context.CancelFunc
	done   chan struct{}
}

// stopTimeout limits the wait for one component to stop before the next one is stopped.
const stopTimeout = 10 * time.Second

// launch runs a component in a new goroutine. If the component ends before its context is
// cancelled, with or without an error, the cluster ends.
func (cl *Cluster) launch(ctx context.Context, name string, run func(context.Context) error) *component {
	// supervise stops the components one after another, so each has its own context, which
	// does not end with ctx.
	own, cancel := context.WithCancel(context.WithoutCancel(ctx))
	c := &component{name: name, cancel: cancel, done: make(chan struct{})}
	cl.components = append(cl.components, c)
	go func() {
		defer close(c.done)
		err := run(own)
		if own.Err() != nil {
			return // it was stopped; its error does not matter
		}
		err = cmp.Or(err, errors.New("ended unexpectedly"))
		cl.cancel(fmt.Errorf("%s: %w", name, err)) // before done is closed, so that waiters see the cause
	}()
	return c
}

// supervise waits until ctx ends and stops the components, the last started one first.
func (cl *Cluster) supervise(ctx context.Context) {
	<-ctx.Done()
	<-cl.booted // boot may still launch components; it returns soon after ctx ends
	for _, c := range slices.Backward(cl.components) {
		begin := time.Now()
		c.cancel()
		select {
		case <-c.done:
			cl.config.Log.Debug().Str("part", c.name).Dur("took", time.Since(begin)).Msg("stopped")
		case <-time.After(stopTimeout):
			cl.config.Log.Error().Str("part", c.name).Dur("waited", stopTimeout).Msg("does not stop")
		}
	}
	if cause := context.Cause(ctx); !errors.Is(cause, errStopped) {
		cl.err = cause
	}
	if err := cl.dir.close(); err != nil && cl.err == nil {
		cl.err = err
	}
	etcdlog.Route(nil)
	// Metrics of the process would wait ten seconds for the etcd that is gone, each time that they are read.
	etcdmetrics.SetStorageMonitorGetter(func() ([]etcdmetrics.Monitor, error) { return nil, nil })
	close(cl.done)
}

// processStart returns the start time of a process: the id of the machine's boot and the clock
// ticks since then. Together with the pid it identifies a process for good. It returns "" if
// there is no such process or no /proc.
func processStart(pid int) string {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return ""
	}
	// The second field is the program's name in parentheses, which may contain any characters.
	end := bytes.LastIndexByte(stat, ')')
	fields := strings.Fields(string(stat[end+1:]))
	const startTime = 22 - 3 // the 22nd field; fields begins with the third
	if end < 0 || len(fields) <= startTime {
		return ""
	}
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(boot)) + "/" + fields[startTime]
}
