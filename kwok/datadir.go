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
	"gnnsched/kwok/nodepool"
)

// The files of a data directory.
const (
	fileMarker     = "made-by-kwokcluster" // without it the directory is not ours
	fileLock       = "lock"                // locked while a cluster runs
	fileRun        = "run.json"            // who runs it
	fileSettings   = "settings.json"       // what holds over restarts
	filePools      = "pools.json"          // the node pools of last time
	fileKubeconfig = "kubeconfig"
	dirPKI         = "pki"
	dirEtcd        = "etcd"
	dirSockets     = "run" // the sockets are open to whoever may enter it
	socketClient   = "etcd.sock"
	socketPeer     = "etcd-peer.sock"
	// FileLog is where kwokcluster logs to; Purge deletes it.
	FileLog = "kwokcluster.log"

	fileCACert            = dirPKI + "/ca.crt"
	fileCAKey             = dirPKI + "/ca.key"
	fileServerCert        = dirPKI + "/apiserver.crt"
	fileServerKey         = dirPKI + "/apiserver.key"
	fileServiceAccountKey = dirPKI + "/service-account.key"
	fileTokens            = dirPKI + "/tokens.csv"
	fileLocalKubeconfig   = dirPKI + "/local.kubeconfig" // with the address that works here, whatever is advertised
)

const markerText = "kwokcluster made this directory. `kwokcluster down --purge` deletes it and everything in it.\n"

// dataDir is a cluster's directory, locked against a second cluster.
type dataDir struct {
	path string
	lock *os.File
}

// runFile says who runs the cluster of a directory. It is believed only while the lock is
// held: a process that dies leaves it behind.
type runFile struct {
	PID        int       `json:"pid"`
	Start      string    `json:"start"` // of the process, as the kernel tells it; a pid alone may be a stranger's
	StartedAt  time.Time `json:"startedAt"`
	Address    string    `json:"address"`    // URL on this machine
	Advertised string    `json:"advertised"` // URL that others are told
	Ready      bool      `json:"ready"`      // the start is over
	NoWait     bool      `json:"noWait"`     // and it did not wait for the nodes
}

// settings hold over restarts.
type settings struct {
	CreatedAt time.Time `json:"createdAt"`
	Port      int       `json:"port"`
}

func (d *dataDir) file(name string) string { return filepath.Join(d.path, name) }
func (d *dataDir) kubeconfig() string      { return d.file(fileKubeconfig) }
func (d *dataDir) localKubeconfig() string { return d.file(fileLocalKubeconfig) }

// MakeDir makes dir a cluster's data directory, if it is not one yet, so that other things,
// such as a log, can be put there before Start.
func MakeDir(dir string) error {
	path, err := filepath.Abs(dir)
	if err != nil {
		return fmt.Errorf("find the data directory: %w", err)
	}
	return claim(path)
}

// openDir makes or opens the directory and locks it.
func openDir(path string) (*dataDir, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("find the data directory: %w", err)
	}
	if err := claim(path); err != nil {
		return nil, err
	}
	lock, err := lockDir(path)
	if err != nil {
		return nil, err
	}
	return &dataDir{path: path, lock: lock}, nil
}

// claim makes sure that path is a directory of ours, marking it as such if it is new or empty.
func claim(path string) error {
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
		return exit.New(exit.Usage, fmt.Errorf("the directory %s holds other things, %s for one, and was not made by kwokcluster", path, entries[0].Name()),
			"choose an empty or a new directory with --dir")
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

// lockDir takes the lock of a directory, which the kernel gives back when the process ends
// in whatever way.
func lockDir(path string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(path, fileLock), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, dirError("open the lock of the data directory", err)
	}
	// Somebody who only looks holds it for a moment, see lockHeld.
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
	return nil, exit.New(exit.Usage, fmt.Errorf("%w: %s runs it in %s", ErrRunning, who, path),
		"look at it with `kwokcluster status`, stop it with `kwokcluster down`, or choose another directory with --dir")
}

// ErrRunning is the reason of the error that Start returns when the cluster of the
// directory is running already.
var ErrRunning = errors.New("the cluster is already running")

// close says that nobody runs the cluster any more.
func (d *dataDir) close() error {
	err := os.Remove(d.file(fileRun))
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return errors.Join(err, d.lock.Close())
}

func (d *dataDir) writeRun(r runFile) error { return d.writeJSON(fileRun, r) }

// markReady notes that the start is over.
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

// settings returns what holds over restarts, made up if this is the first start.
func (d *dataDir) settings() (settings, error) {
	var s settings
	err := readJSON(d.file(fileSettings), &s)
	if errors.Is(err, fs.ErrNotExist) {
		return settings{CreatedAt: time.Now().Truncate(time.Second)}, nil
	}
	return s, err
}

func (d *dataDir) saveSettings(s settings) error { return d.writeJSON(fileSettings, s) }

// pools returns the pools of last time, or the default ones.
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

// tmpPrefix begins the names of files that are being written.
const tmpPrefix = ".kwokcluster-tmp-"

// writeFile replaces a file in one step, so that nobody ever reads half of it.
func writeFile(path string, b []byte, mode os.FileMode) error {
	tmp, err := os.CreateTemp(filepath.Dir(path), tmpPrefix)
	if err != nil {
		return err
	}
	_, err = tmp.Write(b)
	err = errors.Join(err, tmp.Chmod(mode), tmp.Close())
	if err == nil {
		err = os.Rename(tmp.Name(), path)
	}
	if err != nil {
		_ = os.Remove(tmp.Name())
	}
	return err
}

// write replaces a file of the data directory.
func (d *dataDir) write(name string, b []byte) error {
	if err := writeFile(d.file(name), b, 0o600); err != nil {
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
		return exit.New(exit.Internal, fmt.Errorf("read %s: %w", path, err), "the file is damaged; delete it and start again")
	}
	return nil
}

// dirError is an error about the data directory, which the user chose.
func dirError(what string, err error) error {
	return exit.New(exit.Usage, fmt.Errorf("%s: %w", what, err), "choose a directory that you can write to with --dir")
}
