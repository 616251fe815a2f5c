package soak

import (
	"fmt"
	"io"
	"time"

	"gnnsched/internal/exit"
)

// Config sets the duration and the load of a soak.
type Config struct {
	For        time.Duration // pods come and go for so long; then the count takes a minute or two
	Seed       uint64        // of pods, of faults and of their times
	Nodes      int           // of the simulated cluster
	Pods       int           // that exist at the same time
	Rate       float64       // upper bound of created pods a second; 0: as many as get bound
	Every      time.Duration // mean pause after a fault, from when pods are bound again
	Schedulers int           // processes; more than one elect a leader

	Kwokcluster string // path of the program
	Scheduler   string // path of gnnsched
	Trainer     string // path of gnntrain; empty: nothing learns

	Out io.Writer // for progress and the count
}

// Validate checks the values. Its errors have the exit code exit.Usage.
func (c Config) Validate() error {
	switch {
	case c.For < 10*time.Second:
		return exit.Usagef("a soak of %v: choose 10s or more", c.For)
	case c.Nodes < 4 || c.Nodes > 5000:
		return exit.Usagef("%d nodes: choose 4 to 5000", c.Nodes)
	case c.Pods < 10 || c.Pods > 100*c.Nodes:
		return exit.Usagef("%d pods at the same time: choose 10 to %d for %d nodes", c.Pods, 100*c.Nodes, c.Nodes)
	case c.Rate < 0:
		return exit.Usagef("a rate of %v pods a second: choose 0 or more", c.Rate)
	case c.Every < 0:
		return exit.Usagef("a pause of %v between faults: choose 0 or more", c.Every)
	case c.Schedulers < 1 || c.Schedulers > 5:
		return exit.Usagef("%d schedulers: choose 1 to 5", c.Schedulers)
	}
	return nil
}

// part is a part of a run.
type part int

const (
	everythingFails part = iota
	noKills              // of schedulers and of the cluster
	draining
)

func (p part) String() string {
	return []string{"everything fails", "no kills", "draining"}[p]
}

// failingShare is the share of the run in which everything fails.
const failingShare = 0.6

// failing is the time in which everything fails. It is shorter where the rest must suffice to judge memory.
func (c Config) failing() time.Duration {
	share := time.Duration(failingShare * float64(c.For))
	if c.For >= judgedFrom {
		return min(share, c.For-memoryWarmup-memoryWindow)
	}
	return share
}

func clock(d time.Duration) string {
	s := int(d.Seconds())
	return fmt.Sprintf("%d:%02d", s/60, s%60)
}
