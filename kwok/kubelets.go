package kwok

import (
	"context"
	"fmt"
	"net/http"
	"path"
	"time"

	"github.com/rs/zerolog"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	nodefast "sigs.k8s.io/kwok/kustomize/stage/node/fast"
	nodeheartbeat "sigs.k8s.io/kwok/kustomize/stage/node/heartbeat-with-lease"
	podfast "sigs.k8s.io/kwok/kustomize/stage/pod/fast"
	"sigs.k8s.io/kwok/pkg/apis/internalversion"
	"sigs.k8s.io/kwok/pkg/client/clientset/versioned"
	kwokconfig "sigs.k8s.io/kwok/pkg/config"
	"sigs.k8s.io/kwok/pkg/kwok/controllers"
	kwoklog "sigs.k8s.io/kwok/pkg/log"
	kwokclient "sigs.k8s.io/kwok/pkg/utils/client"

	"gnnsched/kwok/nodepool"
)

const (
	// heartbeatMin and heartbeatMax bound the time between two heartbeats of a node. Simulated
	// nodes never fail, and each heartbeat costs a write, so heartbeats are rare.
	heartbeatMin, heartbeatMax = 30 * time.Minute, 60 * time.Minute
	// nodeGrace is the time without a heartbeat after which a node counts as not ready.
	nodeGrace = 2 * heartbeatMax
	// kwokParallelism is the number of nodes or pods that kwok writes at the same time.
	kwokParallelism = 16
	// kwokIdentity is the holder of node leases, which are not used: only several kwok processes
	// on one cluster need them. With leases, a kwok that misses one at its start (it does not
	// wait for its cache) ignores the node until the next renewal.
	kwokIdentity = "gnnsched-kwok"
	// podCIDR is the range of pod addresses. It does not overlap the range of services.
	podCIDR = "10.128.0.1/9"
	nodeIP  = "10.0.0.1"
)

// stopTime is how long a deleted pod takes to end, as a jq expression: for the longest sleep of its containers' preStop hooks, within its
// grace period.
const stopTime = `([([.spec.containers[].lifecycle.preStop.sleep.seconds // 0] | max), .metadata.deletionGracePeriodSeconds // 0] | min | tostring) + "s"`

// stages returns the rules, embedded in kwok's module, by which nodes and pods become ready immediately. It makes the heartbeats rarer, and
// pods with preStop hooks that sleep end after that.
func stages() (map[internalversion.StageResourceRef][]*internalversion.Stage, error) {
	out := map[internalversion.StageResourceRef][]*internalversion.Stage{}
	for _, text := range []string{
		nodefast.DefaultNodeInit, nodeheartbeat.DefaultNodeHeartbeatWithLease,
		podfast.DefaultPodReady, podfast.DefaultPodComplete, podfast.DefaultPodDelete,
	} {
		st, err := kwokconfig.UnmarshalWithType[*internalversion.Stage](text)
		if err != nil {
			return nil, fmt.Errorf("kwok's stages: %w", err)
		}
		if text == nodeheartbeat.DefaultNodeHeartbeatWithLease {
			st.Spec.Delay = &internalversion.StageDelay{
				DurationMilliseconds:       new(heartbeatMin.Milliseconds()),
				JitterDurationMilliseconds: new(heartbeatMax.Milliseconds()),
			}
		}
		if text == podfast.DefaultPodDelete {
			st.Spec.Delay = &internalversion.StageDelay{
				DurationFrom: &internalversion.ExpressionFrom{JQ: &internalversion.ExpressionJQ{Expression: stopTime}},
			}
		}
		out[st.Spec.ResourceRef] = append(out[st.Spec.ResourceRef], st)
	}
	return out, nil
}

// runKwok runs kwok's controllers, which stand in for kubelets, until ctx is cancelled.
func runKwok(ctx context.Context, kubeconfig string, typed *rest.Config, log zerolog.Logger) error {
	ctx = kwoklog.NewContext(ctx, kwokLogger(ctx, log))
	started := make(chan struct{})
	conf, err := kwokConfig(kubeconfig, holdPods(typed, started))
	if err != nil {
		return err
	}
	c, err := controllers.NewController(conf)
	if err != nil {
		return err
	}
	if err := c.Start(ctx); err != nil {
		return err
	}
	close(started)
	<-ctx.Done()
	return nil
}

// holdPods returns a configuration whose clients get no answers about pods until started is
// closed. Without it kwok has a data race: it starts its controllers in the random order of a map,
// and at the first pod its pod controller reads the node controller without a lock, perhaps while
// that is being made.
func holdPods(c *rest.Config, started <-chan struct{}) *rest.Config {
	c = rest.CopyConfig(c)
	c.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			if path.Base(r.URL.Path) == "pods" {
				select {
				case <-started:
				case <-r.Context().Done():
					return nil, r.Context().Err()
				}
			}
			return next.RoundTrip(r)
		})
	})
	return c
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func kwokConfig(kubeconfig string, typedRC *rest.Config) (controllers.Config, error) {
	var none controllers.Config
	st, err := stages()
	if err != nil {
		return none, err
	}
	clients, err := kwokclient.NewClientset("", kubeconfig)
	if err != nil {
		return none, err
	}
	kwokRC, err := clients.ToRESTConfig()
	if err != nil {
		return none, err
	}
	dynamic, err := clients.ToDynamicClient()
	if err != nil {
		return none, err
	}
	mapper, err := clients.ToRESTMapper()
	if err != nil {
		return none, err
	}
	raw, err := rest.RESTClientFor(kwokRC)
	if err != nil {
		return none, err
	}
	stageClient, err := versioned.NewForConfig(kwokRC)
	if err != nil {
		return none, err
	}
	typed, err := kubernetes.NewForConfig(typedRC)
	if err != nil {
		return none, err
	}
	return controllers.Config{
		Clock: clock.RealClock{}, ID: kwokIdentity, LocalStages: st,
		DynamicClient: dynamic, RESTClient: raw, RESTMapper: mapper, TypedClient: kubelets{typed}, TypedKwokClient: stageClient,
		ImpersonatingDynamicClient: clients.ToImpersonatingDynamicClient(), ImpersonatingTypedClient: clients.ToImpersonatingTypedClient(),
		ManageNodesWithAnnotationSelector: nodepool.AnnotationFake + "=fake",
		CIDR:                              podCIDR, NodeIP: nodeIP,
		PodPlayStageParallelism: kwokParallelism, NodePlayStageParallelism: kwokParallelism,
		PodsOnNodeSyncParallelism: kwokParallelism,
	}, nil
}

// kubelets is the client of kwok's controllers. It removes pods as kubelets do: only a pod that was deleted, and by its UID. kwok asks by
// name, sometimes twice for one pod, and the second request could reach a new pod with the same name.
type kubelets struct{ kubernetes.Interface }

func (k kubelets) CoreV1() corev1client.CoreV1Interface { return kubeletCore{k.Interface.CoreV1()} }

type kubeletCore struct{ corev1client.CoreV1Interface }

func (c kubeletCore) Pods(namespace string) corev1client.PodInterface {
	return kubeletPods{c.CoreV1Interface.Pods(namespace)}
}

type kubeletPods struct{ corev1client.PodInterface }

// Delete removes a pod that was deleted. It does nothing if the pod is gone.
func (p kubeletPods) Delete(ctx context.Context, name string, o metav1.DeleteOptions) error {
	is, err := p.Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) || err == nil && is.DeletionTimestamp == nil {
		return nil
	}
	if err != nil {
		return err
	}
	o.Preconditions = metav1.NewUIDPreconditions(string(is.UID))
	if err := p.PodInterface.Delete(ctx, name, o); !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return err
	}
	return nil
}

const (
	nodePoll        = 200 * time.Millisecond // pause between two lists of the nodes
	nodePollPerNode = time.Millisecond       // added for each node, because lists of many nodes are slow
	nodeTimeout     = 5 * time.Minute        // for all nodes together
	progressEvery   = time.Second
)

// waitNodes waits until every node of the pools is ready.
func waitNodes(ctx context.Context, cs kubernetes.Interface, pools []nodepool.Pool, progress func(string)) error {
	want := nodepool.Nodes(pools)
	limit := time.NewTimer(nodeTimeout)
	defer limit.Stop()
	tick := time.NewTicker(nodePoll + time.Duration(want)*nodePollPerNode)
	defer tick.Stop()
	reported := time.Now()
	for {
		nodes, err := countNodes(ctx, cs, nodepool.LabelManagedBy+"="+nodepool.ManagedBy)
		if err != nil && ctx.Err() == nil {
			return err
		}
		if nodes.Ready >= want {
			return nil
		}
		if time.Since(reported) > progressEvery {
			progress(fmt.Sprintf("%d of %d nodes are ready", nodes.Ready, want))
			reported = time.Now()
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for the nodes: %w", context.Cause(ctx))
		case <-limit.C:
			return fmt.Errorf("only %d of %d nodes are ready after %v", nodes.Ready, want, nodeTimeout)
		case <-tick.C:
		}
	}
}

// NodeCount holds the number of nodes, and of ready nodes.
type NodeCount struct {
	Ready int `json:"ready"`
	Total int `json:"total"`
}

// countNodes counts the nodes that match the label selector, from the API server's cache.
func countNodes(ctx context.Context, cs kubernetes.Interface, selector string) (NodeCount, error) {
	list, err := cs.CoreV1().Nodes().List(ctx, metav1.ListOptions{LabelSelector: selector, ResourceVersion: "0"})
	if err != nil {
		return NodeCount{}, fmt.Errorf("list the nodes: %w", err)
	}
	n := NodeCount{Total: len(list.Items)}
	for i := range list.Items {
		if nodeReady(&list.Items[i]) {
			n.Ready++
		}
	}
	return n, nil
}

// nodeReady reports whether pods can be placed on the node: its Ready condition is true, and the
// taint of new nodes has been removed.
func nodeReady(n *corev1.Node) bool {
	for _, t := range n.Spec.Taints {
		if t.Key == corev1.TaintNodeNotReady || t.Key == corev1.TaintNodeUnreachable {
			return false
		}
	}
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}
