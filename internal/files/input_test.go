package files

import (
	"bufio"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"gnnsched/internal/fatal"
)

// zero is a file without an end.
const zero = "/dev/zero"

func TestRead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	fatal.If(t, os.WriteFile(path, []byte("12345"), 0o600))
	if b, err := Read(path, 5); err != nil || string(b) != "12345" {
		t.Errorf("%q, %v", b, err)
	}
	for _, p := range []string{path, zero} {
		if _, err := Read(p, 4); !errors.Is(err, errTooLong) || !strings.Contains(err.Error(), p) {
			t.Errorf("%s: %v", p, err)
		}
		if err := Check(4, "gone", os.DevNull, p); !errors.Is(err, errTooLong) {
			t.Errorf("%s: %v", p, err)
		}
	}
	if err := Check(5, path, os.DevNull, t.TempDir(), ""); err != nil {
		t.Error(err)
	}
	if _, err := Read(filepath.Join(t.TempDir(), "gone"), 5); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
}

func TestLines(t *testing.T) {
	f := fatal.Value(os.Open(zero))(t)
	defer f.Close() //nolint:errcheck // it is only read
	if _, err := io.Copy(io.Discard, Lines(f)); !errors.Is(err, errTooLong) {
		t.Error(err)
	}
	text := strings.Repeat("0123456789\n", 1000)
	s := bufio.NewScanner(Lines(strings.NewReader(text)))
	n := 0
	for s.Scan() {
		n++
	}
	if n != 1000 || s.Err() != nil {
		t.Errorf("%d lines, %v", n, s.Err())
	}
}

// A failed write leaves the old content, and nothing else.
func TestWrite(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "file")
	for _, text := range []string{"old", "new"} {
		fatal.If(t, Write(path, []byte(text), 0o640))
	}
	full := errors.New("full")
	err := WriteBy(path, 0o600, func(w io.Writer) error {
		entries, err := os.ReadDir(dir)
		if err != nil || len(entries) != 2 || !Unfinished(entries[0].Name()) {
			t.Errorf("%v, %v", entries, err)
		}
		_, err = io.WriteString(w, "half")
		return errors.Join(err, full)
	})
	if !errors.Is(err, full) {
		t.Error(err)
	}
	text, err := os.ReadFile(path)
	if err != nil || string(text) != "new" {
		t.Errorf("%q, %v", text, err)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o640 {
		t.Errorf("%v, %v", info, err)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 || Unfinished("file") {
		t.Errorf("%v, %v", entries, err)
	}
	if Write(filepath.Join(dir, "none", "file"), nil, 0o600) == nil {
		t.Error("no error without a folder")
	}
}

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
