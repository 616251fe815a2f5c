package learn

import (
	"slices"
	"testing"
)

// Users of AAML find the names that they know.
func TestNames(t *testing.T) {
	names := SchedulerNames()
	for _, name := range []string{"hidden-layers", "init-epsi", "epsi-decay", "learning-rate", "replay-buffer-size"} {
		if !slices.Contains(names, name) {
			t.Errorf("no flag --%s", name)
		}
	}
}
