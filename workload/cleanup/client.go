package cleanup

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
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

// Client finds and deletes objects. It reads only their metadata.
type Client struct {
	Metadata metadata.Interface
	Kinds    Kinds // needed for namespaces only
	Clock    clock.Clock
	// Force deletes pods without waiting for their kubelets. Set it on simulated nodes only,
	// which have no kubelets.
	Force bool
}

// Kinds lists the kinds of namespaced objects that a cluster has. Discovery clients implement it.
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

// Scope selects objects that runs made: of one run or of every run, in one namespace or in all namespaces.
type Scope struct {
	Run       string // empty means every run
	Namespace string // empty means every namespace
}

// Validate returns an error unless the run can be a label value.
func (s Scope) Validate() error {
	if p := validation.IsValidLabelValue(s.Run); len(p) > 0 {
		return fmt.Errorf("run %q: %s", s.Run, p[0])
	}
	return nil
}

// selector requires both labels, because other objects of this project, which no run made, also
// have the label "managed by gnnsched".
func (s Scope) selector() string {
	run := workload.LabelRun
	if s.Run != "" {
		run += "=" + s.Run
	}
	return workload.LabelManagedBy + "=" + workload.ManagedBy + "," + run
}

// holds reports whether an object with these labels is in the scope, apart from its namespace.
func (s Scope) holds(labels map[string]string) bool {
	run, ok := labels[workload.LabelRun]
	return ok && labels[workload.LabelManagedBy] == workload.ManagedBy && (s.Run == "" || run == s.Run)
}

var (
	nodes      = schema.GroupVersionResource{Version: "v1", Resource: "nodes"}
	namespaces = schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}

	// workloads are the kinds of objects that a run makes, or controllers for it. Owners come
	// before the objects that they own, so that controllers do not replace deleted objects.
	workloads = []schema.GroupVersionResource{
		{Group: "apps", Version: "v1", Resource: "deployments"},
		{Group: "apps", Version: "v1", Resource: "replicasets"},
		{Version: "v1", Resource: "pods"},
		{Group: "resource.k8s.io", Version: "v1", Resource: claims},
		{Group: "scheduling.k8s.io", Version: "v1", Resource: classes},
	}
)

const (
	// claims is a kind that clusters before Kubernetes 1.34 do not have.
	claims = "resourceclaims"
	// classes is the one kind whose objects are in no namespace.
	classes = "priorityclasses"
)

// absent reports whether an error means that the cluster has no claims, or that the user has no right to claims or priority classes, and so
// can have made none.
func absent(kind schema.GroupVersionResource, err error) bool {
	return kind.Resource == claims && apierrors.IsNotFound(err) || (kind.Resource == claims || kind.Resource == classes) &&
		apierrors.IsForbidden(err)
}

// each calls f for every object of a kind, page by page, until f returns false.
func (c *Client) each(
	ctx context.Context, kind schema.GroupVersionResource, namespace, selector string, f func(*metav1.PartialObjectMetadata) bool,
) error {
	list := pager.New(func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
		return c.Metadata.Resource(kind).Namespace(namespace).List(ctx, o)
	})
	err := list.EachListItem(ctx, metav1.ListOptions{LabelSelector: selector}, func(o runtime.Object) error {
		if !f(o.(*metav1.PartialObjectMetadata)) {
			return errStop
		}
		return nil
	})
	if absent(kind, err) {
		return nil
	}
	if err != nil && !errors.Is(err, errStop) {
		return fmt.Errorf("list %s: %w", kind.Resource, err)
	}
	return nil
}

var errStop = errors.New("stop")

// NodeCounts is the number of nodes of a cluster, which tells whether it is simulated.
type NodeCounts struct {
	Total int
	Real  int // nodes without kwok's annotation, which really run pods
}

// Simulated reports whether the cluster has nodes and all of them are simulated.
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

// pause waits for d. It returns ctx's error if ctx ends first.
func (c *Client) pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-c.Clock.After(d):
		return nil
	}
}
