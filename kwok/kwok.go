package kwok

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"
	"time"

	"github.com/rs/zerolog"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

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
