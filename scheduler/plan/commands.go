package plan

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
)

// commands returns the commands that empty the freed nodes in their order, each with kubectl's flag for a dry run. The first one keeps the
// scheduler from these nodes and from the empty ones. Nodes with names that Kubernetes does not allow, which a file may have, are left out.
func commands(freed, empty []string, l Limits) []string {
	out := []string{}
	if len(freed) == 0 {
		return out
	}
	const dry = " --dry-run=server"
	bad := func(name string) bool { return len(validation.IsDNS1123Subdomain(name)) > 0 }
	closed := slices.DeleteFunc(slices.Concat(freed, empty), bad)
	if len(closed) == 0 {
		return out
	}
	out = append(out, "kubectl cordon "+strings.Join(closed, " ")+dry)
	for _, n := range freed {
		if bad(n) {
			continue
		}
		c := "kubectl drain " + n + " --ignore-daemonsets"
		if l.EmptyDirs {
			c += " --delete-emptydir-data"
		}
		out = append(out, c+dry)
	}
	return out
}
