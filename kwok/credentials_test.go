package kwok

import (
	"bytes"
	"crypto/x509"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func verify(t *testing.T, d *dataDir, creds credentials, host string) error {
	t.Helper()
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(creds.caPEM) {
		t.Fatal("the authority is not PEM")
	}
	cert, err := d.certificate(fileServerCert)
	if err != nil {
		t.Fatal(err)
	}
	_, err = cert.Verify(x509.VerifyOptions{DNSName: host, Roots: roots})
	return err
}

func TestCredentialsAreKept(t *testing.T) {
	d := &dataDir{path: t.TempDir()}
	first, err := d.credentials([]string{loopback, "localhost"})
	if err != nil {
		t.Fatal(err)
	}
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
	cert := read(t, d, fileServerCert)
	again, err := d.credentials([]string{loopback})
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(first, again, cmp.AllowUnexported(credentials{})); d != "" {
		t.Error(d)
	}
	if !bytes.Equal(cert, read(t, d, fileServerCert)) {
		t.Error("a certificate that fits was made anew")
	}
	more, err := d.credentials([]string{loopback, "cluster"})
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(first, more, cmp.AllowUnexported(credentials{})); d != "" {
		t.Errorf("a new name changed the authority or the token: %s", d)
	}
	if err := verify(t, d, first, "cluster"); err != nil {
		t.Error(err)
	}
}

func read(t *testing.T, d *dataDir, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(d.file(name))
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(d.file(name))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%s has mode %v, %v", name, info.Mode(), err)
	}
	return b
}

func TestDamagedCredentialsAreErrors(t *testing.T) {
	for _, name := range []string{fileCAKey, fileServiceAccountKey, fileTokens} {
		d := &dataDir{path: t.TempDir()}
		if _, err := d.credentials([]string{loopback}); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(d.file(name), []byte("junk"), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := d.credentials([]string{loopback}); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	// A damaged certificate is replaced.
	d := &dataDir{path: t.TempDir()}
	if _, err := d.credentials([]string{loopback}); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(d.file(fileServerCert), []byte("junk"), 0o600); err != nil {
		t.Fatal(err)
	}
	creds, err := d.credentials([]string{loopback})
	if err != nil {
		t.Fatal(err)
	}
	if err := verify(t, d, creds, loopback); err != nil {
		t.Error(err)
	}
}
