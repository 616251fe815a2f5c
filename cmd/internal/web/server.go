package web

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"embed"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	ucli "github.com/urfave/cli/v2"
	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"gnnsched/cmd/internal/top/state"
	"gnnsched/internal/cli"
	"gnnsched/internal/exit"
	"gnnsched/internal/metric"
	"gnnsched/scheduler/decision"
	"gnnsched/scheduler/plugin"
	"gnnsched/scheduler/plugin/learningcurve"
	"gnnsched/scheduler/shadow"
	measured "gnnsched/scheduler/usage"
)

// config holds the served sources and the address.
type config struct {
	Address    string // HOST:PORT, of addressOf
	Title      string // names the cluster
	Client     kubernetes.Interface
	Book       *decision.Book                        // the scheduler's decisions; nil if it keeps none
	Shadow     inShadow                              // nil for a scheduler that places pods
	Checkpoint string                                // file with the deciding weights; empty: the shipped ones
	Curves     *learningcurve.Sampler                // of the scheduler's learning; nil if it has none
	Usage      func() []measured.Report              // of the scheduler's sources of usage; nil if it has none
	Race       func() Race                           // contenders on the same arrivals; nil if there are none
	Log        logr.Logger                           // client-go's messages; the zero value drops them
	Out        io.Writer                             // gets the line with the address and its key
	Clock      clock.WithTicker                      // nil means the real one
	read       func(context.Context) (source, error) // nil means to watch Client
	door       *door                                 // nil means a new key
	patience   time.Duration                         // time for a client to read a message; 0 means 10 s
	grace      time.Duration                         // time for requests after the end, before connections close; 0: 5 s
}

// source is the state of the cluster, as ktop has it. A *state.Source is one.
type source interface {
	Frame(maxPending int) state.Frame
	Details(state.Ask) state.Details
	Stop()
}

// server is the page's server.
type server struct {
	config  config
	door    door
	feed    *feed
	heard   uint64        // decisions already sent to the clients
	asking  chan struct{} // holds a value while a question about details is answered
	tasks   sync.WaitGroup
	playing chan struct{}          // holds a value while the sandbox runs
	source  atomic.Pointer[source] // nil until the cluster is read

	requests requests // that are being answered
}

// Times and sizes of the HTTP server.
const (
	headerTimeout = 10 * time.Second
	idleTimeout   = time.Minute
	writeTimeout  = 30 * time.Second // of an answer; streams set their own
	maxHeader     = 16 << 10
	// againAfter is the pause before the cluster is tried to be read again.
	againAfter = 5 * time.Second
)

// start serves the page at address, with its key, until ctx ends or stop is called. stop waits until everything that it began has ended.
// Errors have exit code 2.
func start(ctx context.Context, c config) (address string, stop func(), err error) {
	s := newServer(c)
	socket, err := net.Listen("tcp", c.Address)
	if err != nil {
		return "", nil, exit.New(exit.Usage, fmt.Errorf("--%s: %w", Flag, err), "choose another port, or 0 for any that is free")
	}
	ctx, cancel := context.WithCancel(ctx)
	h := &http.Server{
		Handler: s.handler(), ReadHeaderTimeout: headerTimeout, IdleTimeout: idleTimeout, WriteTimeout: writeTimeout, MaxHeaderBytes: maxHeader,
		BaseContext: func(net.Listener) context.Context { return ctx },
	}
	s.tasks.Go(func() { s.readCluster(ctx) })
	s.tasks.Go(func() { s.publish(ctx) })
	s.tasks.Go(func() {
		if err := h.Serve(socket); !errors.Is(err, http.ErrServerClosed) {
			s.config.Log.Error(err, "The page is not served any more")
		}
	})
	s.tasks.Go(func() {
		<-ctx.Done()
		within, end := context.WithTimeout(context.WithoutCancel(ctx), s.config.grace)
		defer end()
		if h.Shutdown(within) != nil {
			_ = h.Close() // only connections are left, and they close all the same
		}
	})
	address = fmt.Sprintf("http://%s/?key=%s", socket.Addr(), s.door.key)
	if c.Race != nil {
		address += "#race"
	}
	if c.Out != nil {
		fmt.Fprintf(c.Out, "Open %s in a browser\n", address)
	}
	return address, func() { cancel(); s.tasks.Wait(); s.requests.end() }, nil
}

// newServer returns a server that does nothing yet.
func newServer(c config) *server {
	c.Clock = cmp.Or[clock.WithTicker](c.Clock, clock.RealClock{})
	c.patience, c.grace = cmp.Or(c.patience, 10*time.Second), cmp.Or(c.grace, 5*time.Second)
	if c.read == nil {
		c.read = func(ctx context.Context) (source, error) {
			return state.Start(ctx, state.Config{Client: c.Client, Log: c.Log})
		}
	}
	s := &server{config: c, feed: newFeed(), asking: make(chan struct{}, 1), playing: make(chan struct{}, 1)}
	if c.door != nil {
		s.door = *c.door
	} else {
		s.door = newDoor()
	}
	return s
}

// readCluster reads the cluster until ctx ends, and begins again as long as the first list fails.
func (s *server) readCluster(ctx context.Context) {
	for {
		src, err := s.config.read(ctx)
		if err == nil {
			s.source.Store(&src)
			s.feed.kick()
			<-ctx.Done()
			src.Stop()
			return
		}
		s.tell(topicTrouble, trouble{Message: state.Printable(err.Error())})
		select {
		case <-ctx.Done():
			return
		case <-s.config.Clock.After(againAfter):
		}
	}
}

// handler returns all paths behind the door.
func (s *server) handler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /", files())
	mux.HandleFunc("GET /api/stream", s.stream)
	mux.HandleFunc("GET /api/node", s.node)
	mux.HandleFunc("GET /api/decision", s.decision)
	mux.HandleFunc("GET /api/pending", s.pendingPods)
	mux.HandleFunc("GET /api/placed", s.placements)
	mux.HandleFunc("GET /api/events", s.events)
	mux.HandleFunc("GET /api/sandbox", s.sandboxOptions)
	mux.HandleFunc("POST /api/sandbox", s.play)
	mux.HandleFunc("POST /api/sandbox/scenario", s.scenario)
	return s.requests.counted(metric.GuardSlowClients(s.door.guard(mux), metric.SlowClientLimit))
}

// requests counts the requests that are being answered. Closing an HTTP server does not wait for them.
type requests struct {
	mu    sync.Mutex
	ended bool
	open  sync.WaitGroup
}

// counted counts the requests to next. After the end there are none.
func (q *requests) counted(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !q.begin() {
			http.Error(w, "the scheduler stops", http.StatusServiceUnavailable)
			return
		}
		defer q.open.Done()
		next.ServeHTTP(w, r)
	})
}

func (q *requests) begin() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.ended {
		q.open.Add(1)
	}
	return !q.ended
}

// end refuses new requests and waits for the running ones.
func (q *requests) end() {
	q.mu.Lock()
	q.ended = true
	q.mu.Unlock()
	q.open.Wait()
}

//go:embed assets
var embedded embed.FS

// files serves the page's own files.
func files() http.Handler {
	root, err := fs.Sub(embedded, "assets")
	if err != nil {
		panic(err) // the folder is part of the program
	}
	return http.FileServerFS(root)
}

// door lets in requests from this machine that have the key. Other users of the machine can reach the port too.
type door struct {
	key    string
	cookie string // its name; all ports of a host share cookies, so each scheduler has its own name
	ticket string // opens the door once, in place of the key: other users see the arguments of a browser
	used   *atomic.Bool
}

func newDoor() door { return doorWith(newKey()) }

func newKey() string {
	key := make([]byte, 16)
	_, _ = rand.Read(key) // never fails
	return base64.RawURLEncoding.EncodeToString(key)
}

func doorWith(key string) door {
	sum := sha256.Sum256([]byte(key))
	return door{key: key, cookie: "gnnsched-" + hex.EncodeToString(sum[:4]), ticket: newKey(), used: &atomic.Bool{}}
}

// contentPolicy allows the page's own files only.
const contentPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; base-uri 'none'; " +
	"form-action 'none'; frame-ancestors 'none'"

// guard answers the requests that the door refuses.
func (d door) guard(next http.Handler) http.Handler {
	sameOrigin := http.NewCrossOriginProtection().Handler(next) // of requests that change or cost something
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", contentPolicy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Cache-Control", "no-store")
		switch {
		case !loopback(hostOf(r)):
			// A page elsewhere whose name was made to resolve to this machine.
			http.Error(w, "this server answers at localhost and 127.0.0.1 only", http.StatusMisdirectedRequest)
		case r.Method == http.MethodGet && r.URL.Path == "/" && d.opens(r.URL.Query().Get("key")):
			http.SetCookie(w, &http.Cookie{Name: d.cookie, Value: d.key, Path: "/", HttpOnly: true, SameSite: http.SameSiteStrictMode})
			http.Redirect(w, r, "/", http.StatusSeeOther) // so that the key does not stay in the address bar
		case !d.knows(r):
			http.Error(w, "Open the address that the scheduler printed when it started: it has the key.", http.StatusUnauthorized)
		case foreign(r):
			http.Error(w, "a page of another server asks", http.StatusForbidden)
		default:
			sameOrigin.ServeHTTP(w, r)
		}
	})
}

func (d door) is(key string) bool { return subtle.ConstantTimeCompare([]byte(key), []byte(d.key)) == 1 }

// opens reports whether a key is the door's, or its ticket, which is then used up.
func (d door) opens(key string) bool {
	return d.is(key) || subtle.ConstantTimeCompare([]byte(key), []byte(d.ticket)) == 1 && d.used.CompareAndSwap(false, true)
}

// knows reports whether the request has the key in its cookie.
func (d door) knows(r *http.Request) bool {
	c, err := r.Cookie(d.cookie)
	return err == nil && d.is(c.Value)
}

// foreign reports whether the browser marks the request as another page's, unless it is only a link to this page. Pages at other ports of
// this machine get the cookie, too.
func foreign(r *http.Request) bool {
	site := r.Header.Get("Sec-Fetch-Site")
	link := r.URL.Path == "/" && r.Header.Get("Sec-Fetch-Mode") == "navigate"
	return site != "" && site != "same-origin" && site != "none" && !link
}

func hostOf(r *http.Request) string {
	if host, _, err := net.SplitHostPort(r.Host); err == nil {
		return host
	}
	return r.Host
}

// Flag is the name of the schedulers' flag.
const Flag = "http"

// Flags returns the flags of a scheduler that serves the page.
func Flags() []ucli.Flag {
	return []ucli.Flag{
		&ucli.StringFlag{Name: Flag, Usage: "serve a page for a browser at `ADDRESS`, a port or 127.0.0.1:PORT; 0 for any. " +
			"Prints its link, off a terminal into a file"},
	}
}

// Check returns an error with exit code 2 if the flag's value is wrong.
func Check(c *ucli.Context) error {
	if !c.IsSet(Flag) {
		return nil
	}
	_, err := addressOf(c.String(Flag))
	return err
}

// Shown is the cluster and the scheduler that the page shows.
type Shown struct {
	Title     string // names the cluster
	Client    kubernetes.Interface
	Recording plugin.Recording // of the scheduler; may hold nothing
	// Shadow returns the findings so far of a shadow scheduler; nil for a scheduler that places pods.
	Shadow func(context.Context) (shadow.Live, error)
	Race   func() Race          // contenders on the same arrivals, which the page opens on; nil if there are none
	Opened func(address string) // is called with an address of the page that opens it once; may be nil
}

// Serve starts the page if the flag has a value. stop ends it.
func Serve(c *ucli.Context, of Shown) (stop func(), err error) {
	if c.String(Flag) == "" {
		return func() {}, nil
	}
	address, err := addressOf(c.String(Flag))
	if err != nil {
		return nil, err
	}
	out, remove, err := linkTo(c.App.ErrWriter, cli.OnTerminal())
	if err != nil {
		return nil, err
	}
	d := newDoor()
	link, end, err := start(c.Context, config{
		door: &d, Address: address, Title: of.Title, Client: of.Client, Book: of.Recording.Book, Curves: of.Recording.Curves,
		Shadow: of.Shadow, Race: of.Race, Usage: measured.Reports, Checkpoint: c.String("checkpoint"),
		Log: klog.Background(), Out: out,
	})
	if err != nil {
		remove()
		return nil, err
	}
	if of.Opened != nil {
		of.Opened(strings.Replace(link, d.key, d.ticket, 1))
	}
	return func() { end(); remove() }, nil
}

// linkTo returns where the link with the page's key is written: a terminal, else a file for this user alone, since others may read logs.
func linkTo(errs io.Writer, terminal bool) (out io.Writer, remove func(), err error) {
	if terminal {
		return errs, func() {}, nil
	}
	f, err := os.CreateTemp("", "gnnsched-page-*")
	if err != nil {
		return nil, nil, exit.New(exit.Usage, fmt.Errorf("--%s: a file for the link: %w", Flag, err), "name a folder with TMPDIR")
	}
	fmt.Fprintf(errs, "The link to the page is in %s\n", f.Name())
	return f, func() { f.Close(); os.Remove(f.Name()) }, nil
}

// addressOf returns HOST:PORT of the flag's value, in which the host may be missing. Other hosts than loopback are usage
// errors.
func addressOf(text string) (string, error) {
	host, port := "", text
	if strings.Contains(text, ":") {
		var err error
		if host, port, err = net.SplitHostPort(text); err != nil {
			return "", exit.New(exit.Usage, fmt.Errorf("--%s %q is no address", Flag, text), "for example --http 8080 or --http 127.0.0.1:8080")
		}
	}
	if n, err := strconv.Atoi(port); err != nil || n < 0 || n > 65535 {
		return "", exit.New(exit.Usage, fmt.Errorf("--%s %q: the port must be 1 to 65535, or 0 for any", Flag, text), "for example --http 8080")
	}
	host = cmp.Or(host, "127.0.0.1")
	if !loopback(host) {
		return "", exit.New(exit.Usage, fmt.Errorf("--%s serves on this machine only, and %q is not loopback", Flag, host),
			fmt.Sprintf("serve on loopback, and reach it with `ssh -L %s:127.0.0.1:%s HOST` or `kubectl port-forward POD %s`", port, port, port))
	}
	return net.JoinHostPort(host, port), nil
}

// loopback reports whether a host, without a port, is this machine's loopback interface.
func loopback(host string) bool {
	ip := net.ParseIP(strings.Trim(host, "[]"))
	return strings.EqualFold(host, "localhost") || ip != nil && ip.IsLoopback()
}
