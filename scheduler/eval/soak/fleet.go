package soak

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"k8s.io/client-go/rest"

	"gnnsched/gnn/checkpoint"
	"gnnsched/internal/exit"
)

// fleet are the programs of a run and their files.
type fleet struct {
	config Config
	dir    string

	cluster    *process
	schedulers []*process // all members
	defrag     *process
	ports      []int // of the schedulers' metrics
	metrics    *http.Client
	token      string
}

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
	text, err := poolFile(c.Nodes)
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
		if pause(ctx, 250*time.Millisecond); ctx.Err() != nil {
			return fmt.Errorf("the cluster was not ready: %w; its output is in %s", context.Cause(ctx), f.cluster.output)
		}
	}
	return nil
}

// socket returns the path of the socket of the cluster's etcd.
func (f *fleet) socket() (string, error) {
	path := filepath.Join(f.folder(), "run", "etcd.sock")
	if _, err := os.Stat(path); err != nil {
		return "", exit.New(exit.Usage, fmt.Errorf("find the cluster's etcd: %w", err),
			"paths of sockets are limited: choose a shorter folder with TMPDIR")
	}
	return path, nil
}

// prepareSchedulers writes the schedulers' configuration. The cluster must run.
func (f *fleet) prepareSchedulers(c *rest.Config) error {
	f.token, f.defrag = c.BearerToken, f.mover()
	members, err := f.members()
	if err != nil {
		return err
	}
	for _, m := range members {
		if err := f.prepare(m); err != nil {
			return err
		}
	}
	return nil
}

// The ports that freePort chooses from. They lie below the systems' range for outgoing connections, because such a connection could take
// the port of a process that is being restarted.
const firstPort, ports = 20_000, 10_000

// freePort returns an unused TCP port of the loopback interface.
func freePort() (int, error) {
	for range 100 {
		port := firstPort + rand.IntN(ports)
		if l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port)); err == nil {
			return port, l.Close()
		}
	}
	return 0, fmt.Errorf("find a free port: none of 100 from %d to %d is free", firstPort, firstPort+ports-1)
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
	p := f.schedulers[i]
	pid := p.pid()
	if _, err := f.read(ctx, i, "/debug/pprof/heap?gc=1"); err != nil {
		return sample{}, false
	}
	text, err := f.read(ctx, i, "/metrics")
	heap := heapOf(text)
	ok := err == nil && heap > 0 && pid != 0 && pid == p.pid()
	return sample{pid: pid, name: p.name, at: time.Now(), role: roleOf(text), heap: heap}, ok
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

// swapCheckpoint replaces the checkpoint of two profiles by another network of the same architecture, and one time in two by a bad file
// first.
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
	if how := r.IntN(2 * len(damages)); how < len(damages) {
		bad, err := damages[how](r)
		if err != nil {
			return err
		}
		if err := os.WriteFile(path, bad, 0o600); err != nil {
			return err
		}
		pause(ctx, time.Second)
	}
	return k.Save(path)
}

// damages make checkpoints that no scheduler may load: a truncated one, one with a weight that is not a number, and one with absurd
// weights.
var damages = []func(*rand.Rand) ([]byte, error){
	func(r *rand.Rand) ([]byte, error) {
		text, err := spoilt(1)
		return text[:r.IntN(len(text))], err
	},
	func(*rand.Rand) ([]byte, error) {
		text, err := spoilt(1)
		return append(text[:len(text)-4], 0xff, 0xff, 0xff, 0xff), err
	},
	func(*rand.Rand) ([]byte, error) { return spoilt(math.MaxFloat32) },
}

// spoilt returns the file of the shipped network with weights that are all v.
func spoilt(v float32) ([]byte, error) {
	k, err := checkpoint.Shipped(swapped)
	if err != nil {
		return nil, err
	}
	for _, w := range k.Weights {
		for i := range w.Data {
			w.Data[i] = v
		}
	}
	var out bytes.Buffer
	err = k.Write(&out)
	return out.Bytes(), err
}
