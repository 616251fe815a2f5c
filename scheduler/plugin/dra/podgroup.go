//go:build !k136

package dra

import (
	"context"

	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/dynamicresources"
)

var _ fwk.PodGroupPostFilterPlugin = &plugin{}

// PodGroupPostFilter implements fwk.PodGroupPostFilterPlugin: upstream's, as PostFilter is for a pod. Where another plugin refused all pods
// of the group before PreFilter, upstream's would end in the error "not found".
func (p *plugin) PodGroupPostFilter(ctx context.Context, state fwk.PodGroupCycleState, group fwk.PodGroupInfo,
	again fwk.PodGroupSchedulingFunc) (*fwk.PodGroupPostFilterResult, *fwk.Status) {
	if _, err := state.Read(dynamicresources.Name); err != nil {
		return nil, fwk.NewStatus(fwk.Unschedulable)
	}
	return p.DynamicResources.PodGroupPostFilter(ctx, state, group, again)
}
