package soak

import (
	"context"
	"encoding/json"
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

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"

	"gnnsched/internal/kubeconfig"
	"gnnsched/scheduler/plugin"
	"gnnsched/scheduler/plugin/canary"
	"gnnsched/scheduler/plugin/userconfig"
	"gnnsched/scheduler/server"
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

// Names of profiles that are treated apart.
const (
	swapped  = "gnn"   // its checkpoint is swapped
	learning = "dqn"   // it learns, if there is a trainer
	sharing  = "share" // a network with one checkpoint places half of its pods
	rival    = "rival" // a scheduler with a lease of its own, which places pods at the same time as the leader
)

// leaderProfiles are the profiles of the schedulers with leader election.
var leaderProfiles = []string{swapped, learning, sharing, "acgnn", "gpu-gnn", "fgd", server.DefaultProfile}

// profileNames are all profiles. Pods are spread over them.
var profileNames = append(leaderProfiles[:len(leaderProfiles):len(leaderProfiles)], rival)

// shareLatency is the time in which attempts of the share must end. It is long, because the machine may be busy.
const shareLatency = 20 * time.Second

// member is one scheduler process.
type member struct {
	name   string
	config server.Config
	flags  []string // more than all have
}

// members returns the processes: the schedulers with leader election, the rival, and the shadow.
func (f *fleet) members() (out []member, err error) {
	config := func(names ...string) (server.Config, error) {
		c := server.Config{
			Kubeconfig: kubeconfig.SimulatedKubeconfig(f.folder()), QPS: kubeconfig.UnlimitedQPS,
			Profiling: true, // to ask for garbage collections
		}
		for _, name := range names {
			p, err := f.profile(name)
			if err != nil {
				return c, err
			}
			c.Profiles = append(c.Profiles, p)
		}
		return c, nil
	}
	leaders, err := config(leaderProfiles...)
	if err != nil {
		return nil, err
	}
	leaders.LeaderElect = f.config.Schedulers > 1
	for i := range f.config.Schedulers {
		out = append(out, member{name: fmt.Sprintf("scheduler-%d", i), config: leaders})
	}
	other, err := config(rival)
	if err != nil {
		return nil, err
	}
	other.LeaderElect, other.Lease = true, "gnnsched-"+rival
	watching, err := config(swapped)
	if err != nil {
		return nil, err
	}
	watching.Profiles[0].SchedulerName = server.DefaultProfile
	return append(out, member{name: rival, config: other}, member{name: "shadow", config: watching, flags: []string{
		"--shadow", "--shadow-of", server.DefaultProfile, "--shadow-of", rival, "--shadow-report", f.shadowReport(),
	}}), nil
}

// profile returns the profile of a name.
func (f *fleet) profile(name string) (p server.Profile, err error) {
	switch name {
	case sharing:
		p, err = server.ProfileNamed(swapped)
		p.SchedulerName, p.Checkpoint = sharing, f.checkpointFile(swapped)
		p.Canary = &canary.Args{Of: 0.5, Latency: metav1.Duration{Duration: shareLatency}}
	case rival:
		p, err = server.ProfileNamed("gpu-best-fit")
		p.SchedulerName = rival
	default:
		p, err = server.ProfileNamed(name)
	}
	if name == swapped || name == learning {
		p.Checkpoint = f.checkpointFile(name)
	}
	if name == learning && f.config.Trainer != "" {
		p.Learn = &plugin.LearnArgs{
			Trainer:   []string{f.config.Trainer, "--online", "--init", p.Checkpoint, "--guard-episodes", "2"},
			Objective: "balance", InitEpsilon: 0.1, EpsilonDecay: 0.999, FinalEpsilon: 0.01,
		}
	}
	return p, err
}

// prepare writes the configuration of a member and adds its process.
func (f *fleet) prepare(m member) error {
	text, err := m.config.YAML()
	if err != nil {
		return err
	}
	file := f.file(m.name + ".yaml")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		return err
	}
	port, err := freePort()
	if err != nil {
		return err
	}
	f.ports = append(f.ports, port)
	args := append([]string{"rungnn", "--config", file, "--port", strconv.Itoa(port), "--log-dir", "", "--log-level", "warn"}, m.flags...)
	command := func() *exec.Cmd { return exec.Command(f.config.Scheduler, args...) }
	f.schedulers = append(f.schedulers, &process{
		name: m.name, output: f.file(m.name + ".log"), pause: 200 * time.Millisecond, command: command,
	})
	return nil
}

func (f *fleet) shadowReport() string { return f.file("shadow.json") }

// marks returns the leases that schedulers leave in the cluster.
func (s *soak) marks() coordinationclient.LeaseInterface {
	return s.client.CoordinationV1().Leases(metav1.NamespaceSystem)
}

// stopOf returns why the share is stopped; empty if it is not.
func (s *soak) stopOf(ctx context.Context) (why string, err error) {
	lease, err := s.marks().Get(ctx, userconfig.ShareLeaseOf(sharing), metav1.GetOptions{})
	if err != nil {
		return "", fmt.Errorf("read whether the share is stopped: %w", err)
	}
	return lease.Annotations[canary.StoppedAnnotation], nil
}

// unclean is part of the reason of a share that stopped because its process was killed.
const unclean = " unclean: "

// resumeShare acts as a person does after the process of a share was killed: it clears the stop and starts the schedulers again. It reports
// false if the share is not stopped.
func (s *soak) resumeShare(ctx context.Context) bool {
	if why, err := s.stopOf(ctx); err != nil || !strings.Contains(why, unclean) {
		return false
	}
	patch := fmt.Sprintf(`{"metadata": {"annotations": {%q: null}}}`, canary.StoppedAnnotation)
	_, err := s.marks().Patch(ctx, userconfig.ShareLeaseOf(sharing), types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	if err != nil {
		return false
	}
	for _, p := range s.fleet.schedulers[:s.config.Schedulers] {
		p.end(syscall.SIGTERM)
	}
	return true
}

// judgeShare reports a share that was stopped, unless a kill was the reason: its pods fare no worse than the rest.
func (s *soak) judgeShare(ctx context.Context) error {
	why, err := s.stopOf(ctx)
	if err != nil {
		return err
	}
	if why != "" && !(strings.Contains(why, unclean) && s.recoveries.kills() > 0) {
		s.book.add(violation{kind: shareStopped, detail: why})
	}
	for i := range s.fleet.schedulers {
		text, err := s.fleet.read(ctx, i, "/metrics")
		if err != nil {
			continue // it is being started
		}
		for line := range strings.Lines(text) {
			if strings.HasPrefix(line, "gnnsched_share_pods_total{") {
				s.sharePods = append(s.sharePods, strings.TrimSpace(line))
			}
		}
	}
	return nil
}

// judgeShadow reports a shadow that left no report behind. The shadow begins a new comparison after each kill.
func (s *soak) judgeShadow() {
	var report struct {
		Counts struct{ Bound, Compared int }
	}
	text, err := os.ReadFile(s.fleet.shadowReport())
	if err == nil {
		err = json.Unmarshal(text, &report)
	}
	switch {
	case err != nil:
		s.book.add(violation{kind: shadowFailed, detail: fmt.Sprintf("it left no report: %v", err)})
	case report.Counts.Bound > 0 && report.Counts.Compared == 0:
		s.book.add(violation{kind: shadowFailed, detail: fmt.Sprintf("it compared none of %d pods", report.Counts.Bound)})
	}
	s.shadowed = fmt.Sprintf("the shadow compared %d of %d pods since it was last killed", report.Counts.Compared, report.Counts.Bound)
}
