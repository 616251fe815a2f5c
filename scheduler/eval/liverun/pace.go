package liverun

import (
	"fmt"
	"os"
	"strings"
	"time"

	"gnnsched/internal/exit"
	"gnnsched/scheduler/replay"
)

// Limits of one machine. The rates count pods that come or go, in a real second.
const (
	easyRate = 20.0 // without a speed, a run has at most this rate
	mostRate = 100.0
	easyTime = 2 * time.Minute  // without a speed, a run takes at most this time, unless the rate would be higher
	mostTime = 30 * time.Minute // a run takes at most this time
)

// A cluster's use of memory, in bytes (docs/how-to/simulate.md, "What differs from a real cluster").
const (
	clusterMemory = 600 << 20
	nodeMemory    = 1 << 20
	podMemory     = 300 << 10
)

// narrower is the hint for a record that is too large.
const narrower = "play a part of its time with --from and --to"

// load is the load of a window on the machine.
type load struct {
	seconds float64 // length of the window
	changes int     // pods that come or go in it
	most    int     // largest number of pods at one time
	nodes   int
}

// loadOf counts.
func loadOf(s *replay.Source) load {
	out := load{seconds: float64(s.To-s.From) / 1000, nodes: len(s.Nodes)}
	var steps []step
	for i := range s.Pods {
		p := &s.Pods[i]
		if p.Arrived >= s.To || p.Ended != 0 && p.Ended <= s.From {
			continue
		}
		steps = append(steps, step{max(p.Arrived, s.From), 1})
		if p.Arrived > s.From {
			out.changes++
		}
		if p.Ended != 0 && p.Ended < s.To {
			out.changes++
			steps = append(steps, step{p.Ended, -1})
		}
	}
	out.most = most(steps)
	return out
}

// Speed returns the number of seconds of the record that pass in a real second: the wanted one, or a suitable one for 0. It returns an
// error with exit code exit.Usage if the window is too large for this machine.
func Speed(s *replay.Source, wanted float64) (float64, error) {
	l := loadOf(s)
	free, err := freeMemory()
	if err != nil {
		return 0, err
	}
	if err := l.fits(free); err != nil {
		return 0, err
	}
	return l.speed(wanted)
}

// fits returns an error if a cluster would need more than free bytes.
func (l load) fits(free uint64) error {
	need := clusterMemory + uint64(l.nodes)*nodeMemory + uint64(l.most)*podMemory
	if need <= free {
		return nil
	}
	return exit.New(exit.Usage, fmt.Errorf("a cluster with %d nodes and %d pods at once takes about %d MiB, and this machine has %d MiB free",
		l.nodes, l.most, need>>20, free>>20), narrower)
}

func (l load) speed(wanted float64) (float64, error) {
	speed := wanted
	if wanted == 0 {
		speed = max(l.seconds/easyTime.Seconds(), 1)
		if l.changes > 0 {
			speed = min(speed, easyRate*l.seconds/float64(l.changes))
		}
	}
	if took := time.Duration(l.seconds / speed * float64(time.Second)); took > mostTime {
		return 0, exit.New(exit.Usage, fmt.Errorf("%d pods come or go; at speed %.3g a profile would take %v, and %v is the most",
			l.changes, speed, took.Round(time.Second), mostTime), narrower)
	}
	if rate := float64(l.changes) * speed / l.seconds; rate > mostRate {
		return 0, exit.New(exit.Usage, fmt.Errorf("at speed %.3g, %.0f pods would come or go in a second, and %.0f is the most",
			speed, rate, mostRate), "choose a lower --speed, or "+narrower)
	}
	return speed, nil
}

// freeMemory returns the bytes that a new process may take.
func freeMemory() (uint64, error) {
	text, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return 0, fmt.Errorf("find out how much memory is free: %w", err)
	}
	for line := range strings.Lines(string(text)) {
		var kib uint64
		if n, _ := fmt.Sscanf(line, "MemAvailable: %d kB", &kib); n == 1 {
			return kib << 10, nil
		}
	}
	return 0, fmt.Errorf("find out how much memory is free: /proc/meminfo has no MemAvailable")
}
