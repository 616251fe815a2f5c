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
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/ptr"

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
	var out []string
	for _, o := range f.Objects {
		out = append(out, o.Namespace)
	}
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
			if s.holds(o.Labels) {
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
