package exit

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"testing"
)

func TestCode(t *testing.T) {
	base := errors.New("boom")
	for _, c := range []struct {
		name string
		err  error
		want int
	}{
		{"nil", nil, OK},
		{"plain", base, Internal},
		{"cancelled", fmt.Errorf("stopped: %w", context.Canceled), Interrupted},
		{"typed", New(Unreachable, base, ""), Unreachable},
		{"wrapped typed", fmt.Errorf("outer: %w", New(Checkpoint, base, "")), Checkpoint},
		{"usage", Usagef("no flag %q", "x"), Usage},
	} {
		if got := Code(c.err); got != c.want {
			t.Errorf("%s: Code = %d, want %d", c.name, got, c.want)
		}
	}
}

func TestReport(t *testing.T) {
	var b bytes.Buffer
	Report(&b, "runsim", fmt.Errorf("deploy: %w", New(Unreachable, errors.New("connection refused"), "start a cluster with kwokcluster up")))
	want := "runsim: error: deploy: connection refused\nrunsim: hint: start a cluster with kwokcluster up\n"
	if b.String() != want {
		t.Errorf("got %q, want %q", b.String(), want)
	}
	b.Reset()
	if Report(&b, "x", nil); b.Len() != 0 {
		t.Errorf("nil error printed %q", b.String())
	}
}
