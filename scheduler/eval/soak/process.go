package soak

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// process is a child process that is started again whenever it ends.
type process struct {
	name string
	// command returns the command for the next start.
	command func() *exec.Cmd
	output  string        // file for its output
	pause   time.Duration // before it is started again

	mu   sync.Mutex
	cmd  *exec.Cmd
	told bool // the soak ended the running process
}

// stopWithin is the time in which a process must end after a signal, before it is killed.
const stopWithin = 15 * time.Second

// run keeps the process running until ctx ends, and then stops it. onEnd gets the state of a process that ended although the soak did not
// end it.
func (p *process) run(ctx context.Context, onEnd func(*os.ProcessState)) error {
	for ctx.Err() == nil {
		cmd, done, err := p.start()
		if err != nil {
			return err
		}
		select {
		case <-done:
		case <-ctx.Done():
			p.end(syscall.SIGTERM)
			select {
			case <-done:
			case <-time.After(stopWithin):
				p.end(syscall.SIGKILL)
				<-done
			}
			return nil
		}
		p.mu.Lock()
		told := p.told
		p.cmd = nil
		p.mu.Unlock()
		if !told {
			onEnd(cmd.ProcessState)
		}
		pause(ctx, p.pause)
	}
	return nil
}

// start starts the process in a process group of its own, so that Ctrl-C on the terminal does not reach
// it. done is closed when it has ended.
func (p *process) start() (*exec.Cmd, <-chan struct{}, error) {
	out, err := os.OpenFile(p.output, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, nil, fmt.Errorf("write the output of %s: %w", p.name, err)
	}
	defer out.Close() // the process has its own handle
	cmd := p.command()
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		return nil, nil, fmt.Errorf("start %s: %w", p.name, err)
	}
	p.mu.Lock()
	p.cmd, p.told = cmd, false
	p.mu.Unlock()
	done := make(chan struct{})
	go func() {
		_ = cmd.Wait() // the state tells the exit status
		close(done)
	}()
	return cmd, done, nil
}

// end sends a signal to the process and reports whether it ran.
func (p *process) end(s syscall.Signal) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd == nil {
		return false
	}
	p.told = true
	return p.cmd.Process.Signal(s) == nil
}

// pid returns the process ID, or 0 if the process does not run.
func (p *process) pid() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd == nil {
		return 0
	}
	return p.cmd.Process.Pid
}

// lastLine returns the last line of the output that is not empty.
func (p *process) lastLine() string {
	b, err := os.ReadFile(p.output)
	if err != nil {
		return "no output"
	}
	lines := strings.Split(strings.TrimSpace(string(b)), "\n")
	return lines[len(lines)-1]
}

// childOf returns the ID of a child process of parent whose program has the given name, or 0.
func childOf(parent int, program string) int {
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil || parent == 0 {
		return 0
	}
	for _, stat := range stats {
		b, err := os.ReadFile(stat)
		if err != nil {
			continue // it has ended
		}
		// pid (name) state parent …; see proc_pid_stat(5)
		head, rest, _ := strings.Cut(string(b), ") ")
		pid, name, _ := strings.Cut(head, " (")
		fields := strings.Fields(rest)
		if name == program && len(fields) > 1 && fields[1] == strconv.Itoa(parent) && fields[0] != "Z" {
			n, _ := strconv.Atoi(pid)
			return n
		}
	}
	return 0
}

// Memory is judged by the heap after a garbage collection that the soak asks for. After memoryWarmup without kills, the lower quartile of
// the last third may exceed the first third's by memoryTolerance.
//
// Upstream's event recorder keeps every event for six to twelve minutes, most of the heap, in proportion to the pods of these minutes, and
// its histograms still grow a little. So the warm-up is as long as the recorder keeps an event, the thirds are as long as its heap rises
// and falls, and the tolerance is wide: a leak of a kilobyte a pod exceeds it.
const (
	memoryTolerance = 0.5
	eventsKept      = 6 * time.Minute // finishTime of client-go's events.eventBroadcasterImpl
	memoryWarmup    = 2 * eventsKept
	memoryWindow    = 3 * eventsKept // the shortest after warm-up that is judged
)

// judgedFrom is the shortest run whose memory is judged.
const judgedFrom = memoryWarmup + memoryWindow + 2*time.Minute

// sample is the memory of one scheduler at one time.
type sample struct {
	pid  int
	name string // of the member
	at   time.Time
	role string  // the metrics of its leases
	heap float64 // bytes after a garbage collection
}

// memory collects samples of all schedulers.
type memory struct {
	mu      sync.Mutex
	samples map[int][]sample // by process
}

func (m *memory) add(s sample) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.samples == nil {
		m.samples = map[int][]sample{}
	}
	m.samples[s.pid] = append(m.samples[s.pid], s)
}

// verdict is the comparison for one process.
type verdict struct {
	pid      int
	name     string  // of the member
	from, to float64 // lower quartiles of the heap in bytes
	window   time.Duration
}

// growth is the relative growth of the heap.
func (v verdict) growth() float64 { return v.to/v.from - 1 }

func (v verdict) String() string {
	return fmt.Sprintf("%s (process %d): heap %.1f to %.1f MB (%+.1f %%), over %v",
		v.name, v.pid, v.from/1e6, v.to/1e6, 100*v.growth(), v.window.Round(time.Second))
}

// verdicts compares the processes that lived from one time to another and kept their roles: a standby
// that takes over needs more memory, which is no growth.
func (m *memory) verdicts(from, to time.Time) (out []verdict) {
	m.mu.Lock()
	defer m.mu.Unlock()
	third := to.Sub(from) / 3
	for pid, all := range m.samples {
		var early, late []float64
		roles := map[string]bool{}
		for _, s := range all {
			if s.at.Before(from) || s.at.After(to) {
				continue
			}
			roles[s.role] = true
			switch {
			case s.at.Before(from.Add(third)):
				early = append(early, s.heap)
			case s.at.After(to.Add(-third)):
				late = append(late, s.heap)
			}
		}
		if len(early) == 0 || len(late) == 0 || len(roles) > 1 {
			continue
		}
		out = append(out, verdict{pid: pid, name: all[0].name, window: to.Sub(from), from: quartile(early), to: quartile(late)})
	}
	slices.SortFunc(out, func(a, b verdict) int { return a.pid - b.pid })
	return out
}

// quartile returns the lower quartile. It sorts the values.
func quartile(values []float64) float64 {
	slices.Sort(values)
	return values[len(values)/4]
}

// heapMetric is the beginning of the metric with the bytes of the heap.
const heapMetric = "go_memstats_heap_alloc_bytes "

// heapOf returns the bytes of the heap by the metrics of a process; 0 if they lack it.
func heapOf(text string) (bytes float64) {
	for line := range strings.Lines(text) {
		if value, is := strings.CutPrefix(line, heapMetric); is {
			bytes, _ = strconv.ParseFloat(strings.TrimSpace(value), 64)
		}
	}
	return bytes
}

// leaseMetric is the prefix of the metrics with the leases that a process holds.
const leaseMetric = "leader_election_master_status{"

// roleOf returns the metrics of the leases of a process.
func roleOf(text string) (role string) {
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, leaseMetric) {
			role += line
		}
	}
	return role
}
