package plugin

import fwkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"

// Registry returns the plugins of this package. A scheduler with our profiles needs all of them.
func Registry() fwkruntime.Registry {
	return fwkruntime.Registry{Name: newPlugin, GPUSharesName: newGPUShares}
}
