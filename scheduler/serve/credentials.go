package serve

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	certutil "k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"

	"gnnsched/internal/exit"
)

// Credentials holds the paths of the self-made credentials of a server for development on one machine.
type Credentials struct {
	CAFile                string // signs both certificates
	CertFile, KeyFile     string // of the server
	ClientCert, ClientKey string // of a kube-scheduler that asks
	TokenFile             string
	Fresh                 bool // whether they were made now
}

// ownName is the name of a client with Credentials.
const ownName = "gnnsched-development"

// ownLife is the validity of Credentials, and ownRenew the time before its end at which they are made anew.
const (
	ownLife  = 365 * 24 * time.Hour
	ownRenew = 7 * 24 * time.Hour
)

// CredentialsIn returns the files that NewCredentials writes into a folder.
func CredentialsIn(dir string) Credentials {
	in := func(name string) string { return filepath.Join(dir, name) }
	return Credentials{
		CAFile: in("ca.crt"), CertFile: in("server.crt"), KeyFile: in("server.key"),
		ClientCert: in("client.crt"), ClientKey: in("client.key"), TokenFile: in("tokens.csv"),
	}
}

// NewCredentials makes a CA, certificates of a server on loopback and of a client, and a token, unless the folder has
// them and they stay valid for a week. Only the user can read the files. The key of the CA is not kept. now is the time.
func NewCredentials(dir string, now time.Time) (Credentials, error) {
	c := CredentialsIn(dir)
	if c.usable(now) {
		return c, nil
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return c, exit.New(exit.Usage, fmt.Errorf("make the folder of certificates: %w", err), "choose another with --cert-dir")
	}
	if err := c.make(now); err != nil {
		return c, exit.New(exit.Usage, fmt.Errorf("make certificates: %w", err), "choose another folder with --cert-dir, or name your own files")
	}
	c.Fresh = true
	return c, nil
}

// usable reports whether all files are there and the certificates stay valid.
func (c Credentials) usable(now time.Time) bool {
	for _, pair := range [][2]string{{c.CertFile, c.KeyFile}, {c.ClientCert, c.ClientKey}} {
		if _, err := tls.LoadX509KeyPair(pair[0], pair[1]); err != nil {
			return false
		}
		certs, err := certutil.CertsFromFile(pair[0])
		if err != nil || now.Add(ownRenew).After(certs[0].NotAfter) || now.Before(certs[0].NotBefore) {
			return false
		}
	}
	for _, file := range []string{c.CAFile, c.TokenFile} {
		if info, err := os.Stat(file); err != nil || info.Size() == 0 {
			return false
		}
	}
	return true
}

// make writes all files.
func (c Credentials) make(now time.Time) error {
	key, err := newKey()
	if err != nil {
		return err
	}
	ca := template(1, "gnnsched serve, development CA", now)
	ca.IsCA, ca.BasicConstraintsValid, ca.KeyUsage = true, true, x509.KeyUsageCertSign
	signer := &signer{cert: ca, key: key}
	if err := signer.write(c.CAFile, "", ca, key); err != nil {
		return err
	}
	server := template(2, "localhost", now)
	server.DNSNames, server.IPAddresses = []string{"localhost"}, []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback}
	server.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	client := template(3, ownName, now)
	client.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	if err := errors.Join(signer.issue(c.CertFile, c.KeyFile, server), signer.issue(c.ClientCert, c.ClientKey, client)); err != nil {
		return err
	}
	token := make([]byte, 32)
	if _, err := rand.Read(token); err != nil {
		return err
	}
	return os.WriteFile(c.TokenFile, []byte(hex.EncodeToString(token)+","+ownName+","+ownName+"\n"), 0o600)
}

// template returns a certificate that is valid from a little before now. Each CA signs one with each serial number.
func template(serial int64, name string, now time.Time) *x509.Certificate {
	return &x509.Certificate{
		Subject: pkix.Name{CommonName: name}, SerialNumber: big.NewInt(now.UnixNano() + serial), KeyUsage: x509.KeyUsageDigitalSignature,
		NotBefore: now.Add(-5 * time.Minute), NotAfter: now.Add(ownLife),
	}
}

func newKey() (*ecdsa.PrivateKey, error) { return ecdsa.GenerateKey(elliptic.P256(), rand.Reader) }

// signer signs certificates.
type signer struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// issue signs a certificate for a new key and writes both.
func (s *signer) issue(certFile, keyFile string, cert *x509.Certificate) error {
	key, err := newKey()
	if err != nil {
		return err
	}
	return s.write(certFile, keyFile, cert, key)
}

// write signs a certificate for a key, and writes it and, if keyFile is not empty, the key.
func (s *signer) write(certFile, keyFile string, cert *x509.Certificate, key *ecdsa.PrivateKey) error {
	der, err := x509.CreateCertificate(rand.Reader, cert, s.cert, key.Public(), s.key)
	if err != nil {
		return err
	}
	pem, err := certutil.EncodeCertificates(&x509.Certificate{Raw: der})
	if err != nil {
		return err
	}
	if err := os.WriteFile(certFile, pem, 0o600); err != nil || keyFile == "" {
		return err
	}
	if pem, err = keyutil.MarshalPrivateKeyToPEM(key); err != nil {
		return err
	}
	return os.WriteFile(keyFile, pem, 0o600)
}

// Fingerprint returns the SHA-256 fingerprint of the first certificate in a file, as browsers and openssl print it.
func Fingerprint(certFile string) (string, error) {
	certs, err := certutil.CertsFromFile(certFile)
	if err != nil {
		return "", exit.New(exit.Usage, fmt.Errorf("read the server's certificate: %w", err), "check --tls-cert-file")
	}
	return strings.ReplaceAll(fmt.Sprintf("% X", sha256.Sum256(certs[0].Raw)), " ", ":"), nil
}
