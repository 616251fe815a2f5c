package fatal

import (
	"runtime"
	"testing"
)

// outcome records how a test ended that is given to OpenB.
type outcome struct {
	testing.TB
	failed, skipped bool
}

func (o *outcome) Helper() {}

func (o *outcome) Fatal(...any) { o.failed = true; runtime.Goexit() }

func (o *outcome) Skip(...any) { o.skipped = true; runtime.Goexit() }

// Without the trace, tests are skipped, and in CI they fail. The root is where no folder above can have the trace;
// a folder for temporary files may lie below one that has it.
func TestOpenBWithoutTrace(t *testing.T) {
	t.Chdir("/")
	t.Setenv(dataVariable, "")
	for ci, fails := range map[string]bool{"": false, "false": false, "true": true} {
		t.Setenv("CI", ci)
		o := &outcome{TB: t}
		done := make(chan struct{})
		go func() {
			defer close(done)
			OpenB(o)
		}()
		<-done
		if o.failed != fails || o.skipped == fails {
			t.Errorf("CI=%q: failed %t, skipped %t", ci, o.failed, o.skipped)
		}
	}
}
