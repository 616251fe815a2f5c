package plugin

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime"
	fwk "k8s.io/kube-scheduler/framework"
	fwkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
)

// Registry returns the plugins of this package. A scheduler with our profiles needs all of them. active is
// closed when the scheduler schedules, and nil if it does so from the start: a profile that learns then
// starts its trainer, which a standby must not have.
func Registry(active <-chan struct{}) fwkruntime.Registry {
	learned := func(ctx context.Context, args runtime.Object, h fwk.Handle) (fwk.Plugin, error) {
		return newPlugin(ctx, args, h, active)
	}
	return fwkruntime.Registry{Name: learned, GPUSharesName: newGPUShares}
}
