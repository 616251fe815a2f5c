package kwok

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"gnnsched/internal/exit"
	"gnnsched/internal/files"
)

// Phase is the state of a cluster in one word.
type Phase string

// The phases of a cluster.
const (
	Absent    Phase = "absent"    // the directory has no cluster
	Stopped   Phase = "stopped"   // no process runs the cluster
	Starting  Phase = "starting"  // a process is starting it, or did not wait for nodes that are not ready yet
	Ready     Phase = "ready"     // the API server answers, and all nodes are or were ready
	Unhealthy Phase = "unhealthy" // a process runs it, but the API server does not answer
)

// State describes a cluster as other processes see it.
type State struct {
	Phase      Phase     `json:"phase"`
	Dir        string    `json:"dir"`
	PID        int       `json:"pid,omitempty"`
	Address    string    `json:"address,omitempty"`    // advertised URL
	Kubeconfig string    `json:"kubeconfig,omitempty"` // file
	Version    string    `json:"version,omitempty"`    // of the API server
	Nodes      NodeCount `json:"nodes"`
	CreatedAt  time.Time `json:"createdAt,omitzero"` // of the data
	StartedAt  time.Time `json:"startedAt,omitzero"` // of the process
	Reason     string    `json:"reason,omitempty"`   // why the phase is Unhealthy
}

// inspectTimeout limits the requests to an API server that may not answer.
const inspectTimeout = 10 * time.Second

// Inspect returns the state of the cluster in dir.
func Inspect(ctx context.Context, dir string) (State, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return State{}, fmt.Errorf("find the data directory: %w", err)
	}
	s := State{Phase: Absent, Dir: dir}
	if _, err := os.Stat(filepath.Join(dir, fileMarker)); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return s, nil
		}
		return s, dirError("look into the data directory", err)
	}
	d := &dataDir{path: dir}
	saved, err := d.settings()
	if err != nil {
		return s, err
	}
	s.Phase, s.CreatedAt = Stopped, saved.CreatedAt
	if _, err := os.Stat(d.kubeconfig()); err == nil {
		s.Kubeconfig = d.kubeconfig()
	}
	held, err := lockHeld(dir)
	if err != nil || !held {
		return s, err
	}
	s.Phase = Starting
	run, err := readRun(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return s, nil // the process has just started and not written it yet
	}
	if err != nil {
		return s, err
	}
	s.PID = run.PID
	s.Address = run.Advertised
	s.StartedAt = run.StartedAt
	if run.Ready {
		s.askServer(ctx, d)
	}
	if run.NoWait && s.Phase == Ready && s.Nodes.Ready < s.Nodes.Total {
		s.Phase = Starting
	}
	return s, nil
}

// askServer sets the fields that only the API server knows.
func (s *State) askServer(ctx context.Context, d *dataDir) {
	ctx, cancel := context.WithTimeout(ctx, inspectTimeout)
	defer cancel()
	err := func() error {
		rc, err := clientcmd.BuildConfigFromFlags("", d.localKubeconfig())
		if err != nil {
			return err
		}
		rc.ContentType = "application/vnd.kubernetes.protobuf"
		rc.AcceptContentTypes = "application/vnd.kubernetes.protobuf,application/json"
		cs, err := kubernetes.NewForConfig(rc)
		if err != nil {
			return err
		}
		if err := ready(ctx, cs.RESTClient()); err != nil {
			return err
		}
		v, err := cs.Discovery().ServerVersion()
		if err != nil {
			return err
		}
		s.Version = v.GitVersion
		s.Nodes, err = countNodes(ctx, cs, "")
		return err
	}()
	s.Phase = Ready
	if err != nil {
		s.Phase, s.Reason = Unhealthy, err.Error()
	}
}

// lockHeld reports whether a process holds the lock of dir. It finds out by taking the lock for
// a moment, which is why lockDir tries several times.
func lockHeld(dir string) (bool, error) {
	f, err := os.Open(filepath.Join(dir, fileLock))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, dirError("open the lock of the data directory", err)
	}
	defer f.Close() //nolint:errcheck // closing releases the lock
	switch err := syscall.Flock(int(f.Fd()), syscall.LOCK_SH|syscall.LOCK_NB); {
	case err == nil:
		return false, nil
	case errors.Is(err, syscall.EWOULDBLOCK):
		return true, nil
	default:
		return false, dirError("check the lock of the data directory", err)
	}
}

// stopPoll is the pause between Terminate's checks of the lock.
const stopPoll = 50 * time.Millisecond

// Terminate stops the cluster that another process runs in dir and waits until it has ended. If
// that takes longer than timeout, it kills the process. It returns false if no process runs the
// cluster. It signals only the process that holds the directory's lock and wrote its pid there.
func Terminate(ctx context.Context, dir string, timeout time.Duration) (bool, error) {
	held, err := lockHeld(dir)
	if err != nil || !held {
		return false, err
	}
	p, err := runner(dir)
	if err != nil {
		return false, err
	}
	defer p.Release() //nolint:errcheck // it only frees a descriptor
	if err := p.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return false, fmt.Errorf("stop process %d: %w", p.Pid, err)
	}
	kill := time.NewTimer(timeout)
	defer kill.Stop()
	tick := time.NewTicker(stopPoll)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return true, context.Cause(ctx)
		case <-kill.C:
			if err := p.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
				return true, fmt.Errorf("kill process %d, which did not stop in %v: %w", p.Pid, timeout, err)
			}
		case <-tick.C:
			if held, err := lockHeld(dir); err != nil || !held {
				return true, err
			}
		}
	}
}

// runner returns the process that runs the cluster in dir. The caller has checked that the lock is
// held.
func runner(dir string) (*os.Process, error) {
	run, err := readRun(dir)
	if err != nil {
		return nil, fmt.Errorf("find the process that runs the cluster: %w", err)
	}
	// Open the process before checking it: the handle keeps referring to the same process, even
	// if the pid is reused later.
	p, err := os.FindProcess(run.PID)
	if err != nil {
		return nil, fmt.Errorf("find process %d: %w", run.PID, err)
	}
	if now := processStart(run.PID); now != run.Start {
		_ = p.Release()
		return nil, exit.New(exit.Internal, fmt.Errorf("the cluster is running, but not in process %d of this machine", run.PID),
			"it probably runs in a container or as another user; stop it there")
	}
	return p, nil
}

// oldLog reports whether a file is a log that the command kwokcluster began and that became full.
func oldLog(name string) bool {
	base, ext := strings.TrimSuffix(fileLog, ".log"), ".log"
	stamp, found := strings.CutPrefix(strings.TrimSuffix(name, ext), base+"-")
	_, err := time.Parse("2006-01-02T15-04-05.000", stamp)
	return found && strings.HasSuffix(name, ext) && err == nil
}

// Purge deletes the files of a cluster in dir, and dir itself if nothing else is in it. It returns the names of other files. It returns an
// error if this package did not make dir, or if the cluster is running.
func Purge(dir string) (left []string, err error) {
	if _, err := os.Stat(filepath.Join(dir, fileMarker)); err != nil {
		if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
			return nil, nil
		}
		return nil, exit.New(exit.Usage, fmt.Errorf("the directory %s was not made by kwokcluster, so it is not deleted", dir),
			"choose the right directory with --dir")
	}
	lock, err := lockDir(dir)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	for _, name := range []string{dirEtcd, dirPKI, fileRun, fileSettings, filePools, fileKubeconfig, fileLog, fileOutput, dirSockets} {
		if err := os.RemoveAll(filepath.Join(dir, name)); err != nil {
			return nil, fmt.Errorf("delete the cluster's data: %w", err)
		}
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("delete the cluster's data: %w", err)
	}
	for _, e := range entries {
		switch n := e.Name(); {
		case n == fileMarker || n == fileLock:
		case files.Unfinished(n), oldLog(n): // from a process that was killed; from a log that was full
			_ = os.Remove(filepath.Join(dir, n))
		default:
			left = append(left, n)
		}
	}
	if len(left) > 0 {
		return left, nil // the marker stays, so that a new cluster can use the directory
	}
	for _, name := range []string{fileLock, fileMarker} {
		if err := os.Remove(filepath.Join(dir, name)); err != nil {
			return nil, fmt.Errorf("delete the cluster's data: %w", err)
		}
	}
	// This fails for a mount point; leaving an empty directory is fine.
	_ = os.Remove(dir)
	return nil, nil
}
