package kuberelease

import (
	"strings"
	"testing"
)

func TestCheck(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		scheduler, apiServer string
		want                 Fit
		say                  string
	}{
		{"1.37", "v1.37.2", Fits, ""},
		{"1.37", "v1.37.0-alpha.1", Fits, ""},
		{"1.37", "v1.38.0+k3s1", Fits, ""},
		{"1.36", "v1.37.9-gke.100", Fits, ""},
		{"1.37", "v1.36.3", TooNew, "`make build KUBERNETES=1.36`"},
		{"1.36", "v1.35.1-eks-1234567", TooNew, "`make build KUBERNETES=1.36`"},
		{"1.37", "v1.39.0", TooOld, "1.37 and 1.38"},
		{"1.36", "v1.38.0", TooOld, "1.36 and 1.37"},
		{"1.37", "v2.0.0", TooOld, "too old"},
		{"1.37", "master", Unknown, "not known"},
		{"1.37", "", Unknown, "not known"},
		{"1.37", "v0.0.0-master+$Format:%H$", Unknown, "not known"},
	} {
		got, problem := check(c.scheduler, c.apiServer)
		if got != c.want || !strings.Contains(problem, c.say) || (problem == "") != (got == Fits) {
			t.Errorf("scheduler %s, API server %q: %v, %q; want %v with %q", c.scheduler, c.apiServer, got, problem, c.want, c.say)
		}
	}
}
