// Package kwok runs a whole simulated Kubernetes cluster inside this process: etcd,
// kube-apiserver and kube-controller-manager as they are, and kwok's controllers, which play
// the kubelets of nodes that do not exist. Pods "run" at once and cost nothing.
//
// A test or a benchmark uses it so:
//
//	cluster, err := kwok.Start(ctx, kwok.Config{Dir: t.TempDir(), Pools: nodepool.Default(10)})
//	if err != nil { … }
//	defer cluster.Stop(context.Background())
//	clientset, err := kubernetes.NewForConfig(cluster.REST())
//
// When Start returns, the API server answers and every node is Ready. There is no scheduler
// in it: start one with cluster.Kubeconfig(), or set a pod's nodeName.
//
// The cluster listens on the loopback interface alone, with TLS, and answers only to the
// token in its kubeconfig. What is in it is kept in Config.Dir, and is there again when a
// cluster is started in the same directory. Several clusters may run one after another in
// one process, each in any directory. They must not run at the same time: the components
// share feature gates and metrics that are global to a process.
//
// klog is global too, so it is left alone here: route it before Start, or see Kubernetes'
// own chatter on stderr.
//
// # Version
//
// The API server reports the version that the linker sets, and a placeholder without it.
// Build with
//
//	-ldflags "-X k8s.io/component-base/version.gitVersion=v1.36.3
//	  -X k8s.io/component-base/version.gitMajor=1
//	  -X k8s.io/component-base/version.gitMinor=36
//	  -X k8s.io/component-base/version.gitTreeState=clean
//	  -X sigs.k8s.io/kwok/pkg/consts.Version=v0.8.0"
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
)

// DefaultContext is the name of the kubeconfig's context unless Config names another.
const DefaultContext = "gnnsched-kwok"

// Config says how to run a cluster. Only Dir is needed.
type Config struct {
	// Dir keeps everything: data, keys, kubeconfig. It is made if missing; a directory that
	// holds other things is refused.
	Dir string
	// Port is where the API server listens; 0 means the port of last time, or a free one
	// that is then kept, so that kubeconfigs stay valid over restarts.
	Port int
	// BindAddress is the IP address to listen on, 127.0.0.1 if empty. An address other than
	// loopback opens the cluster to the network (TLS and the token still hold) and needs
	// AdvertiseHost.
	BindAddress string
	// AdvertiseHost is the host name or IP address under which others reach the cluster; it
	// goes into the certificate and the kubeconfig. Empty means the loopback address.
	AdvertiseHost string
	// Pools are the nodes. Nil means those of last time, or nodepool.Default(10) for a new
	// cluster.
	Pools []nodepool.Pool
	// Context names the kubeconfig's cluster, user and context; DefaultContext if empty.
	Context string
	// KubeconfigCopies are further files that get the kubeconfig, for example on a volume
	// that another container reads.
	KubeconfigCopies []string
	// KubeconfigMode is the permission of the copies, 0600 if zero; the kubeconfig in Dir
	// always has 0600.
	KubeconfigMode os.FileMode
	// Fsync makes etcd wait for the disk at each write. Without it a crash of the machine
	// (not of the process) can lose the data, and everything is faster.
	Fsync bool
	// NoWait makes Start return as soon as the nodes are made, Ready or not.
	NoWait bool
	// Log gets warnings and errors of all components. The zero value drops them.
	Log zerolog.Logger
	// Progress is called with a short sentence at each step of Start, from one goroutine.
	// Nil means nobody listens.
	Progress func(step string)
}

// Cluster is a running cluster.
type Cluster struct {
	config     Config
	dir        *dataDir
	rest       *rest.Config
	port       int
	started    time.Time
	cancel     context.CancelCauseFunc // begins the end
	booted     chan struct{}           // closed when Start launches no more components
	done       chan struct{}           // closed when everything has ended
	err        error                   // why it ended, valid after done; nil after Stop
	components []*component            // in the order in which they were started
}

var errStopped = errors.New("stopped")

// Start starts a cluster and waits until its nodes are Ready, unless NoWait is set. The
// cluster runs until Stop is called, ctx is cancelled or a component fails; Wait tells.
// Errors that the user can do something about are of type *exit.Error with a hint.
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
	etcdLog := c.Log.With().Str("source", "etcd-client").Logger()
	etcdlog.Route(&etcdLog)
	go cl.supervise(run)
	err = cl.boot(run, listener)
	close(cl.booted)
	if err == nil {
		return cl, nil
	}
	cancel(err) // which keeps an earlier cause, such as that of a component that failed
	<-cl.done
	_ = listener.Close() // it may never have got as far as the API server, which closes it otherwise
	if cause := context.Cause(run); errors.Is(err, context.Canceled) {
		err = cause
	}
	return nil, err
}

// boot brings the components up one after another.
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
	server := cl.launch(ctx, "kube-apiserver", func(ctx context.Context) error {
		return runAPIServer(ctx, listener, cl.apiServerArgs(sock))
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
	return cl.bootNodes(ctx, cs)
}

// bootNodes makes the nodes what the pools say and waits for them.
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
	c.Progress(fmt.Sprintf("nodes: %d created, %d updated, %d deleted, %d as they were", res.Created, res.Updated, res.Deleted, res.Unchanged))
	if !c.NoWait {
		if err := waitNodes(ctx, cs, c.Pools, c.Progress); err != nil {
			return err
		}
	}
	return cl.dir.markReady()
}

// Kubeconfig returns the path of the kubeconfig file.
func (cl *Cluster) Kubeconfig() string { return cl.dir.kubeconfig() }

// Pools returns the node pools that the cluster was started with.
func (cl *Cluster) Pools() []nodepool.Pool { return slices.Clone(cl.config.Pools) }

// Context returns the name of the kubeconfig's context.
func (cl *Cluster) Context() string { return cl.config.Context }

// REST returns a client configuration with full rights and no rate limit. The caller may
// change it.
func (cl *Cluster) REST() *rest.Config { return rest.CopyConfig(cl.rest) }

// URL returns the address of the API server as others are told it.
func (cl *Cluster) URL() string {
	host := cl.config.AdvertiseHost
	if host == "" {
		return cl.localURL()
	}
	return "https://" + net.JoinHostPort(host, strconv.Itoa(cl.port))
}

// localURL is the address that works on this machine, whatever AdvertiseHost is.
func (cl *Cluster) localURL() string {
	return "https://" + net.JoinHostPort(cl.config.localHost(), strconv.Itoa(cl.port))
}

// Done is closed when the cluster has ended.
func (cl *Cluster) Done() <-chan struct{} { return cl.done }

// Wait blocks until the cluster has ended and returns why: nil after Stop, the context's
// error after a cancelled context, the component's error after a failure.
func (cl *Cluster) Wait() error {
	<-cl.done
	return cl.err
}

// Stop stops the cluster and waits until everything has ended, or until ctx is over. What
// it holds stays on disk. It may be called more than once.
func (cl *Cluster) Stop(ctx context.Context) error {
	cl.cancel(errStopped)
	select {
	case <-cl.done:
		return cl.err
	case <-ctx.Done():
		return fmt.Errorf("the cluster has not stopped yet: %w", context.Cause(ctx))
	}
}

// writeKubeconfigs writes the kubeconfigs, for others and for the components here.
func (cl *Cluster) writeKubeconfigs(creds credentials) error {
	local := kubeconfig(cl.config.Context, cl.localURL(), creds)
	rc, err := clientcmd.NewDefaultClientConfig(*local, nil).ClientConfig()
	if err != nil {
		return fmt.Errorf("make a client configuration: %w", err)
	}
	rc.QPS = -1 // the server protects itself
	rc.UserAgent = "kwokcluster"
	cl.rest = rc
	mine, err := clientcmd.Write(*local)
	if err != nil {
		return fmt.Errorf("make the kubeconfig: %w", err)
	}
	theirs, err := clientcmd.Write(*kubeconfig(cl.config.Context, cl.URL(), creds))
	if err != nil {
		return fmt.Errorf("make the kubeconfig: %w", err)
	}
	if err := errors.Join(cl.dir.write(fileLocalKubeconfig, mine), cl.dir.write(fileKubeconfig, theirs)); err != nil {
		return err
	}
	for _, path := range cl.config.KubeconfigCopies {
		if err := copyKubeconfig(path, theirs, cl.config.KubeconfigMode); err != nil {
			return err
		}
	}
	return nil
}
