package kuberelease

import (
	"fmt"

	"k8s.io/apimachinery/pkg/util/version"
	component "k8s.io/component-base/version"
)

// Scheduler is the release of the kube-scheduler in this program, such as 1.37.
const Scheduler = component.DefaultKubeBinaryVersion

// oldest is the oldest release that gnnsched builds with. Its module file says the same.
const oldest = "1.36"

// Fit is the relation of a kube-scheduler and an API server by upstream's version skew policy: the scheduler must not be newer, and may be
// one release older.
type Fit int

const (
	Fits    Fit = iota
	Unknown     // the API server does not say its version
	TooOld      // the scheduler is older than the policy allows
	TooNew      // the scheduler is newer: it may wait for objects that the API server does not serve
)

// Check compares the scheduler of this program with an API server of a version such as v1.37.2. problem describes the mismatch and its
// remedy; it is empty if they fit.
func Check(apiServer string) (f Fit, problem string) { return check(Scheduler, apiServer) }

func check(scheduler, apiServer string) (Fit, string) {
	ours := version.MustParseGeneric(scheduler)
	is := fmt.Sprintf("the scheduler is kube-scheduler %s, which upstream supports on %s and %s", ours, ours, ours.OffsetMinor(1))
	theirs, err := version.ParseGeneric(apiServer)
	switch {
	case err != nil, theirs.Major() == 0: // a server that was built without its version says v0.0.0
		return Unknown, "the API server's version is not known; " + is
	case theirs.LessThan(ours):
		build := version.MustParseGeneric(oldest)
		if !theirs.LessThan(build) {
			build = version.MustParseGeneric(fmt.Sprintf("%d.%d", theirs.Major(), theirs.Minor()))
		}
		return TooNew, fmt.Sprintf("%s: it must not be newer than the API server; build it with `make build KUBERNETES=%s`", is, build)
	case ours.OffsetMinor(1).LessThan(version.MustParseGeneric(fmt.Sprintf("%d.%d", theirs.Major(), theirs.Minor()))):
		return TooOld, is + ": it is too old for this API server; use a gnnsched with a newer kube-scheduler"
	}
	return Fits, ""
}
