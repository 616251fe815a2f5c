package checkpoint

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"

	"gnnsched/internal/fatal"
)

// What is not a regular file is refused without reading it. A read of the pipe would block for good.
func TestLoadWantsRegularFile(t *testing.T) {
	dir := t.TempDir()
	pipe, socket := filepath.Join(dir, "pipe"), filepath.Join(dir, "socket")
	fatal.If(t, syscall.Mkfifo(pipe, 0o600))
	l, err := net.Listen("unix", socket)
	fatal.If(t, err)
	defer l.Close()
	link := filepath.Join(dir, "link")
	fatal.If(t, os.Symlink(pipe, link))
	for _, path := range []string{pipe, link, dir, "/dev/zero"} {
		if _, err := Load(path); !errors.Is(err, ErrFile) {
			t.Errorf("%s: %v, want %v", path, err, ErrFile)
		}
	}
	if _, err := Load(socket); err == nil {
		t.Error("a socket was accepted")
	}
	file := filepath.Join(dir, "file")
	fatal.If(t, random(MLP).Save(file))
	toFile := filepath.Join(dir, "to-file") // as Kubernetes mounts a ConfigMap
	fatal.If(t, os.Symlink(file, toFile))
	if _, err := Load(toFile); err != nil {
		t.Errorf("a link to a regular file: %v", err)
	}
}

// A huge file takes no memory, nor does a file whose end is not in its header.
func TestLoadTakesLittleMemory(t *testing.T) {
	dir := t.TempDir()
	for name, size := range map[string]int64{"larger than allowed": 5 << 30, "largest allowed": maxFile, "long tail": 100 << 20} {
		path := filepath.Join(dir, name)
		if name == "long tail" {
			fatal.If(t, random(MLP).Save(path))
		} else {
			fatal.If(t, os.WriteFile(path, nil, 0o600))
		}
		if err := os.Truncate(path, size); err != nil { // a sparse file
			t.Fatal(err)
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := Load(path)
		runtime.ReadMemStats(&after)
		if !errors.Is(err, errFormat) {
			t.Errorf("%s: %v, want %v", name, err, errFormat)
		}
		if used := after.TotalAlloc - before.TotalAlloc; used > 4<<20 {
			t.Errorf("%s: %d bytes allocated", name, used)
		}
	}
}

// A network of the largest size fits into the largest file.
func TestLargestNetworkFits(t *testing.T) {
	a := Architecture{Graph: GPUGraph, Encoder: GNN, Head: ActorCritic, Hidden: 1024}
	fatal.If(t, a.Validate())
	size := maxHeader
	for _, p := range a.Params() {
		n := 4
		for _, d := range p.Shape {
			n *= d
		}
		size += n
	}
	if size > maxFile {
		t.Errorf("it has %d bytes, at most %d are read", size, maxFile)
	}
}
