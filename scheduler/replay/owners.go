package replay

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"

	"gnnsched/workload/record"
	rows "gnnsched/workload/record/play"
)

// owner names a controller of pods.
type owner struct{ kind, namespace, name string }

// selectors returns for each ReplicaSet and StatefulSet the labels that all its pods share. Upstream's default spreading uses the owner's
// selector, which a record does not have. Removed owners are included.
func selectors(pods []record.Pod) map[owner]map[string]string {
	out := map[owner]map[string]string{}
	for i := range pods {
		p := &pods[i]
		if p.OwnerKind != "ReplicaSet" && p.OwnerKind != "StatefulSet" {
			continue
		}
		var labels map[string]string
		if record.ReadColumn(p.Labels, &labels) != nil {
			continue
		}
		k := owner{p.OwnerKind, p.Namespace, p.OwnerName}
		if common, known := out[k]; known {
			maps.DeleteFunc(common, func(name, value string) bool { return labels[name] != value })
			continue
		}
		delete(labels, appsv1.StatefulSetPodNameLabel)
		delete(labels, appsv1.PodIndexLabel)
		out[k] = labels
	}
	return out
}

// fill gives the plugins the objects that they ask informers for: the owners, and the namespaces with their last labels.
func fill(shared informers.SharedInformerFactory, s *Source) error {
	sets, stateful := shared.Apps().V1().ReplicaSets().Informer().GetIndexer(), shared.Apps().V1().StatefulSets().Informer().GetIndexer()
	for k, labels := range selectors(s.Pods) {
		if len(labels) == 0 {
			continue // such a selector would select every pod
		}
		meta, selector := metav1.ObjectMeta{Namespace: k.namespace, Name: k.name}, &metav1.LabelSelector{MatchLabels: labels}
		var err error
		if k.kind == "ReplicaSet" {
			err = sets.Add(&appsv1.ReplicaSet{ObjectMeta: meta, Spec: appsv1.ReplicaSetSpec{Selector: selector}})
		} else {
			err = stateful.Add(&appsv1.StatefulSet{ObjectMeta: meta, Spec: appsv1.StatefulSetSpec{Selector: selector}})
		}
		if err != nil {
			return fmt.Errorf("add %s %s: %w", k.kind, k.name, err)
		}
	}
	spaces := shared.Core().V1().Namespaces().Informer().GetIndexer()
	began := slices.DeleteFunc(slices.Clone(s.Objects), func(o record.Object) bool { return o.From > s.To })
	for name, labels := range rows.Namespaces(s.Pods, began) {
		if err := spaces.Add(&v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}); err != nil {
			return fmt.Errorf("add namespace %s: %w", name, err)
		}
	}
	return nil
}

// Lack is a part of the record that a replay leaves out.
type Lack struct {
	What string `json:"what"`
	Pods int    `json:"pods"` // that have it
}

// Lacks returns the parts of the source that a replay leaves out, each with its number of pods. Pods of DaemonSets and pods outside the
// window do not count.
func (s *Source) Lacks() (out []Lack) {
	budgets, schedulers := 0, map[string]int{}
	for i := range s.Objects {
		if s.Objects[i].Kind == record.KindBudget && !s.Objects[i].Gone {
			budgets++
		}
	}
	var claims, devices, shares, images, pods int
	for i := range s.Pods {
		p := &s.Pods[i]
		if p.Daemon || p.Arrived > s.To || p.Ended != 0 && p.Ended <= s.From {
			continue
		}
		pods++
		schedulers[p.Scheduler]++
		claims += count(p.Claims != "")
		devices += count(strings.Contains(p.Holds, strconv.Quote(record.HoldsDevices)))
		shares += count(p.GPUMilli > 0)
		images += count(p.Images != "")
	}
	add := func(n int, what string) {
		if n > 0 {
			out = append(out, Lack{what, n})
		}
	}
	add(claims, "volume claims: their pods are placed as if they had none")
	add(devices, "resource claims: their pods are placed as if they had none, on nodes without the devices too")
	add(shares, "devices of GPU shares: a node's shares are one amount")
	if budgets > 0 {
		add(pods, "disruption budgets: preemption does not spare their pods")
	}
	if len(schedulers) > 1 {
		add(pods, fmt.Sprintf("several schedulers (%q): the profile places the pods of all", slices.Sorted(maps.Keys(schedulers))))
	}
	add(images, "images that nodes have: they do not count in scores")
	add(pods, "services: default spreading goes by the pods' owners only")
	return out
}
