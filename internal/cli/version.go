package cli

import (
	"runtime/debug"

	kubernetes "k8s.io/component-base/version"
)

// Versions adds the version of Kubernetes that a program is built with to the program's own.
func Versions(own string) string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, m := range info.Deps {
			if m.Path == "k8s.io/kubernetes" {
				return own + ", Kubernetes " + m.Version
			}
		}
	}
	return own + ", Kubernetes " + kubernetes.Get().GitVersion // as the linker set it
}
