package canary

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"gnnsched/internal/choice"
)

// The values of Args.By.
const (
	ByOwner     = "owner"
	ByNamespace = "namespace"
)

// Defaults of Args.
const (
	DefaultFailures = 0.01
	DefaultLatency  = 100 * time.Millisecond
)

// Args are the canary's arguments, as a part of those of LearnedScore.
type Args struct {
	// Of is the canary's share, more than 0 and at most 1.
	Of float64 `json:"of"`
	// By says what is drawn: owner (the default), or namespace.
	By string `json:"by,omitempty"`
	// Failures is how much larger the canary's share of failures may be than the rest's. The default is
	// 0.01.
	Failures float64 `json:"failures,omitempty"`
	// Latency is how long an attempt to place one of the canary's pods may take; one in 100 may take longer. The default
	// is 100ms.
	Latency metav1.Duration `json:"latency,omitempty"`
}

// Default fills in the defaults, and returns an error for the first invalid value.
func (a *Args) Default() error {
	a.By = cmp.Or(a.By, ByOwner)
	a.Failures = cmp.Or(a.Failures, DefaultFailures)
	a.Latency.Duration = cmp.Or(a.Latency.Duration, DefaultLatency)
	switch by := []string{ByOwner, ByNamespace}; {
	case !(a.Of > 0 && a.Of <= 1):
		return fmt.Errorf("share: of is %v, want more than 0 and at most 1", a.Of)
	case !slices.Contains(by, a.By):
		return fmt.Errorf("share: by is %q%s", a.By, choice.Among(a.By, by))
	case !(a.Failures > 0 && a.Failures < 1):
		return fmt.Errorf("share: failures is %v, want more than 0 and less than 1", a.Failures)
	case a.Latency.Duration < 0:
		return fmt.Errorf("share: latency is %v, want more than 0", a.Latency.Duration)
	}
	return nil
}
