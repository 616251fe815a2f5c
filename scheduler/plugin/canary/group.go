package canary

import (
	"crypto/sha256"
	"encoding/binary"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Group says who scores the nodes for a pod.
type Group string

// The groups.
const (
	Learned Group = "canary" // the profile's decider
	Rest    Group = "rest"   // kube-scheduler's default scoring
)

// place returns a number in 0 (included) to 1 (excluded), which is the same for all pods of an owner or a namespace.
// The canary has the pods whose number is below its share.
func (a *Args) place(pod *v1.Pod) float64 {
	key := pod.Namespace
	if a.By == ByOwner {
		key += "/" + owner(pod)
	}
	sum := sha256.Sum256([]byte("gnnsched share " + key))
	return float64(binary.BigEndian.Uint64(sum[:])>>11) / (1 << 53)
}

// owner names the pod's controller, and the pod itself if it has none. The ReplicaSets of a Deployment count as one
// owner: their names are the Deployment's and a hash of the pod template, which the label repeats.
func owner(pod *v1.Pod) string {
	c := metav1.GetControllerOf(pod)
	if c == nil {
		return string(pod.UID)
	}
	if hash := pod.Labels[appsv1.DefaultDeploymentUniqueLabelKey]; c.Kind == "ReplicaSet" && hash != "" {
		if name, cut := strings.CutSuffix(c.Name, "-"+hash); cut {
			return "Deployment/" + name
		}
	}
	return c.Kind + "/" + c.Name
}
