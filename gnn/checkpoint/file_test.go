package checkpoint

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
)

// What is not a regular file is refused without reading it. A read of the pipe would block for good.
func TestLoadWantsRegularFile(t *testing.T) {
	dir := t.TempDir()
	pipe, socket := filepath.Join(dir, "pipe"), filepath.Join(dir, "socket")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	link := filepath.Join(dir, "link")
	if err := os.Symlink(pipe, link); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{pipe, link, dir, "/dev/zero"} {
		if _, err := Load(path); !errors.Is(err, ErrFile) {
			t.Errorf("%s: %v, want %v", path, err, ErrFile)
		}
	}
	if _, err := Load(socket); err == nil {
		t.Error("a socket was accepted")
	}
	file := filepath.Join(dir, "file")
	if err := random(MLP).Save(file); err != nil {
		t.Fatal(err)
	}
	toFile := filepath.Join(dir, "to-file") // as Kubernetes mounts a ConfigMap
	if err := os.Symlink(file, toFile); err != nil {
		t.Fatal(err)
	}
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
			if err := random(MLP).Save(path); err != nil {
				t.Fatal(err)
			}
		} else if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
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
	if err := a.Validate(); err != nil {
		t.Fatal(err)
	}
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
