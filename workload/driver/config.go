package driver

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/rs/zerolog"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/clock"

	"gnnsched/internal/exit"
	"gnnsched/workload"
	"gnnsched/workload/cleanup"
)

// What Config means where it says nothing.
const (
	DefaultNamespace = "gnnsched-sim"
	DefaultSettle    = 30 * time.Second
	// DefaultImage does nothing for as long as it runs. On simulated nodes no image is
	// pulled.
	DefaultImage = "registry.k8s.io/pause:3.10"
)

// Config says what to apply, where and how fast. Client, Cleaner, Plan, SchedulerName and
// RunID are needed.
type Config struct {
	Client  kubernetes.Interface
	Cleaner *cleanup.Client // deletes the run's objects at each reset
	Plan    workload.Plan

	SchedulerName string // the scheduler that the pods ask for
	Namespace     string // made if it is missing; DefaultNamespace if empty
	RunID         string // a label value that no other run on the cluster has; see NewRunID
	Image         string // of the pods' one container; DefaultImage if empty

	// Room is what Measure found, to which loads in progress and summary relate. The zero
	// value leaves them 0.
	Room Room
	// Bare makes pods without Deployments, so that they come in the plan's order, which
	// controllers do not keep.
	Bare bool
	// Interval is the pause after each Deployment.
	Interval time.Duration
	// Speed is how many seconds of the plan's own time pass in one; each step then waits for
	// its time. 0 for a plan without times.
	Speed float64
	// Settle is how long a fill waits for its pods while none is bound, before it goes on and
	// reports them pending; DefaultSettle if 0.
	Settle time.Duration

	// Progress is called at least once a second and at most every 100 ms, from the goroutine
	// of Run. Nil means nobody listens.
	Progress func(Progress)
	// Record is called for each step after it was done, from the goroutine of Run. Its error
	// ends the run. Nil means nobody listens.
	Record func(workload.Step) error

	Clock clock.WithTicker // the real one if nil
	Log   zerolog.Logger   // the zero value drops everything
}

// NewRunID returns an id that sorts by time and that no other run has.
func NewRunID(now time.Time) string {
	b := make([]byte, 2)
	rand.Read(b) // never fails, by its documentation
	return now.Format("20060102-150405") + "-" + hex.EncodeToString(b)
}

// Validate tells what is missing or would be refused by Kubernetes.
func (c *Config) Validate() error {
	var errs []error
	bad := func(format string, a ...any) { errs = append(errs, fmt.Errorf(format, a...)) }
	if c.Client == nil || c.Cleaner == nil {
		bad("the driver needs a client and a cleaner")
	}
	if p := validation.IsDNS1123Subdomain(c.SchedulerName); len(p) > 0 {
		bad("scheduler name %q: %s", c.SchedulerName, p[0])
	}
	if p := validation.IsDNS1123Label(c.Namespace); c.Namespace != "" && len(p) > 0 {
		bad("namespace %q: %s", c.Namespace, p[0])
	}
	if p := validation.IsValidLabelValue(c.RunID); c.RunID == "" || len(p) > 0 {
		bad("run id %q must be a label value: letters, digits, '-', '_' and '.', at most 63", c.RunID)
	}
	if c.Interval < 0 || c.Settle < 0 {
		bad("interval %v and settle %v must not be negative", c.Interval, c.Settle)
	}
	if !(c.Speed >= 0) {
		bad("speed %v must be 0 or more", c.Speed)
	}
	if err := c.Plan.Validate(); err != nil {
		bad("%w", err)
	}
	if err := errors.Join(errs...); err != nil {
		return exit.New(exit.Usage, err, "")
	}
	return nil
}

// complete validates c and fills in the defaults.
func (c *Config) complete() error {
	if err := c.Validate(); err != nil {
		return err
	}
	if c.Namespace == "" {
		c.Namespace = DefaultNamespace
	}
	if c.Image == "" {
		c.Image = DefaultImage
	}
	if c.Settle == 0 {
		c.Settle = DefaultSettle
	}
	if c.Clock == nil {
		c.Clock = clock.RealClock{}
	}
	if c.Progress == nil {
		c.Progress = func(Progress) {}
	}
	if c.Record == nil {
		c.Record = func(workload.Step) error { return nil }
	}
	return nil
}
