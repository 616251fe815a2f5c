package workload

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"gnnsched/internal/cluster"
)

// Action is what a step of a plan does.
type Action int

// The actions.
const (
	Add    Action = iota // create a Deployment
	Delete               // delete a Deployment that an earlier step created
	Reset                // delete everything that the plan has created so far
)

// String is the action as the CSV spells it; "add" and "delete" are AAML's words.
func (a Action) String() string {
	switch a {
	case Add:
		return "add"
	case Delete:
		return "delete"
	case Reset:
		return "reset"
	}
	return fmt.Sprintf("Action(%d)", int(a))
}

// Deployment is one arrival: Replicas pods of one shape that come at once.
type Deployment struct {
	Name     string // a DNS label, unique among the live Deployments of a plan
	Replicas int    // 1 or more
	Shape    Shape
}

// Requests is what all the pods of the Deployment ask for together.
func (d Deployment) Requests() cluster.Resources {
	return d.Shape.Requests.Times(int64(d.Replicas))
}

// Step is one change of the cluster. Deployment is the zero value for Reset; for Delete it
// is the Deployment as it was created.
type Step struct {
	Action     Action
	Deployment Deployment
	At         float64 // when, in seconds from the plan's start; 0 in plans without times
}

// Plan is everything that a run does to a cluster, in order.
type Plan struct {
	Steps []Step
}

// Fill is what a plan does between two resets.
type Fill struct {
	Deployments int               // created
	Deleted     int               // of these, deleted again before the fill ended
	Pods        int               // of all created Deployments
	Requests    cluster.Resources // of the Deployments that live when the fill ends
}

// Fills sums up each fill of the plan. There is at least one; a plan that ends with a reset
// has an empty one at its end.
func (p Plan) Fills() []Fill {
	out := []Fill{{}}
	for _, s := range p.Steps {
		f := &out[len(out)-1]
		switch s.Action {
		case Add:
			f.Deployments++
			f.Pods += s.Deployment.Replicas
			f.Requests = f.Requests.Plus(s.Deployment.Requests())
		case Delete:
			f.Deleted++
			f.Requests = f.Requests.Minus(s.Deployment.Requests())
		case Reset:
			out = append(out, Fill{})
		}
	}
	return out
}

// Tolerations are those of all the shapes in the plan, and the one for simulated nodes that
// every pod gets.
func (p Plan) Tolerations() []cluster.Toleration {
	shapes := make([]Shape, 0, len(p.Steps))
	for _, s := range p.Steps {
		if s.Action == Add {
			shapes = append(shapes, s.Deployment.Shape)
		}
	}
	return Tolerations(shapes)
}

// Tolerations are those of all the shapes, and the one for simulated nodes that every pod
// gets, each once.
func Tolerations(shapes []Shape) []cluster.Toleration {
	out := []cluster.Toleration{{Key: NodeTaint, Exists: true}}
	seen := map[cluster.Toleration]bool{out[0]: true}
	for _, s := range shapes {
		for _, t := range s.Tolerations {
			if !seen[t] {
				seen[t] = true
				out = append(out, t)
			}
		}
	}
	return out
}

// Validate tells whether the plan can be applied: names are DNS labels, no live name comes
// twice, only what lives is deleted, shapes are valid.
func (p Plan) Validate() error {
	live := map[string]bool{}
	for i, s := range p.Steps {
		d := s.Deployment
		var err error
		switch s.Action {
		case Add:
			if err = d.validate(); err == nil && live[d.Name] {
				err = fmt.Errorf("%q is deployed already", d.Name)
			}
			live[d.Name] = true
		case Delete:
			if !live[d.Name] {
				err = fmt.Errorf("%q is not deployed, so it cannot be deleted", d.Name)
			}
			delete(live, d.Name)
		case Reset:
			clear(live)
		default:
			err = fmt.Errorf("%v is not an action", s.Action)
		}
		if err != nil {
			return fmt.Errorf("step %d of the plan: %w", i+1, err)
		}
	}
	return nil
}

func (d Deployment) validate() error {
	if err := ValidateName(d.Name); err != nil {
		return err
	}
	if d.Replicas < 1 || d.Replicas > MaxReplicas {
		return fmt.Errorf("%s: %d replicas, want 1 to %d", d.Name, d.Replicas, MaxReplicas)
	}
	if err := d.Shape.Validate(); err != nil {
		return fmt.Errorf("%s: %w", d.Name, err)
	}
	return nil
}

// ValidateName returns an error unless s can name a Deployment: it must be a DNS label, because
// it becomes a label value and the start of pod names.
func ValidateName(s string) error {
	if p := validation.IsDNS1123Label(s); len(p) > 0 {
		return fmt.Errorf("%q is no name for a Deployment: %s", s, strings.SplitN(p[0], " (", 2)[0])
	}
	return nil
}
