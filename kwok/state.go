package kwok

import (
	"context"
	"encoding/json"
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
	"gnnsched/kwok/nodepool"
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

// The files of a data directory.
const (
	fileMarker     = "made-by-kwokcluster" // marks directories that this package made
	fileLock       = "lock"                // locked while a cluster runs
	fileRun        = "run.json"            // a runFile
	fileSettings   = "settings.json"       // settings
	filePools      = "pools.json"          // the node pools of the previous start
	fileKubeconfig = "kubeconfig"
	dirPKI         = "pki"
	dirEtcd        = "etcd"
	dirSockets     = "run" // its permissions protect the sockets
	socketClient   = "etcd.sock"
	socketPeer     = "etcd-peer.sock"
	fileLog        = "kwokcluster.log" // written by the command kwokcluster
	fileOutput     = "kwokcluster.err" // written by the command kwokcluster in the background

	fileCACert            = dirPKI + "/ca.crt"
	fileCAKey             = dirPKI + "/ca.key"
	fileServerCert        = dirPKI + "/apiserver.crt"
	fileServerKey         = dirPKI + "/apiserver.key"
	fileServiceAccountKey = dirPKI + "/service-account.key"
	fileTokens            = dirPKI + "/tokens.csv"
	fileLocalKubeconfig   = dirPKI + "/local.kubeconfig" // with the local address
)

const markerText = "kwokcluster made this directory. `kwokcluster down --purge` deletes it and everything in it.\n"

// dataDir is a cluster's directory. This process holds its lock.
type dataDir struct {
	path string
	lock *os.File
}

// runFile describes the process that runs a directory's cluster. It is valid only while the lock
// is held, because a process that is killed leaves it behind.
type runFile struct {
	PID        int       `json:"pid"`
	Start      string    `json:"start"` // see processStart; detects that the pid was reused
	StartedAt  time.Time `json:"startedAt"`
	Address    string    `json:"address"`    // URL on this machine
	Advertised string    `json:"advertised"` // URL with the advertised host
	Ready      bool      `json:"ready"`      // Start has succeeded
	NoWait     bool      `json:"noWait"`     // without waiting for the nodes
}

// settings are kept for the next start.
type settings struct {
	CreatedAt time.Time `json:"createdAt"`
	Port      int       `json:"port"`
}

func (d *dataDir) file(name string) string { return filepath.Join(d.path, name) }
func (d *dataDir) kubeconfig() string      { return d.file(fileKubeconfig) }
func (d *dataDir) localKubeconfig() string { return d.file(fileLocalKubeconfig) }

// MakeDir makes dir a cluster's data directory if it is not one yet. Call it to put other files
// there, such as a log, before Start.
func MakeDir(dir string) error {
	path, err := filepath.Abs(dir)
	if err != nil {
		return fmt.Errorf("find the data directory: %w", err)
	}
	return markDir(path)
}

// openDir opens the directory, making it if necessary, and locks it.
func openDir(path string) (*dataDir, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("find the data directory: %w", err)
	}
	if err := markDir(path); err != nil {
		return nil, err
	}
	lock, err := lockDir(path)
	if err != nil {
		return nil, err
	}
	return &dataDir{path: path, lock: lock}, nil
}

// markDir checks that path has the marker. It adds the marker to a new or empty directory.
func markDir(path string) error {
	if _, err := os.Stat(filepath.Join(path, fileMarker)); err == nil {
		return nil
	}
	if err := os.MkdirAll(path, 0o700); err != nil {
		return dirError("make the data directory", err)
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return dirError("read the data directory", err)
	}
	if len(entries) > 0 {
		return exit.New(exit.Usage, fmt.Errorf("the directory %s is not empty (it has %s) and was not made by kwokcluster", path,
			entries[0].Name()),
			"choose a new or an empty directory with --dir")
	}
	if err := os.WriteFile(filepath.Join(path, fileMarker), []byte(markerText), 0o600); err != nil {
		return dirError("write to the data directory", err)
	}
	return nil
}

const (
	lockTries = 10
	lockPause = 20 * time.Millisecond
)

// lockDir takes the lock of a directory. The kernel releases it when the process ends, even if it
// is killed.
func lockDir(path string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(path, fileLock), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, dirError("open the lock of the data directory", err)
	}
	// lockHeld in another process may hold the lock for a moment.
	for try := 0; ; try++ {
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return f, nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) || try == lockTries {
			break
		}
		time.Sleep(lockPause)
	}
	_ = f.Close()
	if !errors.Is(err, syscall.EWOULDBLOCK) {
		return nil, dirError("lock the data directory", err)
	}
	who := "another process"
	if r, err := readRun(path); err == nil {
		who = fmt.Sprintf("process %d", r.PID)
	}
	return nil, exit.New(exit.Usage, fmt.Errorf("%w: %s runs it in %s", errRunning, who, path),
		fmt.Sprintf("stop it with `kwokcluster down --dir %s`, or choose another directory with --dir", path))
}

// errRunning is wrapped in Start's error if the directory's cluster is already running.
var errRunning = errors.New("the cluster is already running")

// close removes the run file and releases the lock.
func (d *dataDir) close() error {
	err := os.Remove(d.file(fileRun))
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return errors.Join(err, d.lock.Close())
}

func (d *dataDir) writeRun(r runFile) error { return d.writeJSON(fileRun, r) }

// markReady sets Ready in the run file.
func (d *dataDir) markReady() error {
	r, err := readRun(d.path)
	if err != nil {
		return err
	}
	r.Ready = true
	return d.writeRun(r)
}

func readRun(path string) (runFile, error) {
	var r runFile
	return r, readJSON(filepath.Join(path, fileRun), &r)
}

// settings returns the saved settings, or new ones at the first start.
func (d *dataDir) settings() (settings, error) {
	var s settings
	err := readJSON(d.file(fileSettings), &s)
	if errors.Is(err, fs.ErrNotExist) {
		return settings{CreatedAt: time.Now().Truncate(time.Second)}, nil
	}
	return s, err
}

func (d *dataDir) saveSettings(s settings) error { return d.writeJSON(fileSettings, s) }

// pools returns the pools of the previous start, or the default ones at the first start.
func (d *dataDir) pools() ([]nodepool.Pool, error) {
	var p []nodepool.Pool
	err := readJSON(d.file(filePools), &p)
	if errors.Is(err, fs.ErrNotExist) {
		return nodepool.Default(10), nil
	}
	if err == nil {
		err = nodepool.Validate(p)
	}
	return p, err
}

func (d *dataDir) savePools(p []nodepool.Pool) error { return d.writeJSON(filePools, p) }

// write replaces a file of the data directory.
func (d *dataDir) write(name string, b []byte) error {
	if err := files.Write(d.file(name), b, 0o600); err != nil {
		return dirError("write to the data directory", err)
	}
	return nil
}

func (d *dataDir) writeJSON(name string, v any) error {
	b, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	return d.write(name, append(b, '\n'))
}

func readJSON(path string, v any) error {
	b, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(b, v); err != nil {
		return exit.New(exit.Internal, fmt.Errorf("read %s: %w", path, err), "the file is damaged; delete it and try again")
	}
	return nil
}

// dirError returns an error about the data directory. action names the step that failed: "make the data
// directory".
func dirError(action string, err error) error {
	return exit.New(exit.Usage, fmt.Errorf("%s: %w", action, err), "choose a directory that you can write to with --dir")
}
