package userconfig

import (
	"crypto/sha256"
	"fmt"

	"k8s.io/apimachinery/pkg/util/validation"
)

// LeaseName is the name of the leader election's lease. All schedulers of a cluster share it, whatever
// their profiles, because each keeps books of all the cluster's GPU devices.
const LeaseName = "gnnsched"

// ShareLeaseOf returns the name of the lease in kube-system in whose annotations the canary of a scheduler name keeps its state.
func ShareLeaseOf(schedulerName string) string {
	name := LeaseName + "-" + schedulerName
	if len(validation.IsDNS1123Subdomain(name)) > 0 {
		return fmt.Sprintf("%s-%x", LeaseName, sha256.Sum256([]byte(schedulerName)))
	}
	return name
}
