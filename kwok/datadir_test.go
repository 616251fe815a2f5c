package kwok

import (
	"crypto/x509"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	certutil "k8s.io/client-go/util/cert"

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

func verify(t *testing.T, d *dataDir, creds credentials, host string) error {
	t.Helper()
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(creds.caPEM) {
		t.Fatal("the authority is not PEM")
	}
	certs, err := certutil.CertsFromFile(d.file(fileServerCert))
	fatal.If(t, err)
	_, err = certs[0].Verify(x509.VerifyOptions{DNSName: host, Roots: roots})
	return err
}

func TestCredentialsAreKept(t *testing.T) {
	d := &dataDir{path: t.TempDir()}
	first, err := d.credentials([]string{loopback, "localhost"})
	fatal.If(t, err)
	if len(first.token) != 2*tokenBytes {
		t.Errorf("token %q", first.token)
	}
	for _, h := range []string{loopback, "localhost"} {
		if err := verify(t, d, first, h); err != nil {
			t.Errorf("%s: %v", h, err)
		}
	}
	if verify(t, d, first, "cluster") == nil {
		t.Error("the certificate is good for a name that nobody asked for")
	}
	for _, name := range []string{fileServerCert, fileServerKey, fileCAKey, fileServiceAccountKey, fileTokens} {
		if info, err := os.Stat(d.file(name)); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", name, info, err)
		}
	}
	again, err := d.credentials([]string{loopback})
	fatal.If(t, err)
	if d := cmp.Diff(first, again, cmp.AllowUnexported(credentials{})); d != "" {
		t.Error(d)
	}
	more, err := d.credentials([]string{loopback, "cluster"})
	fatal.If(t, err)
	if d := cmp.Diff(first, more, cmp.AllowUnexported(credentials{})); d != "" {
		t.Errorf("a new name changed the authority or the token: %s", d)
	}
	if err := verify(t, d, first, "cluster"); err != nil {
		t.Error(err)
	}
}

func TestDamagedCredentialsAreErrors(t *testing.T) {
	for _, name := range []string{fileCAKey, fileServiceAccountKey, fileTokens} {
		d := &dataDir{path: t.TempDir()}
		if _, err := d.credentials([]string{loopback}); err != nil {
			t.Fatal(err)
		}
		fatal.If(t, os.WriteFile(d.file(name), []byte("junk"), 0o600))
		if _, err := d.credentials([]string{loopback}); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	// A damaged certificate is replaced.
	d := &dataDir{path: t.TempDir()}
	if _, err := d.credentials([]string{loopback}); err != nil {
		t.Fatal(err)
	}
	fatal.If(t, os.WriteFile(d.file(fileServerCert), []byte("junk"), 0o600))
	creds, err := d.credentials([]string{loopback})
	fatal.If(t, err)
	if err := verify(t, d, creds, loopback); err != nil {
		t.Error(err)
	}
}
