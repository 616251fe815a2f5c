package kwok

import (
	"bytes"
	"cmp"
	"crypto"
	"crypto/rand"
	"crypto/sha256"
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
	"strconv"
	"strings"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	certutil "k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"

	"gnnsched/internal/exit"
	"gnnsched/internal/files"
	kubeconfigs "gnnsched/internal/kubeconfig"
	"gnnsched/kwok/nodepool"
)

const loopback = "127.0.0.1"

// defaultUsageInterval is the time between two samples of the pods' usage, as in a kubelet.
const defaultUsageInterval = 10 * time.Second

const minUsageInterval, maxUsageInterval = 100 * time.Millisecond, time.Hour

// Validate returns the first fault that can be found without accessing files or the network.
func (c *Config) Validate() error {
	if c.Dir == "" {
		return exit.Usagef("the cluster needs a data directory")
	}
	if c.Port < 0 || c.Port > 65535 {
		return exit.Usagef("port %d is not between 0 and 65535", c.Port)
	}
	if c.BindAddress != "" {
		ip := net.ParseIP(c.BindAddress)
		if ip == nil {
			return exit.Usagef("bind address %q is not an IP address", c.BindAddress)
		}
		if !ip.IsLoopback() && c.AdvertiseHost == "" {
			return exit.New(exit.Usage, fmt.Errorf("bind address %s is open to the network, which requires an advertised host", c.BindAddress),
				"add --advertise-host with the host name under which others reach the cluster")
		}
	}
	if h := c.AdvertiseHost; h != "" && net.ParseIP(h) == nil && len(validation.IsDNS1123Subdomain(h)) > 0 {
		return exit.Usagef("advertised host %q is neither a host name nor an IP address", h)
	}
	if c.UsageInterval != 0 && (c.UsageInterval < minUsageInterval || c.UsageInterval > maxUsageInterval) {
		return exit.Usagef("usage interval %v is not %v to %v", c.UsageInterval, minUsageInterval, maxUsageInterval)
	}
	if err := nodepool.Validate(c.Pools); err != nil {
		return exit.New(exit.Usage, err, "")
	}
	return nil
}

// complete validates c and sets the defaults that do not depend on the data directory.
func (c *Config) complete() error {
	if err := c.Validate(); err != nil {
		return err
	}
	c.BindAddress = cmp.Or(c.BindAddress, loopback)
	if c.Context == "" {
		name, err := contextName(c.Dir)
		if err != nil {
			return err
		}
		c.Context = name
	}
	c.UsageInterval = cmp.Or(c.UsageInterval, defaultUsageInterval)
	if c.Progress == nil {
		c.Progress = func(string) {}
	}
	return nil
}

// contextName returns the default name of the context of the cluster in dir. Kubeconfigs of several
// clusters can be merged, because no two directories have the same name.
func contextName(dir string) (string, error) {
	const name = "gnnsched-kwok"
	path, err := filepath.Abs(dir)
	if err != nil {
		return "", fmt.Errorf("find the data directory: %w", err)
	}
	if path == kubeconfigs.SimulatedDir() {
		return name, nil
	}
	sum := sha256.Sum256([]byte(path))
	return fmt.Sprintf("%s-%s-%x", name, filepath.Base(path), sum[:3]), nil
}

// localHost returns the address under which this machine reaches the listener.
func (c *Config) localHost() string {
	switch ip := net.ParseIP(c.BindAddress); {
	case ip.IsUnspecified() && ip.To4() == nil:
		return "::1"
	case ip.IsUnspecified():
		return loopback
	}
	return c.BindAddress
}

// hosts returns the names and addresses of the server's certificate.
func (c *Config) hosts() []string {
	hosts := []string{loopback, "::1", "localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc"}
	for _, h := range []string{c.localHost(), c.AdvertiseHost} {
		if h != "" {
			hosts = append(hosts, h)
		}
	}
	return hosts
}

// listen opens the API server's socket on the configured port, else on the port of the previous
// start, else on a free one. It saves the port for the next start, and sets c.Pools to the
// previous ones if it is nil.
func listen(c *Config, d *dataDir) (net.Listener, error) {
	saved, err := d.settings()
	if err != nil {
		return nil, err
	}
	if c.Pools == nil {
		if c.Pools, err = d.pools(); err != nil {
			return nil, err
		}
	}
	port := cmp.Or(c.Port, saved.Port)
	l, err := net.Listen("tcp", net.JoinHostPort(c.BindAddress, strconv.Itoa(port)))
	if err != nil {
		return nil, listenError(c, port, err)
	}
	saved.Port = l.Addr().(*net.TCPAddr).Port
	if err := d.saveSettings(saved); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

func listenError(c *Config, port int, err error) error {
	hint := "choose another address with --bind-address"
	switch {
	case errors.Is(err, syscall.EADDRINUSE) && c.Port == 0:
		hint = "another program uses this cluster's port; stop it, or choose a new port with --port (then copy the kubeconfig again " +
			"if you have copies)"
	case errors.Is(err, syscall.EADDRINUSE):
		hint = "choose another port with --port, or leave --port out for a free one"
	case errors.Is(err, os.ErrPermission):
		hint = "ports below 1024 need special rights; choose a higher one with --port"
	}
	return exit.New(exit.Usage, fmt.Errorf("listen on %s port %d: %w", c.BindAddress, port, err), hint)
}

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
