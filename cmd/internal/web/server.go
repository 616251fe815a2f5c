package web

import (
	"cmp"
	"context"
	"embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/clock"

	"gnnsched/cmd/internal/top/state"
	"gnnsched/internal/exit"
	"gnnsched/internal/metric"
	"gnnsched/scheduler/decision"
	"gnnsched/scheduler/plugin/learningcurve"
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
