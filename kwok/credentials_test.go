package kwok

import (
	"crypto/x509"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
	certutil "k8s.io/client-go/util/cert"

	"gnnsched/internal/fatal"
)

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
