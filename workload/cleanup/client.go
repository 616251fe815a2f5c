package cleanup

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/dustin/go-humanize/english"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/pager"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"

	"gnnsched/internal/each"
	"gnnsched/workload"
)

// Inventory lists everything that concerns the removal of a scope.
type Inventory struct {
	Found
	Namespaces []Namespace `json:"namespaces"` // made by the scope's runs, including those to keep
}

// Inventory lists the scope's objects and the namespaces that its runs made.
func (c *Client) Inventory(ctx context.Context, s Scope) (Inventory, error) {
	found, err := c.Find(ctx, s)
	if err != nil {
		return Inventory{}, err
	}
	spaces, err := c.Namespaces(ctx, s)
	return Inventory{Found: found, Namespaces: spaces}, err
}

// Empty reports whether there is nothing to remove.
func (i Inventory) Empty() bool { return len(i.Objects) == 0 && len(removable(i.Namespaces)) == 0 }

// String counts the objects that can be removed: "3 deployments, 3 replica sets, 21 pods and 1 namespace". It names resource
// claims and priority classes only if there are any.
func (i Inventory) String() string {
	plural := func(n int, noun string) string { return fmt.Sprintf("%d %s", n, english.PluralWord(n, noun, "")) }
	n := i.Counts()
	claimed := ""
	if n.Claims > 0 {
		claimed = ", " + plural(n.Claims, "resource claim")
	}
	if n.Classes > 0 {
		claimed += ", " + plural(n.Classes, "priority class")
	}
	return fmt.Sprintf("%s, %s, %s%s and %s", plural(n.Deployments, "deployment"), plural(n.ReplicaSets, "replica set"),
		plural(n.Pods, "pod"), claimed,
		plural(len(removable(i.Namespaces)), "namespace"))
}

// removable returns the namespaces that can be deleted.
func removable(all []Namespace) []Namespace {
	return slices.DeleteFunc(slices.Clone(all), func(n Namespace) bool { return n.Keep != "" })
}

// Progress is the state of RemoveAll under way.
type Progress struct {
	Done       float64 // removed fraction of the objects, 0 to 1
	Left       Counts  // objects still there
	Namespaces int     // namespaces being removed; 0 until the objects are gone
}

// Phase names the step: "removing" objects, then "namespaces".
func (p Progress) Phase() string {
	if p.Namespaces > 0 {
		return "namespaces"
	}
	return "removing"
}

func (p Progress) String() string {
	if p.Namespaces > 0 {
		return fmt.Sprintf("removing %d namespace(s)", p.Namespaces)
	}
	return fmt.Sprintf("removing: %d objects left, %d of them pods", p.Left.Total(), p.Left.Pods)
}

// RemoveAll deletes the scope's objects, then the namespaces that are empty without them. It returns all namespaces that the scope's runs
// made; a namespace that stays has a reason. progress is called repeatedly from the caller's goroutine.
func (c *Client) RemoveAll(ctx context.Context, s Scope, progress func(Progress)) ([]Namespace, error) {
	total := 0
	err := c.Remove(ctx, s, func(left Counts) {
		total = max(total, left.Total())
		p := Progress{Done: 1, Left: left}
		if total > 0 {
			p.Done = 1 - float64(left.Total())/float64(total)
		}
		progress(p)
	})
	if err != nil {
		return nil, err
	}
	// Look again: a namespace may have got new objects in the meantime.
	var spaces []Namespace
	err = c.retry(ctx, func() error {
		spaces, err = c.Namespaces(ctx, s)
		return err
	})
	if err != nil {
		return nil, err
	}
	if n := len(removable(spaces)); n > 0 {
		progress(Progress{Done: 1, Namespaces: n})
		err = c.RemoveNamespaces(ctx, spaces)
	}
	return spaces, err
}

const (
	// pageMax bounds the objects that one request deletes. An API server ends a request after a minute (its --request-timeout), in which it
	// may delete a few hundred objects or a few thousand. A page is halved whenever it fails.
	pageMax = 500
	pageMin = 10
	// attempts is the number of attempts for a request that fails each time. The pauses between them add up to about half a minute.
	attempts = 8
)

// deleteCollections deletes the scope's objects in the given namespaces, owners first.
func (c *Client) deleteCollections(ctx context.Context, s Scope, in []string) error {
	background := metav1.DeletePropagationBackground
	for _, kind := range workloads {
		o := metav1.DeleteOptions{PropagationPolicy: &background}
		if kind.Resource == "pods" && c.Force {
			o.GracePeriodSeconds = ptr.To[int64](0)
		}
		for _, ns := range in {
			if (ns == "") != (kind.Resource == classes) {
				continue
			}
			d := collection{client: c, kind: kind, namespace: ns, selector: s.selector(), options: o, page: pageMax}
			if err := d.delete(ctx); err != nil && !absent(kind, err) {
				return fmt.Errorf("delete %s in namespace %s: %w", kind.Resource, ns, err)
			}
		}
	}
	return nil
}

// collection is the deletion of a namespace's objects of one kind, a page at a time.
type collection struct {
	client    *Client
	kind      schema.GroupVersionResource
	namespace string
	selector  string
	options   metav1.DeleteOptions
	page      int64 // objects in the next page
}

// delete requests the deletion of every object.
func (d *collection) delete(ctx context.Context) error {
	for next := ""; ; {
		err := d.client.retry(ctx, func() (err error) {
			next, err = d.deletePage(ctx, next)
			if apierrors.IsResourceExpired(err) {
				next = "" // the server has forgotten the list: begin again
			}
			return err
		})
		if err != nil || next == "" {
			return err
		}
	}
}

// deletePage deletes the page that begins at a continue token, and returns the token of the next
// page, or "" after the last one. After an error it returns the token that it got.
func (d *collection) deletePage(ctx context.Context, at string) (next string, err error) {
	objects := d.client.Metadata.Resource(d.kind).Namespace(d.namespace)
	o := metav1.ListOptions{LabelSelector: d.selector, Limit: d.page, Continue: at}
	list, err := objects.List(ctx, o)
	if err != nil {
		return at, err
	}
	if len(list.Items) == 0 {
		return "", nil
	}
	if err := objects.DeleteCollection(ctx, d.options, o); err != nil && !apierrors.IsNotFound(err) {
		d.page = max(d.page/2, pageMin)
		return at, err
	}
	return list.Continue, nil
}

// retry calls f until it succeeds, fails in a way that will not change, or has failed often.
func (c *Client) retry(ctx context.Context, f func() error) error {
	pauses := wait.Backoff{Duration: 250 * time.Millisecond, Factor: 2, Cap: 10 * time.Second, Steps: attempts}
	for try := 1; ; try++ {
		err := f()
		if err == nil || try == attempts || refused(err) || ctx.Err() != nil {
			return err
		}
		if c.pause(ctx, pauses.Step()) != nil {
			return err
		}
	}
}

// refused reports whether the server understood a request and will not execute it, so that it is
// useless to repeat it.
func refused(err error) bool {
	status := apierrors.APIStatus(nil)
	if !errors.As(err, &status) {
		return false // no answer: the connection broke, or the server ended the request halfway
	}
	code := status.Status().Code
	switch {
	case apierrors.IsTooManyRequests(err), apierrors.IsTimeout(err), apierrors.IsConflict(err), apierrors.IsResourceExpired(err):
		return false
	}
	return code >= 400 && code < 500
}

// Object is an object that a run made.
type Object struct {
	Kind      string `json:"kind"`                // deployments, replicasets, pods, resourceclaims or priorityclasses
	Namespace string `json:"namespace,omitempty"` // empty for priority classes
	Name      string `json:"name"`
	Run       string `json:"run"`
}

// Found lists the objects of a scope. Owners come before the objects that they own.
type Found struct {
	Objects []Object `json:"objects"`
}

// Counts is the number of objects of each kind.
type Counts struct {
	Deployments int `json:"deployments"`
	ReplicaSets int `json:"replicasets"`
	Pods        int `json:"pods"`
	Claims      int `json:"resourceclaims"`
	Classes     int `json:"priorityclasses"`
}

// Total returns the number of objects of all kinds.
func (c Counts) Total() int { return c.Deployments + c.ReplicaSets + c.Pods + c.Claims + c.Classes }

func (c *Counts) add(kind string) {
	switch kind {
	case "deployments":
		c.Deployments++
	case "replicasets":
		c.ReplicaSets++
	case "pods":
		c.Pods++
	case claims:
		c.Claims++
	case classes:
		c.Classes++
	}
}

// Counts returns the number of objects of each kind.
func (f Found) Counts() Counts {
	var c Counts
	for _, o := range f.Objects {
		c.add(o.Kind)
	}
	return c
}

// Group counts the objects of one run in one namespace.
type Group struct {
	Namespace string `json:"namespace"`
	Run       string `json:"run"`
	Counts
}

// Groups counts the objects of namespaces by namespace and run, sorted by both.
func (f Found) Groups() []Group {
	var out []Group
	index := map[[2]string]int{}
	for _, o := range f.Objects {
		if o.Kind == classes {
			continue
		}
		k := [2]string{o.Namespace, o.Run}
		i, ok := index[k]
		if !ok {
			i = len(out)
			index[k] = i
			out = append(out, Group{Namespace: o.Namespace, Run: o.Run})
		}
		out[i].add(o.Kind)
	}
	slices.SortFunc(out, func(a, b Group) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Run, b.Run))
	})
	return out
}

// namespaces returns the namespaces of the objects, sorted. Priority classes have the namespace "".
func (f Found) namespaces() []string {
	out := each.Map(f.Objects, func(o Object) string { return o.Namespace })
	slices.Sort(out)
	return slices.Compact(out)
}

// Find lists the scope's objects.
func (c *Client) Find(ctx context.Context, s Scope) (Found, error) {
	if err := s.Validate(); err != nil {
		return Found{}, err
	}
	var f Found
	for _, kind := range workloads {
		if kind.Resource == classes && s.Namespace != "" {
			continue
		}
		err := c.each(ctx, kind, s.Namespace, s.selector(), func(o *metav1.PartialObjectMetadata) bool {
			if s.covers(o.Labels) {
				f.Objects = append(f.Objects, Object{Kind: kind.Resource, Namespace: o.Namespace, Name: o.Name, Run: o.Labels[workload.LabelRun]})
			}
			return true
		})
		if err != nil {
			return Found{}, err
		}
	}
	return f, nil
}

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

// covers reports whether an object with these labels is in the scope, apart from its namespace.
func (s Scope) covers(labels map[string]string) bool {
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
