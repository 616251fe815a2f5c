package files

import (
	"bufio"
	"errors"
	"io"
	"os"
	"path/filepath"
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
	f, err := os.Open(zero)
	fatal.If(t, err)
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
