package serve

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strconv"
	"time"

	v1 "k8s.io/api/core/v1"
	genericserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	"k8s.io/apiserver/pkg/server/options"
	"k8s.io/component-base/metrics/legacyregistry"

	"gnnsched/internal/exit"
	"gnnsched/internal/files"
	"gnnsched/internal/metric"
	"gnnsched/scheduler/advise"
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
	s := &Server{config: c, adviser: a, limits: newLimits(c.InFlight, c.Timeout), begun: time.Now()}
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

// allowed reports whether a name is among the allowed ones.
func (c Config) allowed(name string) bool {
	return len(c.AllowedNames) == 0 || slices.Contains(c.AllowedNames, name)
}
