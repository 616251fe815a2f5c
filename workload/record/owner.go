package record

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// The kinds of objects.
const (
	KindNamespace     = "Namespace"
	KindPriorityClass = "PriorityClass"
	KindBudget        = "PodDisruptionBudget"

	KindDeployment  = "Deployment"
	KindReplicaSet  = "ReplicaSet"
	KindStatefulSet = "StatefulSet"
	KindDaemonSet   = "DaemonSet"
	KindJob         = "Job"
	KindCronJob     = "CronJob"
	KindAutoscaler  = "HorizontalPodAutoscaler"
)

// ownerKinds are the kinds of objects that have a Scale: those that make pods, and HorizontalPodAutoscalers.
var ownerKinds = []string{KindDeployment, KindReplicaSet, KindStatefulSet, KindDaemonSet, KindJob, KindCronJob, KindAutoscaler}

// Makes reports whether a controller of a kind makes a pod anew that was evicted or deleted. A Job does only while it has tries left, which
// Object.Spec says.
func Makes(kind string) bool {
	return slices.Contains([]string{KindDeployment, KindReplicaSet, KindStatefulSet, KindDaemonSet, "ReplicationController"}, kind)
}

// Scale is what an owner of pods, or a HorizontalPodAutoscaler, asks for. Fields that its kind does not have are empty.
type Scale struct {
	Owner    string `json:"owner,omitempty"`    // its own controller, such as Deployment/web of a ReplicaSet
	Replicas *int32 `json:"replicas,omitempty"` // what is asked for; of a HorizontalPodAutoscaler, what it sets

	// Strategy replaces pods: RollingUpdate, Recreate or OnDelete. MaxSurge and MaxUnavailable are numbers or percentages.
	Strategy       string `json:"strategy,omitempty"`
	MaxSurge       string `json:"maxSurge,omitempty"`
	MaxUnavailable string `json:"maxUnavailable,omitempty"`

	// Parallelism, Completions, BackoffLimit and Suspend are a Job's or a CronJob's, Schedule and TimeZone a CronJob's.
	Parallelism  *int32 `json:"parallelism,omitempty"`
	Completions  *int32 `json:"completions,omitempty"`
	BackoffLimit *int32 `json:"backoffLimit,omitempty"`
	Suspend      bool   `json:"suspend,omitempty"`
	Schedule     string `json:"schedule,omitempty"`
	TimeZone     string `json:"timeZone,omitempty"`

	// Target is what a HorizontalPodAutoscaler scales, such as Deployment/web, between Min and Max, so that Metrics such as "cpu 80%" hold.
	Target  string   `json:"target,omitempty"`
	Min     *int32   `json:"min,omitempty"`
	Max     *int32   `json:"max,omitempty"`
	Metrics []string `json:"metrics,omitempty"`
}

// Owner is an owner of pods, or a HorizontalPodAutoscaler, of a record.
type Owner struct {
	Kind, Namespace, Name string

	States []OwnerState // what it asked for, by time
	Pods   []int        // indices of its pods, also of those that it has through a ReplicaSet or a Job, by arrival
}

// OwnerState is what an owner asked for from one time to another, as in Object.
type OwnerState struct {
	From, To int64
	Gone     bool
	Scale    Scale
}

// Last returns the last state.
func (o *Owner) Last() *OwnerState { return &o.States[len(o.States)-1] }

func (o *Owner) String() string { return o.Kind + " " + o.Namespace + "/" + o.Name }

// there reports whether the owner is there at the end of the record.
func (o *Owner) there() bool { return o.Last().To == 0 }

// Owners returns the owners among some objects, by kind, namespace and name, with their pods. The notes count and name what contradicts
// itself, for people: pods whose owners the objects lack, and owners that have other pods than they ask for.
func Owners(pods []Pod, objects []Object) (out []Owner, notes []string) {
	c := census{at: map[objectName]int{}, faults: map[string][]string{}}
	c.states(objects)
	if len(c.all) == 0 {
		return nil, nil // a record of before, or of a source that has none
	}
	for i := range pods {
		c.pod(pods, i)
	}
	for i := range c.all {
		c.judge(&c.all[i], pods)
	}
	return c.all, c.notes()
}

type objectName struct{ kind, namespace, name string }

// census finds the owners of pods and the faults of both.
type census struct {
	all    []Owner
	at     map[objectName]int // index in all
	faults map[string][]string
}

func (c *census) fault(what, name string) { c.faults[what] = append(c.faults[what], name) }

// states collects what the owners asked for.
func (c *census) states(objects []Object) {
	for i := range objects {
		o := &objects[i]
		if o.Scale == "" || !slices.Contains(ownerKinds, o.Kind) {
			continue
		}
		s := OwnerState{From: o.From, To: o.To, Gone: o.Gone}
		if ReadColumn(o.Scale, &s.Scale) != nil || s.Scale.Replicas != nil && *s.Scale.Replicas < 0 {
			s.Scale = Scale{}
			c.fault("have a scale that cannot be read", o.Kind+" "+o.Namespace+"/"+o.Name)
		}
		k := objectName{o.Kind, o.Namespace, o.Name}
		at, known := c.at[k]
		if !known {
			at = len(c.all)
			c.at[k], c.all = at, append(c.all, Owner{Kind: o.Kind, Namespace: o.Namespace, Name: o.Name})
		}
		c.all[at].States = append(c.all[at].States, s)
	}
	for i := range c.all {
		slices.SortFunc(c.all[i].States, func(a, b OwnerState) int { return cmp.Compare(a.From, b.From) })
	}
	slices.SortFunc(c.all, func(a, b Owner) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	for i := range c.all {
		c.at[objectName{c.all[i].Kind, c.all[i].Namespace, c.all[i].Name}] = i
	}
}

// of returns an owner, named as in Scale.Owner; nil if the objects lack it.
func (c *census) of(namespace, name string) *Owner {
	kind, name, _ := strings.Cut(name, "/")
	if i, known := c.at[objectName{kind, namespace, name}]; known {
		return &c.all[i]
	}
	return nil
}

// pod adds a pod to its owner and to the owner's owner. Without a row of its ReplicaSet, its workload names the Deployment.
func (c *census) pod(pods []Pod, i int) {
	p := &pods[i]
	if p.OwnerKind == "" || !slices.Contains(ownerKinds, p.OwnerKind) {
		return
	}
	owner := c.of(p.Namespace, p.OwnerKind+"/"+p.OwnerName)
	above := p.Workload
	if owner != nil {
		owner.Pods = append(owner.Pods, i)
		above = owner.Last().Scale.Owner
	} else if p.Ended == 0 {
		c.fault("pods have owners that the record lacks", p.Namespace+"/"+p.Name+" of "+p.OwnerKind+" "+p.OwnerName)
	}
	if top := c.of(p.Namespace, above); top != nil && top != owner {
		top.Pods = append(top.Pods, i)
	}
}

// judge notes where an owner that is there at the record's end contradicts the other rows.
func (c *census) judge(o *Owner, pods []Pod) {
	s := o.Last().Scale
	if !o.there() {
		return
	}
	if s.Owner != "" && c.of(o.Namespace, s.Owner) == nil && slices.Contains(ownerKinds, kindOf(s.Owner)) {
		c.fault("owners belong to others that the record lacks", o.String()+" of "+s.Owner)
	}
	if s.Replicas == nil {
		return
	}
	want := int(*s.Replicas)
	if o.Kind == KindAutoscaler {
		target := c.of(o.Namespace, s.Target)
		switch {
		case target == nil || !target.there():
			c.fault("HorizontalPodAutoscalers have targets that the record lacks", o.Namespace+"/"+o.Name+" of "+s.Target)
		case want > 0 && target.Last().Scale.Replicas != nil && int(*target.Last().Scale.Replicas) != want:
			c.fault("HorizontalPodAutoscalers set other replicas than their targets have", o.Namespace+"/"+o.Name)
		}
		return
	}
	has := 0
	for _, i := range o.Pods {
		if pods[i].Ended == 0 {
			has++
		}
	}
	switch {
	case o.Kind == KindReplicaSet && s.Owner != "" || has == want: // the Deployment counts them
	case has == 0:
		c.fault("owners have no pod at the record's end, though they ask for some", o.String())
	default:
		c.fault("owners have other pods at the record's end than they ask for",
			fmt.Sprintf("%s has %d of %d", o, has, want))
	}
}

func kindOf(owner string) string {
	kind, _, _ := strings.Cut(owner, "/")
	return kind
}

// notes describes the faults.
func (c *census) notes() (out []string) {
	for _, what := range slices.Sorted(maps.Keys(c.faults)) {
		of := c.faults[what]
		out = append(out, fmt.Sprintf("%d %s (%s is the first)", len(of), what, of[0]))
	}
	return out
}

// CountOwners counts the owners that are there at the end of the objects, as "12 Deployments, 3 Jobs"; empty if there are none. ReplicaSets
// with an owner of their own do not count.
func CountOwners(objects []Object) string {
	last := map[objectName]*Object{}
	for i := range objects {
		o := &objects[i]
		k := objectName{o.Kind, o.Namespace, o.Name}
		if before := last[k]; o.Scale != "" && (before == nil || before.From <= o.From) {
			last[k] = o
		}
	}
	n := map[string]int{}
	for k, o := range last {
		if o.To == 0 && (k.kind != KindReplicaSet || !strings.Contains(o.Scale, `"owner"`)) {
			n[k.kind]++
		}
	}
	var parts []string
	for _, kind := range ownerKinds {
		if n[kind] > 0 {
			parts = append(parts, fmt.Sprintf("%d %ss", n[kind], kind))
		}
	}
	return strings.Join(parts, ", ")
}
