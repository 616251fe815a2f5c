package serve

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/big"
	"mime"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/request/bearertoken"
	"k8s.io/apiserver/pkg/authentication/request/union"
	x509request "k8s.io/apiserver/pkg/authentication/request/x509"
	"k8s.io/apiserver/pkg/authentication/token/tokenfile"
	genericserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	"k8s.io/apiserver/pkg/server/options"
	certutil "k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"
	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/klog/v2"

	"gnnsched/internal/exit"
	"gnnsched/internal/files"
	"gnnsched/internal/metric"
	"gnnsched/scheduler/advise"
	"gnnsched/scheduler/plugin"
)

// Config sets the addresses, credentials and limits of a server.
type Config struct {
	Address string // an IP address
	Port    int    // 0: the system chooses

	CertFile, KeyFile string // of the server, in PEM; read again when they change
	ClientCAFile      string // who signs client certificates, in PEM; read again when it changes. Empty: none are taken
	TokenFile         string // bearer tokens as kube-apiserver's --token-auth-file has them. Empty: none are taken
	// AllowedNames are the names that may ask: common names of certificates, and users of tokens. Empty:
	// all that can be verified.
	AllowedNames []string

	Timeout  time.Duration // of one answer
	InFlight int           // answers that may be worked out or waited for at one time; one more is refused
	MaxBytes int64         // of the body of a request
}

// Validate returns an error with exit code 2 for the first invalid value.
func (c Config) Validate() error {
	switch {
	case net.ParseIP(c.Address) == nil:
		return exit.New(exit.Usage, fmt.Errorf("the address %q is not an IP address", c.Address), "for example 127.0.0.1, or 0.0.0.0 for all")
	case c.Port < 0 || c.Port > 65535:
		return exit.Usagef("port %d: choose 1 to 65535", c.Port)
	case c.CertFile == "" || c.KeyFile == "":
		return exit.New(exit.Usage, errors.New("there is no certificate to serve with: nothing is served over plain HTTP"),
			"name --tls-cert-file and --tls-private-key-file")
	case c.ClientCAFile == "" && c.TokenFile == "":
		return exit.New(exit.Usage, errors.New("nobody could ask: there is neither a CA for client certificates nor a file of tokens"),
			"name --client-ca-file, --token-auth-file or both")
	case c.Timeout <= 0 || c.InFlight <= 0 || c.MaxBytes <= 0:
		return exit.Usagef("time, number and size of requests must be more than 0, not %v, %d and %d", c.Timeout, c.InFlight, c.MaxBytes)
	}
	return nil
}

// Adviser answers the questions. An *advise.Advisor is one.
type Adviser interface {
	Rank(ctx context.Context, pod *v1.Pod, names []string) ([]advise.Ranked, error)
	Admit(ctx context.Context, pod *v1.Pod, names []string) (refused map[string]string, err error)
	Suggest(ctx context.Context, pod *v1.Pod) (advise.Suggestion, error)
	State(ctx context.Context) (advise.State, error)
	Synced() bool
}

// Server answers over HTTPS.
type Server struct {
	config  Config
	adviser Adviser
	door    *door
	limits  *limits
	begun   time.Time
	ca      *dynamiccertificates.DynamicFileCAContent // nil without client certificates
	socket  net.Listener
}

// New makes a Server and opens its port. Errors about files, address and port have exit code 2.
func New(c Config, a Adviser) (*Server, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	if err := files.Check(files.Text, c.ClientCAFile, c.TokenFile, c.CertFile, c.KeyFile); err != nil {
		return nil, exit.New(exit.Usage, err, "check --client-ca-file, --token-auth-file, --tls-cert-file and --tls-private-key-file")
	}
	set.Register()
	s := &Server{config: c, adviser: a, limits: &limits{slots: make(chan struct{}, c.InFlight), timeout: c.Timeout}, begun: time.Now()}
	if c.ClientCAFile != "" {
		ca, err := dynamiccertificates.NewDynamicCAContentFromFile("client-ca", c.ClientCAFile)
		if err != nil {
			return nil, exit.New(exit.Usage, fmt.Errorf("read the CA for client certificates: %w", err), "name a PEM file with --client-ca-file")
		}
		s.ca = ca
	}
	var err error
	if s.door, err = newDoor(c, s.ca); err != nil {
		return nil, err
	}
	if _, err := tls.LoadX509KeyPair(c.CertFile, c.KeyFile); err != nil {
		return nil, exit.New(exit.Usage, fmt.Errorf("read the server's certificate: %w", err), "check --tls-cert-file and --tls-private-key-file")
	}
	s.socket, err = net.Listen("tcp", net.JoinHostPort(c.Address, strconv.Itoa(c.Port)))
	if err != nil {
		return nil, exit.New(exit.Usage, fmt.Errorf("open the port: %w", err), "choose another port with --port")
	}
	return s, nil
}

// Address returns the address and port at which the server answers.
func (s *Server) Address() string { return s.socket.Addr().String() }

// stopWithin is the time that open requests get when the server stops.
const stopWithin = 5 * time.Second

// Run answers until ctx ends; then it returns nil.
func (s *Server) Run(ctx context.Context) error {
	info, err := s.serving()
	if err != nil {
		return errors.Join(err, s.socket.Close())
	}
	done, _, err := info.Serve(s.handler(), stopWithin, ctx.Done())
	if err != nil {
		return fmt.Errorf("serve: %w", err)
	}
	<-done
	return nil
}

// serving returns upstream's settings of the listener, which read certificates again when they change.
func (s *Server) serving() (*genericserver.SecureServingInfo, error) {
	o := &options.SecureServingOptions{Listener: s.socket, ServerCert: options.GeneratableKeyCert{
		CertKey: options.CertKey{CertFile: s.config.CertFile, KeyFile: s.config.KeyFile},
	}}
	var info *genericserver.SecureServingInfo
	if err := o.ApplyTo(&info); err != nil {
		return nil, exit.New(exit.Usage, fmt.Errorf("read the server's certificate: %w", err), "check --tls-cert-file and --tls-private-key-file")
	}
	if s.ca != nil {
		info.ClientCA = s.ca
	}
	return info, nil
}

// route is a path that the server answers.
type route struct {
	method, path string
	open         bool // open to everybody
	handler      http.Handler
}

// routes lists all paths. The OpenAPI document describes each of them.
func (s *Server) routes() []route {
	answer := s.limits.bound
	return []route{
		{method: http.MethodPost, path: filterPath, handler: answer("filter", s.config.MaxBytes, s.filter)},
		{method: http.MethodPost, path: prioritizePath, handler: answer("prioritize", s.config.MaxBytes, s.prioritize)},
		{method: http.MethodPost, path: "/v1/suggestions", handler: answer("suggestions", s.config.MaxBytes, s.suggest)},
		{method: http.MethodGet, path: "/v1/state", handler: answer("state", 0, s.state)},
		{method: http.MethodGet, path: "/openapi.json", handler: http.HandlerFunc(serveDocument)},
		{method: http.MethodGet, path: "/metrics", handler: legacyregistry.Handler()},
		{method: http.MethodGet, path: "/healthz", open: true, handler: http.HandlerFunc(alive)},
		{method: http.MethodGet, path: "/livez", open: true, handler: http.HandlerFunc(alive)},
		{method: http.MethodGet, path: "/readyz", open: true, handler: http.HandlerFunc(s.ready)},
	}
}

// handler returns all paths behind the door.
func (s *Server) handler() http.Handler {
	mux := http.NewServeMux()
	for _, r := range s.routes() {
		h := r.handler
		if !r.open {
			h = s.door.guard(h)
		}
		mux.Handle(r.method+" "+r.path, h)
	}
	return metric.GuardSlowClients(mux, metric.SlowClientLimit)
}

func alive(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("ok")) }

// ready answers with 200 once the state of the cluster is read.
func (s *Server) ready(w http.ResponseWriter, _ *http.Request) {
	if !s.adviser.Synced() {
		http.Error(w, advise.ErrNotSynced.Error(), http.StatusServiceUnavailable)
		return
	}
	_, _ = w.Write([]byte("ok"))
}

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

// limits bounds the number and the time of concurrent requests.
type limits struct {
	slots   chan struct{} // holds a value for each request that is worked on
	timeout time.Duration
}

// worker answers a request with the given body.
type worker func(ctx context.Context, body []byte) (answer any, err error)

// fault is an error with a status for HTTP, and a reason for programs.
type fault struct {
	status int
	reason string
	err    error
}

// Error implements error.
func (f *fault) Error() string { return f.err.Error() }

// Unwrap returns the error.
func (f *fault) Unwrap() error { return f.err }

// bad returns the fault of a malformed request.
func bad(format string, a ...any) *fault {
	return &fault{http.StatusBadRequest, "bad_request", fmt.Errorf(format, a...)}
}

var (
	errOverload = errors.New("too many requests are being answered")
	errDeadline = errors.New("the answer took too long")
	errPanic    = errors.New("a bug in the program ended the answer; its log has the place")
)

// result is a worker's answer.
type result struct {
	answer any
	err    error
}

// bound lets work answer with a body of at most maxBytes, if a slot is free, within the timeout. Work that goes on
// after the timeout keeps its slot until it ends.
func (l *limits) bound(name string, maxBytes int64, work worker) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		begun := time.Now()
		select {
		case l.slots <- struct{}{}:
		default:
			w.Header().Set("Retry-After", "1")
			refuse(w, name, &fault{http.StatusTooManyRequests, "overload", errOverload})
			return
		}
		ctx, cancel := context.WithTimeoutCause(r.Context(), l.timeout, errDeadline)
		defer cancel()
		body, err := read(w, r, maxBytes, begun.Add(l.timeout))
		if err != nil {
			<-l.slots
			refuse(w, name, err)
			return
		}
		done := make(chan result, 1)
		inFlight.Inc()
		go func() {
			defer func() { inFlight.Dec(); <-l.slots }()
			done <- l.run(ctx, work, body)
		}()
		select {
		case got := <-done:
			l.write(w, name, got)
		case <-ctx.Done():
			refuse(w, name, context.Cause(ctx))
		}
		duration.WithLabelValues(name).Observe(time.Since(begun).Seconds())
	})
}

// run calls work, and turns a panic into an error.
func (l *limits) run(ctx context.Context, work worker, body []byte) (out result) {
	defer func() {
		if p := recover(); p != nil {
			klog.FromContext(ctx).Error(fmt.Errorf("panic: %v", p), "An answer failed", "stack", string(debug.Stack()))
			out = result{err: errPanic}
		}
	}()
	out.answer, out.err = work(ctx, body)
	return out
}

// write writes the answer or the error.
func (l *limits) write(w http.ResponseWriter, name string, got result) {
	if got.err != nil {
		refuse(w, name, got.err)
		return
	}
	requests.WithLabelValues(name, "ok").Inc()
	respond(w, http.StatusOK, got.answer)
}

// read reads the body of a request, which must be JSON if there may be one, before a point in time.
func read(w http.ResponseWriter, r *http.Request, maxBytes int64, before time.Time) ([]byte, error) {
	if maxBytes == 0 {
		return nil, nil
	}
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		return nil, &fault{
			http.StatusUnsupportedMediaType, "bad_request", errors.New("the body must be JSON, with Content-Type: application/json"),
		}
	}
	_ = http.NewResponseController(w).SetReadDeadline(before) // a recorder in a test has none
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBytes))
	_ = http.NewResponseController(w).SetReadDeadline(time.Time{})
	if large := (*http.MaxBytesError)(nil); errors.As(err, &large) {
		return nil, &fault{http.StatusRequestEntityTooLarge, "too_large", fmt.Errorf("the body is larger than %d bytes", large.Limit)}
	}
	if err != nil {
		return nil, bad("the body cannot be read: %w", err)
	}
	return body, nil
}

// problem is the body of every answer that is not 200.
type problem struct {
	Reason  string `json:"reason"`
	Message string `json:"message"`
}

// maxMessage is the number of bytes of an error's message, which may quote the request.
const maxMessage = 500

// refuse answers with an error and counts it by its reason.
func refuse(w http.ResponseWriter, name string, err error) {
	f := faultOf(err)
	requests.WithLabelValues(name, f.reason).Inc()
	respond(w, f.status, problem{f.reason, advise.Shorten(f.Error(), maxMessage)})
}

// faultOf gives an error its status and reason.
func faultOf(err error) *fault {
	var known *fault
	var undecided *plugin.Undecided
	switch {
	case errors.As(err, &known):
		return known
	case errors.Is(err, advise.ErrNotSynced):
		return &fault{http.StatusServiceUnavailable, "not_ready", err}
	case errors.Is(err, errDeadline), errors.Is(err, context.DeadlineExceeded):
		return &fault{http.StatusServiceUnavailable, "deadline", errDeadline}
	case errors.As(err, &undecided):
		return &fault{http.StatusServiceUnavailable, "undecided", err}
	case errors.Is(err, context.Canceled):
		return &fault{http.StatusServiceUnavailable, "gone", err}
	}
	return &fault{http.StatusInternalServerError, "error", err}
}

// respond writes a JSON document.
func respond(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // the caller may have gone
}

// door lets those in who have a client certificate or a token.
type door struct {
	config Config
	who    authenticator.Request
}

// newDoor reads the tokens. ca is nil if client certificates are not taken.
func newDoor(c Config, ca *dynamiccertificates.DynamicFileCAContent) (*door, error) {
	var ways []authenticator.Request
	if ca != nil {
		ways = append(ways, x509request.NewDynamic(ca.VerifyOptions, x509request.CommonNameUserConversion))
	}
	if c.TokenFile != "" {
		tokens, err := tokenfile.NewCSV(c.TokenFile)
		if err != nil {
			return nil, exit.New(exit.Usage, fmt.Errorf("read the tokens: %w", err), "a line of --token-auth-file is: token,user,uid")
		}
		ways = append(ways, bearertoken.New(tokens))
	}
	return &door{config: c, who: union.New(ways...)}, nil
}

var (
	errNoCredentials = errors.New("the request has neither a valid client certificate nor a valid bearer token")
	errNotAllowed    = errors.New("the caller's name is not among the allowed ones")
)

// guard answers 401 to callers that cannot be verified, and 403 to names that are not allowed.
func (d *door) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		caller, ok, err := d.who.AuthenticateRequest(r)
		switch {
		case err != nil || !ok: // the answer does not tell the exact fault
			w.Header().Set("WWW-Authenticate", "Bearer")
			refuse(w, "door", &fault{http.StatusUnauthorized, "unauthorized", errNoCredentials})
		case len(d.config.AllowedNames) > 0 && !slices.Contains(d.config.AllowedNames, caller.User.GetName()):
			refuse(w, "door", &fault{http.StatusForbidden, "forbidden", errNotAllowed})
		default:
			next.ServeHTTP(w, r)
		}
	})
}
