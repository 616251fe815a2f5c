package replay

import (
	"fmt"
	"maps"
	"slices"

	"gnnsched/workload/record"
)

// LeaveUnoffered leaves out the resources that no node has but pods that ran request, because the scheduler does not filter by them: an
// extender manages them, as HAMi's nvidia.com/gpumem. A note names them.
func (s *Source) LeaveUnoffered() {
	offered, ran := map[string]bool{}, map[string]bool{}
	for i := range s.Nodes {
		for _, column := range []string{s.Nodes[i].Extended, s.Nodes[i].Capacity} {
			for name := range record.Labels(column) {
				offered[name] = true
			}
		}
	}
	for i := range s.Pods {
		if s.Pods[i].Node == "" || s.Pods[i].Extended == "" {
			continue
		}
		for name := range record.Labels(s.Pods[i].Extended) {
			ran[name] = ran[name] || !offered[name]
		}
	}
	maps.DeleteFunc(ran, func(_ string, out bool) bool { return !out })
	if len(ran) == 0 {
		return
	}
	s.Pods = slices.Clone(s.Pods)
	pods := 0
	for i := range s.Pods {
		all := record.Labels(s.Pods[i].Extended)
		before := len(all)
		if maps.DeleteFunc(all, func(name, _ string) bool { return ran[name] }); len(all) < before {
			s.Pods[i].Extended = record.Column(all)
			pods++
		}
	}
	s.Notes = append(s.Notes, fmt.Sprintf("no node offers %q, which %d pods request and some have got; nodes are not filtered by it",
		slices.Sorted(maps.Keys(ran)), pods))
}
