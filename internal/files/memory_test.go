package files

import (
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"

	"gnnsched/internal/fatal"
)

// A file can be read again and again until it is removed, and no directory ever shows it.
func TestInMemory(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	path, remove, err := InMemory("secret", []byte("content"))
	fatal.If(t, err)
	for range 3 {
		if b, err := os.ReadFile(path); err != nil || string(b) != "content" {
			t.Fatalf("read %q, %v", b, err)
		}
	}
	if entries, err := os.ReadDir(dir); runtime.GOOS == "linux" && (err != nil || len(entries) > 0) {
		t.Errorf("a directory shows the file: %v, %v", entries, err)
	}
	remove()
	remove()
	if b, err := os.ReadFile(path); err == nil && string(b) == "content" {
		t.Error("the file can be read after its removal")
	}
}

// A child process does not inherit the file.
func TestChildrenDoNotInherit(t *testing.T) {
	path, remove, err := InMemory("secret", []byte("content"))
	fatal.If(t, err)
	defer remove()
	if runtime.GOOS != "linux" {
		t.Skip("the file has a name in a directory")
	}
	if out, err := exec.Command("cat", path).CombinedOutput(); err == nil && strings.Contains(string(out), "content") {
		t.Errorf("a child read it: %s", out)
	}
}
