package live

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"gnnsched/gnn/checkpoint"
	"gnnsched/internal/kubeconfig"
	"gnnsched/scheduler/eval/testbed"
	"gnnsched/scheduler/plugin"
	"gnnsched/scheduler/plugin/canary"
	"gnnsched/scheduler/server"
)

// program is a child process that is started again whenever it ends.
type program struct {
	name, path, log string
	args            []string
	pause           time.Duration  // before it is started again
	metrics         rest.Interface // of a scheduler

	mu      sync.Mutex
	process *testbed.Process // nil if none runs
	told    bool             // the soak ended it
}

// run keeps the program running until ctx ends, and then stops it. onEnd gets the cause when a process ended although the soak did not
// end it.
func (p *program) run(ctx context.Context, onEnd func(error)) error {
	for ctx.Err() == nil {
		process, err := testbed.Start(p.name, p.log, p.path, p.args...)
		if err != nil {
			return err
		}
		p.set(process)
		select {
		case <-process.Done():
		case <-ctx.Done():
			_ = process.Stop() // kills it if it does not end
			return nil
		}
		if told := p.set(nil); !told {
			onEnd(process.Err())
		}
		pause(ctx, p.pause)
	}
	return nil
}

// set sets the running process, and tells whether the soak ended the one before.
func (p *program) set(process *testbed.Process) (told bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	told = p.told
	p.process, p.told = process, false
	return told
}

// end sends a signal to the process and reports whether it ran.
func (p *program) end(s os.Signal) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.process == nil {
		return false
	}
	p.told = true
	return p.process.Signal(s) == nil
}

// pid returns the ID of the process, or 0 if none runs.
func (p *program) pid() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.process == nil {
		return 0
	}
	return p.process.PID()
}

// read reads a path of a scheduler's endpoint.
func (p *program) read(ctx context.Context, path string, parameters ...string) (string, error) {
	r := p.metrics.Get().AbsPath(path)
	for _, name := range parameters {
		r.Param(name, "1")
	}
	text, err := r.DoRaw(ctx)
	return string(text), err
}

// killTrainer kills the trainers that the schedulers started, and reports whether one ran.
func (s *soak) killTrainer() bool {
	var parents []string
	for _, p := range s.schedulers {
		if pid := p.pid(); pid != 0 {
			parents = append(parents, strconv.Itoa(pid))
		}
	}
	return len(parents) > 0 &&
		exec.Command("pkill", "-KILL", "-x", "-P", strings.Join(parents, ","), filepath.Base(s.config.Trainer)).Run() == nil
}

func (s *soak) file(name string) string { return filepath.Join(s.dir, name) }

// folder is the cluster's data directory.
func (s *soak) folder() string { return s.file("cluster") }

// checkpointFile returns the path of a profile's checkpoint.
func (s *soak) checkpointFile(profile string) string { return s.file(profile + ".safetensors") }

// prepareCluster writes the files of the cluster and the first checkpoints.
func (s *soak) prepareCluster() error {
	text, err := yaml.Marshal(map[string]any{"pools": pools(s.config.Nodes)})
	if err != nil {
		return fmt.Errorf("encode the node pools: %w", err)
	}
	if err := os.WriteFile(s.file("pools.yaml"), text, 0o600); err != nil {
		return err
	}
	s.cluster = &program{name: "kwokcluster", path: s.config.Kwokcluster, log: s.file("cluster.log"),
		args: []string{"up", "--dir", s.folder(), "--pools", s.file("pools.yaml"), "--log-level", "warn"}}
	for _, name := range []string{swapped, learning} {
		k, err := checkpoint.Shipped(name)
		if err != nil {
			return err
		}
		if err := k.Save(s.checkpointFile(name)); err != nil {
			return err
		}
	}
	return nil
}

// Names of profiles that are treated apart.
const (
	swapped  = "gnn"   // its checkpoint is swapped
	learning = "dqn"   // it learns, if there is a trainer
	sharing  = "share" // a network with one checkpoint places half of its pods
	rival    = "rival" // a scheduler with a lease of its own, which places pods at the same time as the leader
)

// profileNames are all profiles. Pods are spread over them. The schedulers with leader election have all but the last.
var profileNames = []string{swapped, learning, sharing, "acgnn", "gpu-gnn", "fgd", server.DefaultProfile, rival}

// shareLatency is the time in which attempts of the share must end. It is long, because the machine may be busy.
const shareLatency = 20 * time.Second

// profile returns the profile of a name.
func (s *soak) profile(name string) (server.Profile, error) {
	variant := cmp.Or(map[string]string{sharing: swapped, rival: "gpu-best-fit"}[name], name)
	p, err := server.ProfileNamed(variant)
	p.SchedulerName = name
	if variant == swapped || variant == learning {
		p.Checkpoint = s.checkpointFile(variant)
	}
	if name == sharing {
		p.Canary = &canary.Args{Of: 0.5, Latency: metav1.Duration{Duration: shareLatency}}
	}
	if name == learning && s.config.Trainer != "" {
		p.Learn = &plugin.LearnArgs{
			Trainer:     []string{s.config.Trainer, "--online", "--init", p.Checkpoint, "--guard-episodes", "2"},
			InitEpsilon: 0.1, EpsilonDecay: 0.999, FinalEpsilon: 0.01,
		}
	}
	return p, err
}

// leaders is the number of schedulers that elect a leader among them.
const leaders = 2

// prepareSchedulers prepares the schedulers with leader election, the rival, the shadow and the defragmenter. The cluster must run.
func (s *soak) prepareSchedulers(target *rest.Config) error {
	var profiles []server.Profile
	for _, name := range profileNames {
		p, err := s.profile(name)
		if err != nil {
			return err
		}
		profiles = append(profiles, p)
	}
	last := len(profiles) - 1
	config := server.Config{
		Kubeconfig: kubeconfig.SimulatedKubeconfig(s.folder()), QPS: kubeconfig.UnlimitedQPS,
		Profiling: true, // to ask for garbage collections
		Profiles:  profiles[:last], LeaderElect: true,
	}
	var err error
	for i := range leaders {
		err = errors.Join(err, s.addScheduler(fmt.Sprintf("scheduler-%d", i), config, target))
	}
	other := config
	other.Profiles, other.Lease = profiles[last:], "gnnsched-"+rival
	watching := config
	watching.Profiles, watching.LeaderElect = []server.Profile{profiles[0]}, false
	watching.Profiles[0].SchedulerName = server.DefaultProfile
	s.defrag = &program{name: "defrag", path: s.config.Scheduler, log: s.file("defrag.log"), pause: time.Second, args: []string{
		"defrag", "--kubeconfig", config.Kubeconfig, "--apply", "--every", "2s",
		"--objective", "balance,gpu-fragmentation", "--moves", "8", "--min-age", "0s", "--wait", "20s",
		"--log-dir", "", "--log-level", "warn", "--output", "json",
	}}
	return errors.Join(err, s.addScheduler(rival, other, target), s.addScheduler("shadow", watching, target,
		"--shadow", "--shadow-of", server.DefaultProfile, "--shadow-of", rival, "--shadow-report", s.file("shadow.json")))
}

// addScheduler writes a scheduler's configuration and adds its program, with more flags.
func (s *soak) addScheduler(name string, c server.Config, target *rest.Config, flags ...string) error {
	text, err := c.YAML()
	if err != nil {
		return err
	}
	file := s.file(name + ".yaml")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		return err
	}
	port, err := freePort()
	if err != nil {
		return err
	}
	endpoint, err := kubernetes.NewForConfig(&rest.Config{
		Host: fmt.Sprintf("https://127.0.0.1:%d", port), BearerToken: target.BearerToken, Timeout: 20 * time.Second,
		TLSClientConfig: rest.TLSClientConfig{Insecure: true}, // our own child's certificate is self-signed
	})
	if err != nil {
		return err
	}
	s.schedulers = append(s.schedulers, &program{
		name: name, path: s.config.Scheduler, log: s.file(name + ".log"), pause: 200 * time.Millisecond,
		metrics: endpoint.Discovery().RESTClient(),
		args:    append([]string{"rungnn", "--config", file, "--port", strconv.Itoa(port), "--log-dir", "", "--log-level", "warn"}, flags...),
	})
	return nil
}

// The ports that freePort chooses from. They lie below the systems' range for outgoing connections, because such a connection could take
// the port of a process that is being restarted.
const firstPort, ports = 20_000, 10_000

// freePort returns an unused TCP port of the loopback interface.
func freePort() (port int, err error) {
	for range 100 {
		port = firstPort + rand.IntN(ports)
		var l net.Listener
		if l, err = net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port)); err == nil {
			return port, l.Close()
		}
	}
	return 0, fmt.Errorf("find a free port: %w", err)
}

// swapCheckpoint replaces the checkpoint of two profiles by another network of the same architecture, and one time in two by a bad file
// first.
func (s *soak) swapCheckpoint(ctx context.Context, r *rand.Rand) error {
	k, err := checkpoint.Shipped(swapped)
	if err != nil {
		return err
	}
	path := s.checkpointFile(swapped)
	if r.IntN(2) == 0 {
		bad, err := damaged(r)
		if err != nil {
			return err
		}
		if err := os.WriteFile(path, bad, 0o600); err != nil {
			return err
		}
		pause(ctx, time.Second)
	}
	if r.IntN(2) == 0 {
		objective := k.Manifest.Objective
		k = checkpoint.Random(k.Manifest.Architecture, r)
		k.Manifest.Objective = objective
	}
	return k.Save(path)
}

// damaged returns a checkpoint that no scheduler may load: a truncated one, one with a weight that is not a number, or one with absurd
// weights.
func damaged(r *rand.Rand) ([]byte, error) {
	k, err := checkpoint.Shipped(swapped)
	if err != nil {
		return nil, err
	}
	how := r.IntN(3)
	for _, w := range k.Weights {
		for i := range w.Data {
			if how == 0 {
				w.Data[i] = math.MaxFloat32
			}
		}
	}
	var out bytes.Buffer
	err = k.Write(&out)
	text := out.Bytes()
	switch how {
	case 1:
		text = text[:r.IntN(len(text))]
	case 2:
		text = append(text[:len(text)-4], 0xff, 0xff, 0xff, 0xff)
	}
	return text, err
}

// judgeShadow reports a shadow that left no report behind. The shadow begins a new comparison after each kill.
func (s *soak) judgeShadow() {
	var report struct {
		Counts struct{ Bound, Compared int }
	}
	text, err := os.ReadFile(s.file("shadow.json"))
	if err == nil {
		err = json.Unmarshal(text, &report)
	}
	switch {
	case err != nil:
		s.book.add(about(shadowFailed, "it left no report: %v", err))
	case report.Counts.Bound > 0 && report.Counts.Compared == 0:
		s.book.add(about(shadowFailed, "it compared none of %d pods", report.Counts.Bound))
	}
	s.lines = append(s.lines,
		fmt.Sprintf("the shadow compared %d of %d pods since it was last killed", report.Counts.Compared, report.Counts.Bound))
}
