package workers

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/gob"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/cpu"
)

// child is a process that computes units one after another. It is started when a unit needs it.
type child struct {
	command []string
	cmd     *exec.Cmd // nil: none
	in      *gob.Encoder
	out     *gob.Decoder
	pipe    io.Closer
	last    *tail
}

// answer holds the data of a unit, or why it failed.
type answer struct {
	Data   []byte
	Failed string
}

// errCrash says that a unit ended its process.
var errCrash = errors.New("the process ended")

// compute sends a unit to the child and waits for its answer. When ctx ends, the child is killed.
func (c *child) compute(ctx context.Context, u Unit) ([]byte, error) {
	if c.cmd == nil {
		if err := c.start(); err != nil {
			return nil, fmt.Errorf("%w: %w", errAgain, err)
		}
	}
	running := c.cmd.Process
	defer context.AfterFunc(ctx, func() { _ = running.Kill() })()
	var a answer
	err := c.in.Encode(u)
	if err == nil {
		err = c.out.Decode(&a)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w: %s (%v)", errCrash, c.stop(), c.last, err)
	}
	if a.Failed != "" {
		return nil, errors.New(a.Failed)
	}
	return a.Data, nil
}

func (c *child) start() error {
	cmd := exec.Command(c.command[0], c.command[1:]...)
	c.last = &tail{}
	cmd.Stderr = c.last
	cmd.Env = append(os.Environ(), "TMPDIR="+c.command[len(c.command)-1]) // what a killed child leaves is in the worker's folder
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}                 // Ctrl-C is the worker's
	in, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	c.cmd, c.in, c.out, c.pipe = cmd, gob.NewEncoder(in), gob.NewDecoder(out), in
	return nil
}

// stop ends the child, and returns how it ended.
func (c *child) stop() error {
	if c.cmd == nil {
		return nil
	}
	c.pipe.Close() // it ends by itself
	running := c.cmd.Process
	defer time.AfterFunc(5*time.Second, func() { _ = running.Kill() }).Stop()
	err := c.cmd.Wait()
	c.cmd = nil
	if err == nil {
		err = errors.New("without a failure")
	}
	return err
}

// tail keeps the last lines that a child wrote.
type tail struct{ text []byte }

func (t *tail) Write(p []byte) (int, error) {
	t.text = append(t.text, p...)
	t.text = t.text[max(0, len(t.text)-2000):]
	return len(p), nil
}

// String returns the line on which Go says why a process ended, or the last one.
func (t *tail) String() string {
	lines := bytes.Split(bytes.TrimSpace(t.text), []byte("\n"))
	for _, l := range lines {
		if bytes.HasPrefix(l, []byte("fatal error:")) || bytes.HasPrefix(l, []byte("panic:")) {
			return string(l)
		}
	}
	return string(lines[len(lines)-1])
}

// Child computes the units that come in, until there are no more. dir has their data.
func Child(ctx context.Context, dir string, handlers map[string]Handler, in io.Reader, out io.Writer) error {
	from, to := gob.NewDecoder(in), gob.NewEncoder(out)
	for {
		var u Unit
		if err := from.Decode(&u); err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
		var a answer
		data, err := handle(ctx, dir, handlers, u)
		if a.Data = data; err != nil {
			a = answer{Failed: err.Error()}
		}
		if err := to.Encode(a); err != nil {
			return err
		}
	}
}

// handle calls the handler of a unit. A panic is its failure.
func handle(ctx context.Context, dir string, handlers map[string]Handler, u Unit) (data []byte, err error) {
	h := handlers[u.Kind]
	if h == nil {
		return nil, fmt.Errorf("this program knows no units of the kind %q", u.Kind)
	}
	defer func() {
		if p := recover(); p != nil {
			fmt.Fprintf(os.Stderr, "%v\n%s", p, debug.Stack())
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	return h(ctx, u.Task, func(name string) (string, error) {
		if !slices.Contains(u.Blobs, name) {
			return "", fmt.Errorf("%q is none of the unit's data", name)
		}
		return filepath.Join(dir, name), nil
	})
}

// thisBuild identifies what this program computes: its bytes, since a version says nothing of changes that are not committed, and the
// architecture, which decides about the last digits. Workers get units of their own build only.
var thisBuild = sync.OnceValues(func() (b build, err error) {
	path, err := os.Executable()
	if err != nil {
		return b, err
	}
	f, err := os.Open(path)
	if err != nil {
		return b, err
	}
	defer f.Close() // it is only read
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return b, fmt.Errorf("read this program: %w", err)
	}
	processor := runtime.GOARCH
	if cpu.X86.HasAVX2 && cpu.X86.HasFMA { // networks sum in another order without it
		processor += "v3"
	}
	return build{hex.EncodeToString(h.Sum(nil)[:8]), processor}, nil
})

// build is a program and a kind of processor.
type build struct{ program, processor string }

// exact is the build of processes whose results are the same to the last bit, approximate that of processes of the same program.
func (b build) exact() string       { return b.program + "-" + b.processor }
func (b build) approximate() string { return b.program + "-approximate" }

// folderPrefix begins the names of workers' folders.
const folderPrefix = "gnnsched-work-"

// folder makes the folder of a worker and its children, and removes those of workers that were killed.
func folder() (dir string, remove func(), err error) {
	left, _ := filepath.Glob(filepath.Join(os.TempDir(), folderPrefix+"*")) // the pattern is valid
	for _, dir := range left {
		if lock, err := lockFolder(dir); err == nil {
			os.RemoveAll(dir)
			lock.Close()
		}
	}
	for range 3 { // another worker may take a new one for one that was left
		if dir, err = os.MkdirTemp("", folderPrefix); err != nil {
			return "", nil, err
		}
		var lock *os.File
		if lock, err = lockFolder(dir); err == nil {
			return dir, func() { os.RemoveAll(dir); lock.Close() }, nil
		}
	}
	return "", nil, err
}

// lockFolder locks a folder until the process ends or closes the file.
func lockFolder(dir string) (*os.File, error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	if err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err == nil {
		_, err = os.Stat(dir) // it may have been removed in between
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// fileCache keeps the data of units in a worker's folder, under their names.
type fileCache struct {
	dir string
	get func(ctx context.Context, name string) ([]byte, error)

	mu   sync.Mutex
	used map[string]int // by name: units at work
	idle []string       // what none of them needs, the latest last
}

// spare is how many files stay that no unit at work needs: a training run has other weights every second.
const spare = 256

// take fetches data that are not there, and keeps all of them until give.
func (s *fileCache) take(ctx context.Context, names []string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, name := range names {
		if err := s.fetch(ctx, name); err != nil {
			s.drop(names[:i])
			return err
		}
		if s.used[name]++; s.used[name] == 1 {
			s.idle = slices.DeleteFunc(s.idle, func(x string) bool { return x == name })
		}
	}
	return nil
}

func (s *fileCache) fetch(ctx context.Context, name string) error {
	path := filepath.Join(s.dir, name)
	if _, err := os.Stat(path); err == nil {
		return nil
	}
	data, err := s.get(ctx, name)
	if err != nil {
		return err
	}
	if err := os.WriteFile(path+".part", data, 0o600); err != nil {
		return err
	}
	return os.Rename(path+".part", path)
}

// give says that a unit needs its data no more.
func (s *fileCache) give(names []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.drop(names)
}

func (s *fileCache) drop(names []string) {
	for _, name := range names {
		if s.used[name]--; s.used[name] == 0 {
			delete(s.used, name)
			s.idle = append(s.idle, name)
		}
	}
	for ; len(s.idle) > spare; s.idle = s.idle[1:] {
		_ = os.Remove(filepath.Join(s.dir, s.idle[0]))
	}
}
