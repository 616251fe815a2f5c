// Package kuberelease holds the calls of kube-scheduler's packages whose signatures differ between the Kubernetes releases that
// gnnsched is built with. The newest release has no build tag. An older one has a tag, such as k136 for 1.36, and a module file,
// such as go.k136.mod.
package kuberelease
