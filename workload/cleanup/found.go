package cleanup

import (
	"cmp"
	"context"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"gnnsched/workload"
)

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
