package cleanup

import (
	"context"
	"errors"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/pager"
	"k8s.io/utils/clock"

	"gnnsched/workload"
)

// Client reads and deletes objects by their metadata alone, which is small.
type Client struct {
	Metadata metadata.Interface
	Kinds    Kinds       // what kinds of object the cluster has; only namespaces need it
	Clock    clock.Clock // paces the waiting
	// Force deletes pods without waiting for a kubelet to confirm. Only right where no
	// kubelet is: on simulated nodes.
	Force bool
}

// Kinds lists the kinds of namespaced object that a cluster has; a discovery client does.
type Kinds interface {
	ServerPreferredNamespacedResources() ([]*metav1.APIResourceList, error)
}

// New returns a client for a cluster.
func New(c *rest.Config) (*Client, error) {
	m, err := metadata.NewForConfig(c)
	if err != nil {
		return nil, fmt.Errorf("make a metadata client: %w", err)
	}
	d, err := discovery.NewDiscoveryClientForConfig(c)
	if err != nil {
		return nil, fmt.Errorf("make a discovery client: %w", err)
	}
	return &Client{Metadata: m, Kinds: d, Clock: clock.RealClock{}}, nil
}

// Scope says whose objects are meant: those of one run or of every run, in one namespace or
// in all. Objects that no run made are in no scope.
type Scope struct {
	Run       string // empty means every run
	Namespace string // empty means every namespace
}

// Validate tells whether the run can be a label's value.
func (s Scope) Validate() error {
	if p := validation.IsValidLabelValue(s.Run); len(p) > 0 {
		return fmt.Errorf("run %q: %s", s.Run, p[0])
	}
	return nil
}

// selector wants both labels: "managed by gnnsched" alone would also hold for what other
// parts of the project may put on a cluster.
func (s Scope) selector() string {
	run := workload.LabelRun
	if s.Run != "" {
		run += "=" + s.Run
	}
	return workload.LabelManagedBy + "=" + workload.ManagedBy + "," + run
}

// holds tells whether an object with these labels is in the scope.
func (s Scope) holds(labels map[string]string) bool {
	run, ok := labels[workload.LabelRun]
	return ok && labels[workload.LabelManagedBy] == workload.ManagedBy && (s.Run == "" || run == s.Run)
}

var (
	nodes      = schema.GroupVersionResource{Version: "v1", Resource: "nodes"}
	namespaces = schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}

	// workloads are the kinds that a run makes or has made by controllers, owners first, so
	// that nothing is made again of what is deleted after.
	workloads = []schema.GroupVersionResource{
		{Group: "apps", Version: "v1", Resource: "deployments"},
		{Group: "apps", Version: "v1", Resource: "replicasets"},
		{Version: "v1", Resource: "pods"},
	}
)

// each calls f for every object of a kind, page by page, until f returns false.
func (c *Client) each(ctx context.Context, kind schema.GroupVersionResource, namespace, selector string, f func(*metav1.PartialObjectMetadata) bool) error {
	list := pager.New(func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
		return c.Metadata.Resource(kind).Namespace(namespace).List(ctx, o)
	})
	err := list.EachListItem(ctx, metav1.ListOptions{LabelSelector: selector}, func(o runtime.Object) error {
		if !f(o.(*metav1.PartialObjectMetadata)) {
			return errEnough
		}
		return nil
	})
	if err != nil && !errors.Is(err, errEnough) {
		return fmt.Errorf("list %s: %w", kind.Resource, err)
	}
	return nil
}

var errEnough = errors.New("enough")

// NodeCounts tells real clusters from simulated ones.
type NodeCounts struct {
	Total int
	Real  int // nodes without kwok's annotation: a kubelet runs their pods
}

// Simulated tells whether nothing really runs on the cluster: it has nodes, and all are kwok's.
func (n NodeCounts) Simulated() bool { return n.Total > 0 && n.Real == 0 }

// Nodes counts the cluster's nodes.
func (c *Client) Nodes(ctx context.Context) (NodeCounts, error) {
	var n NodeCounts
	err := c.each(ctx, nodes, "", "", func(o *metav1.PartialObjectMetadata) bool {
		n.Total++
		if o.Annotations[workload.NodeTaint] != workload.NodeSimulated {
			n.Real++
		}
		return true
	})
	return n, err
}

// pause waits for d or for the end of ctx.
func (c *Client) pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-c.Clock.After(d):
		return nil
	}
}
