package files

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
)

// A failed write leaves the old content, and nothing else.
func TestWrite(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "file")
	for _, text := range []string{"old", "new"} {
		if err := Write(path, []byte(text), 0o640); err != nil {
			t.Fatal(err)
		}
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
