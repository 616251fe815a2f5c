package kwok

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"gnnsched/internal/exit"
	"gnnsched/internal/fatal"
	"gnnsched/kwok/nodepool"
)

func touch(t *testing.T, path string) {
	t.Helper()
	fatal.If(t, os.MkdirAll(filepath.Dir(path), 0o700))
	fatal.If(t, os.WriteFile(path, []byte("x"), 0o600))
}

func TestOpenDirClaimsOnlyWhatIsFree(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	touch(t, file)
	foreign := t.TempDir()
	touch(t, filepath.Join(foreign, "thesis.tex"))
	ours := t.TempDir()
	touch(t, filepath.Join(ours, fileMarker))
	touch(t, filepath.Join(ours, "notes.txt"))
	for _, c := range []struct{ name, path, want string }{
		{"new", filepath.Join(t.TempDir(), "a", "b"), ""},
		{"empty", t.TempDir(), ""},
		{"ours", ours, ""},
		{"foreign", foreign, "thesis.tex"},
		{"a file", file, "not a directory"},
		{"below a file", filepath.Join(file, "sub"), "not a directory"},
	} {
		d, err := openDir(c.path)
		if c.want == "" {
			if err != nil {
				t.Errorf("%s: %v", c.name, err)
				continue
			}
			if _, err := os.Stat(filepath.Join(c.path, fileMarker)); err != nil {
				t.Errorf("%s: no marker: %v", c.name, err)
			}
			if err := d.close(); err != nil {
				t.Errorf("%s: %v", c.name, err)
			}
			continue
		}
		if err == nil || !strings.Contains(err.Error(), c.want) || exit.Code(err) != exit.Usage {
			t.Errorf("%s: got %v, want a usage error about %q", c.name, err, c.want)
		}
	}
	if _, err := os.Stat(filepath.Join(foreign, fileMarker)); err == nil {
		t.Error("the foreign directory was marked as ours")
	}
}

func TestOneClusterADirectory(t *testing.T) {
	path := t.TempDir()
	d, err := openDir(path)
	fatal.If(t, err)
	fatal.If(t, d.writeRun(runFile{PID: 4711}))
	if _, err := openDir(path); !errors.Is(err, errRunning) || exit.Code(err) != exit.Usage || !strings.Contains(err.Error(), "4711") {
		t.Errorf("a second cluster: %v", err)
	}
	if held, err := lockHeld(path); err != nil || !held {
		t.Errorf("held %v, %v", held, err)
	}
	fatal.If(t, d.close())
	if held, err := lockHeld(path); err != nil || held {
		t.Errorf("after close: held %v, %v", held, err)
	}
	if d, err = openDir(path); err != nil {
		t.Fatalf("after close: %v", err)
	}
	fatal.If(t, d.close())
}

func TestSettingsAndPoolsAreKept(t *testing.T) {
	path := t.TempDir()
	d, err := openDir(path)
	fatal.If(t, err)
	s, err := d.settings()
	if err != nil || s.CreatedAt.IsZero() || s.Port != 0 {
		t.Fatalf("first settings %+v, %v", s, err)
	}
	if p, err := d.pools(); err != nil || nodepool.Nodes(p) != 11 {
		t.Fatalf("first pools %+v, %v", p, err)
	}
	s.Port = 1234
	fatal.If(t, errors.Join(d.saveSettings(s), d.savePools(nodepool.Default(3)), d.close()))
	if d, err = openDir(path); err != nil {
		t.Fatal(err)
	}
	defer d.close() //nolint:errcheck // the test is over
	again, err := d.settings()
	if err != nil || !again.CreatedAt.Equal(s.CreatedAt) || again.Port != 1234 {
		t.Errorf("kept %+v, %v; want %+v", again, err, s)
	}
	if p, err := d.pools(); err != nil || nodepool.Nodes(p) != 4 {
		t.Errorf("kept pools %+v, %v", p, err)
	}
	fatal.If(t, os.WriteFile(d.file(fileSettings), []byte("{"), 0o600))
	if _, err := d.settings(); err == nil || !strings.Contains(err.Error(), fileSettings) {
		t.Errorf("damaged settings: %v", err)
	}
}

func TestPurge(t *testing.T) {
	path := filepath.Join(t.TempDir(), "cluster")
	d, err := openDir(path)
	fatal.If(t, err)
	if _, err := d.credentials([]string{loopback}); err != nil {
		t.Fatal(err)
	}
	fatal.If(t, d.saveSettings(settings{}))
	touch(t, d.file(filepath.Join(dirEtcd, "member", "wal")))
	touch(t, d.file(".unfinished-pools.json-123"))
	touch(t, d.file("kwokcluster.err"))
	touch(t, d.file("kwokcluster-2026-11-22T00-54-43.123.log"))
	touch(t, d.file("kwokcluster-notes.log"))
	touch(t, d.file("pools-of-mine.yaml"))
	if _, err := Purge(path); !errors.Is(err, errRunning) {
		t.Errorf("a cluster that runs was purged: %v", err)
	}
	fatal.If(t, d.close())
	left, err := Purge(path)
	if d := cmp.Diff([]string{"kwokcluster-notes.log", "pools-of-mine.yaml"}, left); d != "" || err != nil {
		t.Errorf("%v %s", err, d)
	}
	if d, err = openDir(path); err != nil { // the marker is still there
		t.Fatal(err)
	}
	fatal.If(t, errors.Join(d.close(), os.Remove(d.file("pools-of-mine.yaml")), os.Remove(d.file("kwokcluster-notes.log"))))
	if left, err := Purge(path); err != nil || len(left) > 0 {
		t.Errorf("left %v, %v", left, err)
	}
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the directory is still there: %v", err)
	}
	if _, err := Purge(path); err != nil {
		t.Errorf("purge of what is gone: %v", err)
	}
}

func TestPurgeLeavesForeignDirectories(t *testing.T) {
	path := t.TempDir()
	touch(t, filepath.Join(path, dirEtcd, "somebody's"))
	if _, err := Purge(path); exit.Code(err) != exit.Usage {
		t.Errorf("got %v", err)
	}
	if _, err := os.Stat(filepath.Join(path, dirEtcd, "somebody's")); err != nil {
		t.Errorf("deleted all the same: %v", err)
	}
}
