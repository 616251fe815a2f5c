package heuristic

import (
	"testing"

	"gnnsched/scheduler/policy"
	"gnnsched/scheduler/policy/preference"
)

// Only the default profile stands for upstream, whose plugins weigh preferences against requests. For all others
// preferences come first, also for those that play one of upstream's plugins alone.
func TestWhoStandsForUpstream(t *testing.T) {
	for _, h := range List() {
		u, is := h.New(policy.Setting{Seed: 1}).(policy.Upstream)
		if is != (h.Name == "kube-scheduler") || is && u.PreferenceWeights() != preference.Upstream {
			t.Errorf("%s stands for upstream: %v", h.Name, is)
		}
	}
}
