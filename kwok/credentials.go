package kwok

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"os"
	"strings"
	"time"
)

const (
	caValid     = 10 * 365 * 24 * time.Hour
	serverValid = 365 * 24 * time.Hour
	// serverRenew is the least remaining validity of a server certificate at a start.
	serverRenew = 30 * 24 * time.Hour
	tokenBytes  = 32
)

// credentials let a client reach the API server: the certificate authority and a token.
type credentials struct {
	caPEM []byte
	token string
}

// credentials returns the directory's credentials and creates missing ones. The authority, the token and the service accounts' key never
// change. The server's certificate is replaced if it does not cover the hosts or expires soon.
func (d *dataDir) credentials(hosts []string) (credentials, error) {
	if err := os.MkdirAll(d.file(dirPKI), 0o700); err != nil {
		return credentials{}, dirError("make the directory of the keys", err)
	}
	ca, caKey, err := d.authority()
	if err != nil {
		return credentials{}, err
	}
	if !d.serverCertificateFits(ca, hosts) {
		if err := d.newServerCertificate(ca, caKey, hosts); err != nil {
			return credentials{}, err
		}
	}
	if _, err := d.key(fileServiceAccountKey); err != nil {
		return credentials{}, err
	}
	token, err := d.token()
	if err != nil {
		return credentials{}, err
	}
	return credentials{caPEM: pemBlock("CERTIFICATE", ca.Raw), token: token}, nil
}

// authority returns the certificate authority. It signs only the API server's certificate.
func (d *dataDir) authority() (*x509.Certificate, *ecdsa.PrivateKey, error) {
	key, err := d.key(fileCAKey)
	if err != nil {
		return nil, nil, err
	}
	if cert, err := d.certificate(fileCACert); err == nil && publicKeyOf(cert, key) && time.Now().Before(cert.NotAfter) {
		return cert, key, nil
	}
	cert, err := d.sign(fileCACert, &x509.Certificate{
		Subject: pkix.Name{CommonName: "gnnsched simulated cluster"}, IsCA: true, BasicConstraintsValid: true,
		MaxPathLenZero: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
		NotAfter: time.Now().Add(caValid),
	}, nil, key.Public(), key)
	return cert, key, err
}

func (d *dataDir) serverCertificateFits(ca *x509.Certificate, hosts []string) bool {
	cert, err := d.certificate(fileServerCert)
	if err != nil || cert.CheckSignatureFrom(ca) != nil || time.Until(cert.NotAfter) < serverRenew {
		return false
	}
	key, err := d.key(fileServerKey)
	if err != nil || !publicKeyOf(cert, key) {
		return false
	}
	for _, h := range hosts {
		if cert.VerifyHostname(h) != nil {
			return false
		}
	}
	return true
}

func (d *dataDir) newServerCertificate(ca *x509.Certificate, caKey *ecdsa.PrivateKey, hosts []string) error {
	key, err := d.key(fileServerKey)
	if err != nil {
		return err
	}
	t := &x509.Certificate{
		Subject: pkix.Name{CommonName: "kube-apiserver"}, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}, NotAfter: time.Now().Add(serverValid),
	}
	for _, h := range hosts {
		if ip := net.ParseIP(h); ip != nil {
			t.IPAddresses = append(t.IPAddresses, ip)
		} else {
			t.DNSNames = append(t.DNSNames, h)
		}
	}
	_, err = d.sign(fileServerCert, t, ca, key.Public(), caKey)
	return err
}

// sign creates a certificate and stores it. A certificate without a parent signs itself.
func (d *dataDir) sign(name string, t, parent *x509.Certificate, pub crypto.PublicKey, key *ecdsa.PrivateKey) (*x509.Certificate, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, fmt.Errorf("make a certificate: %w", err)
	}
	t.SerialNumber = serial
	t.NotBefore = time.Now().Add(-time.Hour) // for clients whose clock is slow
	if parent == nil {
		parent = t
	}
	der, err := x509.CreateCertificate(rand.Reader, t, parent, pub, key)
	if err != nil {
		return nil, fmt.Errorf("make a certificate: %w", err)
	}
	if err := d.write(name, pemBlock("CERTIFICATE", der)); err != nil {
		return nil, err
	}
	return x509.ParseCertificate(der)
}

func (d *dataDir) certificate(name string) (*x509.Certificate, error) {
	der, err := readPEM(d.file(name))
	if err != nil {
		return nil, err
	}
	return x509.ParseCertificate(der)
}

// key returns the private key in the file, creating it if necessary.
func (d *dataDir) key(name string) (*ecdsa.PrivateKey, error) {
	der, err := readPEM(d.file(name))
	if err == nil {
		k, err := x509.ParseECPrivateKey(der)
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", d.file(name), err)
		}
		return k, nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make a key: %w", err)
	}
	if der, err = x509.MarshalECPrivateKey(k); err != nil {
		return nil, fmt.Errorf("make a key: %w", err)
	}
	return k, d.write(name, pemBlock("EC PRIVATE KEY", der))
}

// token returns the administrator's token, creating it if necessary.
func (d *dataDir) token() (string, error) {
	b, err := os.ReadFile(d.file(fileTokens))
	if err == nil {
		token, _, found := bytes.Cut(b, []byte(","))
		if !found || len(token) < tokenBytes {
			return "", fmt.Errorf("read %s: the file does not begin with a token; delete it to get a new token", d.file(fileTokens))
		}
		return string(token), nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return "", dirError("read the token", err)
	}
	raw := make([]byte, tokenBytes)
	if _, err := rand.Read(raw); err != nil {
		return "", fmt.Errorf("make a token: %w", err)
	}
	token := hex.EncodeToString(raw)
	line := strings.Join([]string{token, "admin", "admin", "system:masters"}, ",") + "\n"
	return token, d.write(fileTokens, []byte(line))
}

func publicKeyOf(c *x509.Certificate, k *ecdsa.PrivateKey) bool {
	pub, ok := c.PublicKey.(*ecdsa.PublicKey)
	return ok && pub.Equal(k.Public())
}

func pemBlock(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

func readPEM(path string) ([]byte, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(b)
	if block == nil {
		return nil, fmt.Errorf("read %s: not PEM", path)
	}
	return block.Bytes, nil
}
