package kwok

import (
	"context"
	"fmt"
	"net/http"
	"path"
	"time"

	"github.com/rs/zerolog"
	"k8s.io/client-go/kubernetes"
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
	// heartbeat is how often a node says that it is alive, at least and at most. Nobody here
	// ever falls silent and each heartbeat of each node costs a write, so they are rare.
	heartbeatMin, heartbeatMax = 30 * time.Minute, 60 * time.Minute
	// nodeGrace is how long a node may be silent before it counts as not ready.
	nodeGrace = 2 * heartbeatMax
	// kwokParallelism is how many nodes or pods kwok writes at a time.
	kwokParallelism = 16
	// kwokIdentity would hold leases of the nodes. There are none: kwok needs them where
	// several of it share a cluster, and one that misses a lease (a start can, because it
	// does not wait for its cache) leaves a node alone until the next renewal.
	kwokIdentity = "gnnsched-kwok"
	// podCIDR is where kwok takes pods' addresses from; it does not meet the services' range.
	podCIDR = "10.128.0.1/9"
	nodeIP  = "10.0.0.1"
)

// stages returns kwok's own rules for nodes and pods that become ready at once, which are
// embedded in its module, with rarer heartbeats.
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
		out[st.Spec.ResourceRef] = append(out[st.Spec.ResourceRef], st)
	}
	return out, nil
}

// runKwok runs kwok's controllers, which play the kubelets, until ctx is cancelled.
func runKwok(ctx context.Context, kubeconfig string, typed *rest.Config, log zerolog.Logger) error {
	ctx = kwoklog.NewContext(ctx, kwokLogTo(ctx, log))
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

// holdPods returns a configuration whose clients hear nothing of pods until started is closed.
// kwok starts its controllers in the random order of a map; its pod controller looks, at the
// first pod and without a lock, at the node controller that may be in the making.
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
		DynamicClient: dynamic, RESTClient: raw, RESTMapper: mapper, TypedClient: typed, TypedKwokClient: stageClient,
		ImpersonatingDynamicClient: clients.ToImpersonatingDynamicClient(), ImpersonatingTypedClient: clients.ToImpersonatingTypedClient(),
		ManageNodesWithAnnotationSelector: nodepool.AnnotationFake + "=fake",
		CIDR:                              podCIDR, NodeIP: nodeIP,
		PodPlayStageParallelism: kwokParallelism, NodePlayStageParallelism: kwokParallelism,
		PodsOnNodeSyncParallelism: kwokParallelism,
	}, nil
}
