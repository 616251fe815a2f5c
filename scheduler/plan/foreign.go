package plan

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"

	"gnnsched/scheduler/replay"
	"gnnsched/workload/record"
)

// remake are the kinds of owners that make evicted pods anew. Jobs do as long as they have tries left.
var remake = []string{"ReplicaSet", "StatefulSet", "DaemonSet", "ReplicationController", "Deployment"}

// foreign is why a pod may not come back as planned, unless Limits.Also has the name.
type foreign struct {
	name string // of the owner's kind, or of the scheduler
	why  string
}

type jobName struct{ namespace, name string }

// triesAt returns how many more pods of each Job may be evicted at the end of the window.
func triesAt(s replay.Source) map[jobName]int32 {
	out := map[jobName]int32{}
	for i := range s.Objects {
		o, tries := &s.Objects[i], int32(0)
		if o.Kind == record.KindJob && o.From < s.To && (o.To == 0 || o.To >= s.To) && record.ReadColumn(o.Spec, &tries) == nil {
			out[jobName{o.Namespace, o.Name}] = tries
		}
	}
	return out
}

// foreignTo reports whether another scheduler places the pod, or its owner may not make it anew.
func foreignTo(r *record.Pod, tries map[jobName]int32) (foreign, bool) {
	left, known := tries[jobName{r.Namespace, r.OwnerName}]
	switch {
	case r.Scheduler != "" && r.Scheduler != v1.DefaultSchedulerName:
		return foreign{r.Scheduler, "the scheduler " + r.Scheduler + " places it"}, true
	case r.OwnerKind == record.KindJob && left > 0 || slices.Contains(remake, r.OwnerKind):
		return foreign{}, false
	case r.OwnerKind == record.KindJob && known:
		return foreign{r.OwnerKind, "its Job has no try left, and fails if the pod is evicted"}, true
	case r.OwnerKind == record.KindJob:
		return foreign{r.OwnerKind, "whether its Job makes it anew is not known"}, true
	}
	return foreign{r.OwnerKind, "its controller, a " + r.OwnerKind + ", may not make it anew"}, true
}

// strange counts and names the pods that stay because they are foreign.
func (v *view) strange() (notes []string) {
	pods := map[foreign][]string{}
	for _, p := range v.pods {
		if f, is := v.foreign[p.UID]; is && v.forbids(p, v.limits) == f.why {
			pods[f] = append(pods[f], nameOf(p))
		}
	}
	for _, f := range slices.SortedFunc(maps.Keys(pods), func(a, b foreign) int { return cmp.Compare(a.why, b.why) }) {
		what := fmt.Sprintf("pods stay, each because %s; --also-move %s moves such pods", f.why, f.name)
		notes = append(notes, named(what, pods[f])...)
	}
	return notes
}
