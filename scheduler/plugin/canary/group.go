package canary

import (
	"crypto/sha256"
	"encoding/binary"
	"hash/maphash"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"gnnsched/internal/cluster/kube"
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

// owner returns the kube.Workload of a pod with a controller, and else the pod's UID. The annotation that kube.Workload
// reads without a controller does not count, because anybody may write it at any time.
func owner(pod *v1.Pod) string {
	if metav1.GetControllerOfNoCopy(pod) == nil {
		return string(pod.UID)
	}
	return kube.Workload(pod)
}

var ownerSeed = maphash.MakeSeed()

// ownerKey returns a number of a pod's owner that differs between processes, and is never others.
func ownerKey(pod *v1.Pod) uint64 {
	return maphash.String(ownerSeed, pod.Namespace+"/"+owner(pod)) | 1
}
