package plugin

import fwkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"

// Registry is the plugins of this package, which every scheduler that serves our profiles needs.
func Registry() fwkruntime.Registry {
	return fwkruntime.Registry{Name: New, GPUSharesName: NewGPUShares}
}
