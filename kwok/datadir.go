package kwok

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"gnnsched/internal/exit"
	"gnnsched/internal/files"
	"gnnsched/kwok/nodepool"
)

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
