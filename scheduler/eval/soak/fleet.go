package soak

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"gnnsched/gnn/checkpoint"
	"gnnsched/internal/exit"
	"gnnsched/internal/kubeconfig"
	"gnnsched/scheduler/plugin"
	"gnnsched/scheduler/server"
)

// fleet are the programs of a run and their files.
type fleet struct {
	config Config
	dir    string

	cluster    *process
	schedulers []*process
	ports      []int // of the schedulers' metrics
	metrics    *http.Client
	token      string
}

// Names of profiles that have files of their own.
const (
	swapped  = "gnn" // its checkpoint is swapped
	learning = "dqn" // it learns, if there is a trainer
)

// profileNames are the profiles of the schedulers. Pods are spread over them.
var profileNames = []string{swapped, learning, "acgnn", "gpu-gnn", "fgd", server.DefaultProfile}

func (f *fleet) file(name string) string { return filepath.Join(f.dir, name) }

// folder is the cluster's data directory.
func (f *fleet) folder() string { return f.file("cluster") }

// checkpointFile returns the path of a profile's checkpoint.
func (f *fleet) checkpointFile(profile string) string { return f.file(profile + ".safetensors") }

func newFleet(c Config, dir string) (*fleet, error) {
	f := &fleet{config: c, dir: dir, metrics: &http.Client{
		Timeout:   20 * time.Second,
		Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}, // our own child's certificate is self-signed
	}}
	file := poolFile{}
	for _, p := range pools(c.Nodes) {
		file.Pools = append(file.Pools, p.entry())
	}
	text, err := yaml.Marshal(file)
	if err != nil {
		return nil, fmt.Errorf("encode the node pools: %w", err)
	}
	if err := os.WriteFile(f.file("pools.yaml"), text, 0o600); err != nil {
		return nil, err
	}
	f.cluster = &process{name: "kwokcluster", output: f.file("cluster.log"), command: func() *exec.Cmd {
		return exec.Command(c.Kwokcluster, "up", "--dir", f.folder(), "--pools", f.file("pools.yaml"), "--log-level", "warn")
	}}
	for _, name := range []string{swapped, learning} {
		k, err := checkpoint.Shipped(name)
		if err != nil {
			return nil, err
		}
		if err := k.Save(f.checkpointFile(name)); err != nil {
			return nil, err
		}
	}
	return f, nil
}

// startWithin is the time in which the cluster must be ready.
const startWithin = 3 * time.Minute

// waitReady waits until the cluster's nodes are ready.
func (f *fleet) waitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startWithin)
	defer cancel()
	for exec.CommandContext(ctx, f.config.Kwokcluster, "status", "--dir", f.folder()).Run() != nil {
		select {
		case <-ctx.Done():
			return fmt.Errorf("the cluster was not ready: %w; its output is in %s", context.Cause(ctx), f.cluster.output)
		case <-time.After(250 * time.Millisecond):
		}
	}
	return nil
}

// socket returns the path of the socket of the cluster's etcd.
func (f *fleet) socket() (string, error) {
	path := filepath.Join(f.folder(), "run", "etcd.sock")
	if _, err := os.Stat(path); err != nil {
		return "", exit.New(exit.Usage, fmt.Errorf("find the cluster's etcd: %w", err), "paths of sockets are limited: choose a shorter folder with TMPDIR")
	}
	return path, nil
}

// prepareSchedulers writes the schedulers' configuration. The cluster must run.
func (f *fleet) prepareSchedulers(c *rest.Config) error {
	f.token = c.BearerToken
	config := server.Config{
		Kubeconfig: kubeconfig.SimulatedKubeconfig(f.folder()), QPS: kubeconfig.UnlimitedQPS, LeaderElect: f.config.Schedulers > 1,
		Profiling: true, // to ask for garbage collections
	}
	for _, name := range profileNames {
		p, err := server.ProfileNamed(name)
		if err != nil {
			return err
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
		config.Profiles = append(config.Profiles, p)
	}
	text, err := config.YAML()
	if err != nil {
		return err
	}
	if err := os.WriteFile(f.file("scheduler.yaml"), text, 0o600); err != nil {
		return err
	}
	for i := range f.config.Schedulers {
		port, err := freePort()
		if err != nil {
			return err
		}
		name := fmt.Sprintf("scheduler-%d", i)
		f.ports = append(f.ports, port)
		f.schedulers = append(f.schedulers, &process{name: name, output: f.file(name + ".log"), pause: 200 * time.Millisecond, command: func() *exec.Cmd {
			c := exec.Command(f.config.Scheduler, "rungnn", "--config", f.file("scheduler.yaml"), "--port", strconv.Itoa(port), "--log-dir", "", "--log-level", "warn")
			c.Env = append(os.Environ(), fmt.Sprintf("GODEBUG=memprofilerate=%d", profileRate))
			return c
		}})
	}
	return nil
}

// freePort returns a TCP port of the loopback interface that nobody listens on.
func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, fmt.Errorf("find a free port: %w", err)
	}
	return l.Addr().(*net.TCPAddr).Port, l.Close()
}

// trainers returns the IDs of the running trainers, which the schedulers started.
func (f *fleet) trainers() (pids []int) {
	if f.config.Trainer == "" {
		return nil
	}
	for _, s := range f.schedulers {
		if pid := childOf(s.pid(), filepath.Base(f.config.Trainer)); pid != 0 {
			pids = append(pids, pid)
		}
	}
	return pids
}

// sample makes the i-th scheduler collect its garbage and reads its memory. It reports false if the scheduler does not answer.
func (f *fleet) sample(ctx context.Context, i int) (sample, bool) {
	pid := f.schedulers[i].pid()
	in, err := f.read(ctx, i, "/debug/pprof/heap?gc=1")
	if err != nil {
		return sample{}, false
	}
	all, held, err := inUse([]byte(in))
	if err != nil || f.keepProfile(pid, in) != nil {
		return sample{}, false
	}
	text, err := f.read(ctx, i, "/metrics")
	if err != nil || pid == 0 || pid != f.schedulers[i].pid() {
		return sample{}, false
	}
	return sample{pid: pid, at: time.Now(), role: roleOf(text), heap: all - held, held: held, rss: residentBytes(pid)}, true
}

// keepProfile writes a heap profile beside the logs. Each process has two: its first and its latest.
func (f *fleet) keepProfile(pid int, heap string) error {
	path := f.file(fmt.Sprintf("heap-%d-first.pprof", pid))
	if _, err := os.Stat(path); err == nil {
		path = f.file(fmt.Sprintf("heap-%d-last.pprof", pid))
	}
	return os.WriteFile(path, []byte(heap), 0o600)
}

// read reads a path of the i-th scheduler's endpoint.
func (f *fleet) read(ctx context.Context, i int, path string) (string, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("https://127.0.0.1:%d%s", f.ports[i], path), nil)
	if err != nil {
		return "", err
	}
	r.Header.Set("Authorization", "Bearer "+f.token)
	answer, err := f.metrics.Do(r)
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	b, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode != http.StatusOK {
		err = errors.New(answer.Status)
	}
	return string(b), err
}

// swapCheckpoint replaces the checkpoint of one profile by another network of the same architecture, and
// one time in four by a damaged file first.
func (f *fleet) swapCheckpoint(ctx context.Context, r *rand.Rand) error {
	k, err := checkpoint.Shipped(swapped)
	if err != nil {
		return err
	}
	if r.IntN(2) == 0 {
		objective := k.Manifest.Objective
		k = checkpoint.Random(k.Manifest.Architecture, r)
		k.Manifest.Objective = objective
	}
	path := f.checkpointFile(swapped)
	if r.IntN(4) == 0 {
		var damaged strings.Builder
		if err := k.Write(&damaged); err != nil {
			return err
		}
		if err := os.WriteFile(path, []byte(damaged.String())[:damaged.Len()/2], 0o600); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
		case <-time.After(time.Second):
		}
	}
	return k.Save(path)
}
