package kube

import (
	"iter"

	corev1 "k8s.io/api/core/v1"
)

// Containers yields the containers of a pod that upstream counts: init containers, native sidecars among them, and then the main ones.
// Ephemeral containers request nothing and take no ports, so no filter or score looks at them. The sum of their requests exceeds the pod's
// request; see Requests.
func Containers(p *corev1.Pod) iter.Seq[*corev1.Container] {
	return func(yield func(*corev1.Container) bool) {
		for _, list := range [...][]corev1.Container{p.Spec.InitContainers, p.Spec.Containers} {
			for i := range list {
				if !yield(&list[i]) {
					return
				}
			}
		}
	}
}

// Lasting yields the containers that run as long as the pod does: the native sidecars and the main containers.
func Lasting(p *corev1.Pod) iter.Seq[*corev1.Container] {
	main := len(p.Spec.InitContainers)
	return func(yield func(*corev1.Container) bool) {
		i := 0
		for c := range Containers(p) {
			if (i >= main || sidecar(c)) && !yield(c) {
				return
			}
			i++
		}
	}
}

// sidecar reports whether an init container is a native sidecar.
func sidecar(c *corev1.Container) bool {
	return c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways
}

// HostPorts returns the ports of its node that a pod takes. Ports of init containers that end do not count, as in upstream's filter.
func HostPorts(p *corev1.Pod) (out []corev1.ContainerPort) {
	for c := range Lasting(p) {
		for _, port := range c.Ports {
			if port.HostPort > 0 {
				out = append(out, port)
			}
		}
	}
	return out
}

// Images returns the images of all containers and of volumes, as upstream's ImageLocality counts them. An image may be there twice.
func Images(p *corev1.Pod) (out []string) {
	for c := range Containers(p) {
		out = append(out, c.Image)
	}
	for i := range p.Spec.Volumes {
		if image := p.Spec.Volumes[i].Image; image != nil {
			out = append(out, image.Reference)
		}
	}
	return out
}
