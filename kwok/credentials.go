package kwok

import (
	"bytes"
	"crypto"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	certutil "k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"

	"gnnsched/internal/exit"
	"gnnsched/internal/files"
)

// serverValid is the time for which a server certificate is valid. Each start makes a new one.
const serverValid = 365 * 24 * time.Hour

const tokenBytes = 32

// credentials let a client reach the API server: the certificate authority and a token.
type credentials struct {
	caPEM []byte
	token string
}

// credentials returns the directory's credentials and creates missing ones. The authority, the token and the service accounts' key never
// change.
func (d *dataDir) credentials(hosts []string) (credentials, error) {
	if err := os.MkdirAll(d.file(dirPKI), 0o700); err != nil {
		return credentials{}, dirError("make the directory of the keys", err)
	}
	ca, caKey, err := d.authority()
	if err != nil {
		return credentials{}, err
	}
	if err := d.newServerCertificate(ca, caKey, hosts); err != nil {
		return credentials{}, err
	}
	if _, err := d.key(fileServiceAccountKey); err != nil {
		return credentials{}, err
	}
	token, err := d.token()
	if err != nil {
		return credentials{}, err
	}
	caPEM, err := certutil.EncodeCertificates(ca)
	return credentials{caPEM: caPEM, token: token}, err
}

// authority returns the certificate authority. It signs only the API server's certificate.
func (d *dataDir) authority() (*x509.Certificate, crypto.Signer, error) {
	key, err := d.key(fileCAKey)
	if err != nil {
		return nil, nil, err
	}
	if _, err := tls.LoadX509KeyPair(d.file(fileCACert), d.file(fileCAKey)); err == nil {
		if all, err := certutil.CertsFromFile(d.file(fileCACert)); err == nil && time.Now().Before(all[0].NotAfter) {
			return all[0], key, nil
		}
	}
	slow := time.Now().Add(-time.Hour) // for clients whose clock is slow
	ca, err := certutil.NewSelfSignedCACert(certutil.Config{CommonName: "gnnsched simulated cluster", NotBefore: slow}, key)
	if err != nil {
		return nil, nil, fmt.Errorf("make a certificate: %w", err)
	}
	return ca, key, d.writeCertificate(fileCACert, ca)
}

func (d *dataDir) newServerCertificate(ca *x509.Certificate, caKey crypto.Signer, hosts []string) error {
	key, err := d.key(fileServerKey)
	if err != nil {
		return err
	}
	now := time.Now()
	t := &x509.Certificate{
		Subject: pkix.Name{CommonName: "kube-apiserver"}, SerialNumber: big.NewInt(now.UnixNano()), KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}, NotBefore: ca.NotBefore, NotAfter: now.Add(serverValid),
	}
	for _, h := range hosts {
		if ip := net.ParseIP(h); ip != nil {
			t.IPAddresses = append(t.IPAddresses, ip)
		} else {
			t.DNSNames = append(t.DNSNames, h)
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, t, ca, key.Public(), caKey)
	if err != nil {
		return fmt.Errorf("make a certificate: %w", err)
	}
	return d.writeCertificate(fileServerCert, &x509.Certificate{Raw: der})
}

func (d *dataDir) writeCertificate(name string, cert *x509.Certificate) error {
	text, err := certutil.EncodeCertificates(cert)
	if err != nil {
		return fmt.Errorf("make a certificate: %w", err)
	}
	return d.write(name, text)
}

// key returns the private key in the file, creating it if necessary.
func (d *dataDir) key(name string) (crypto.Signer, error) {
	text, _, err := keyutil.LoadOrGenerateKeyFile(d.file(name))
	if err != nil {
		return nil, exit.New(exit.Usage, fmt.Errorf("read or make a key: %w", err),
			"delete a file that is damaged, or choose a directory that you can write to with --dir")
	}
	key, err := keyutil.ParsePrivateKeyPEM(text)
	if signer, is := key.(crypto.Signer); is {
		return signer, nil
	}
	return nil, errors.Join(fmt.Errorf("%s has no private key that signs", d.file(name)), err)
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

// kubeconfig returns a kubeconfig that needs no other file: it contains the certificate authority
// and the token.
func kubeconfig(context, url string, creds credentials) *clientcmdapi.Config {
	k := clientcmdapi.NewConfig()
	k.Clusters[context] = &clientcmdapi.Cluster{Server: url, CertificateAuthorityData: creds.caPEM}
	k.AuthInfos[context] = &clientcmdapi.AuthInfo{Token: creds.token}
	k.Contexts[context] = &clientcmdapi.Context{Cluster: context, AuthInfo: context}
	k.CurrentContext = context
	return k
}

// copyKubeconfig writes a kubeconfig to a file that the user chose.
func copyKubeconfig(path string, b []byte) error {
	err := os.MkdirAll(filepath.Dir(path), 0o700)
	if err == nil {
		err = files.Write(path, b, 0o600)
	}
	if err != nil {
		return exit.New(exit.Usage, fmt.Errorf("write the kubeconfig %s: %w", path, err),
			"choose a file that you can write to with --kubeconfig-out")
	}
	return nil
}
