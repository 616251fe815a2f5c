package outage

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// apiServer is the transport to an API server that can go away. It serves a list of pods, and a watch
// that begins with the pods that were created since.
type apiServer struct {
	mu      sync.Mutex
	gone    bool
	hangs   bool // gives no answer at all while it is gone; otherwise it refuses connections
	pods    []corev1.Pod
	streams []*io.PipeWriter
	asked   int            // questions about its health while it is gone
	refused map[string]int // other requests while it is gone, by method
}

var errRefused = &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}

// leave ends all watches.
func (s *apiServer) leave(hangs bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.gone, s.hangs, s.refused = true, hangs, map[string]int{}
	if hangs {
		return
	}
	for _, w := range s.streams {
		w.CloseWithError(io.ErrUnexpectedEOF)
	}
	s.streams = nil
}

func (s *apiServer) comeBack() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.gone = false
}

// create makes a pod, which watches show.
func (s *apiServer) create(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := corev1.Pod{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}, ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", ResourceVersion: fmt.Sprint(len(s.pods) + 2)}}
	s.pods = append(s.pods, p)
	for _, w := range s.streams {
		go show(w, p)
	}
}

func show(w io.Writer, pods ...corev1.Pod) {
	for _, p := range pods {
		_ = json.NewEncoder(w).Encode(map[string]any{"type": "ADDED", "object": p}) // the watch may have ended
	}
}

func (s *apiServer) ask(ctx context.Context) error {
	s.mu.Lock()
	gone, hangs := s.gone, s.hangs
	if gone {
		s.asked++
	}
	s.mu.Unlock()
	switch {
	case !gone:
		return nil
	case hangs:
		<-ctx.Done()
		return ctx.Err()
	}
	return errRefused
}

// RoundTrip implements http.RoundTripper.
func (s *apiServer) RoundTrip(r *http.Request) (*http.Response, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.gone {
		s.refused[r.Method]++
		return nil, errRefused
	}
	q := r.URL.Query()
	switch {
	case r.Method == http.MethodPost:
		b, err := io.ReadAll(r.Body)
		return &http.Response{StatusCode: http.StatusCreated, Body: io.NopCloser(strings.NewReader(string(b))), Request: r}, err
	case q.Get("sendInitialEvents") != "": // clients then list
		return answer(r, http.StatusBadRequest, metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusFailure, Code: http.StatusBadRequest})
	case q.Get("watch") != "":
		from, w := io.Pipe()
		s.streams = append(s.streams, w)
		var since int
		fmt.Sscan(q.Get("resourceVersion"), &since)
		go show(w, s.pods[since-1:]...)
		return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}}, Body: from, Request: r}, nil
	}
	return answer(r, http.StatusOK, corev1.PodList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PodList"}, ListMeta: metav1.ListMeta{ResourceVersion: fmt.Sprint(len(s.pods) + 1)}, Items: s.pods})
}

func answer(r *http.Request, status int, o any) (*http.Response, error) {
	b, err := json.Marshal(o)
	return &http.Response{StatusCode: status, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(string(b))), Request: r}, err
}

// watched starts a server and an informer of its pods, whose requests pass through wrap. sees returns
// whether the informer knows a pod.
func watched(t *testing.T, s *apiServer, wrap func(http.RoundTripper) http.RoundTripper) (sees func(pod string) bool) {
	t.Helper()
	client, err := kubernetes.NewForConfig(&rest.Config{Host: "http://api", Transport: wrap(s)})
	if err != nil {
		t.Fatal(err)
	}
	f := informers.NewSharedInformerFactory(client, 0)
	store := f.Core().V1().Pods().Informer().GetStore()
	f.StartWithContext(t.Context())
	f.WaitForCacheSync(t.Context().Done())
	return func(pod string) bool {
		_, known, err := store.GetByKey("default/" + pod)
		return known && err == nil
	}
}

// start runs a gate until the test ends, and returns its log and the seconds that it counted.
func start(t *testing.T, ask func(context.Context) error) (g *Gate, log func() string, seconds func() float64) {
	var mu sync.Mutex
	var lines []string
	var counted float64
	g = newGate(ask, funcr.New(func(_, line string) {
		mu.Lock()
		defer mu.Unlock()
		lines = append(lines, line)
	}, funcr.Options{}), func(s float64) { mu.Lock(); counted += s; mu.Unlock() })
	go g.Run(t.Context())
	return g, func() string { mu.Lock(); defer mu.Unlock(); return strings.Join(lines, "\n") }, func() float64 { mu.Lock(); defer mu.Unlock(); return counted }
}

// after returns the time until a pod that is created when the server comes back is seen.
func after(s *apiServer, sees func(string) bool, outage time.Duration, pod string) time.Duration {
	time.Sleep(30 * time.Second)
	s.leave(false)
	time.Sleep(outage)
	s.comeBack()
	s.create(pod)
	back := time.Now()
	for !sees(pod) {
		time.Sleep(10 * time.Millisecond)
	}
	return time.Since(back)
}

// After an outage, an informer behind a gate sees a new pod within a second. A plain informer waits for
// its next try, and is late at least once in ten outages of a minute.
func TestInformerSeesNewPodSoon(t *testing.T) {
	const outages = 10
	synctest.Test(t, func(t *testing.T) {
		s := &apiServer{}
		g, log, seconds := start(t, s.ask)
		sees := watched(t, s, g.Wrap)
		for i := range outages {
			if took := after(s, sees, time.Minute, fmt.Sprint("new-", i)); took > time.Second {
				t.Errorf("outage %d: the pod was seen after %v", i, took)
			}
		}
		if n := strings.Count(log(), "The API server is gone"); n != outages {
			t.Errorf("%d lines about outages, want %d:\n%s", n, outages, log())
		}
		if n := strings.Count(log(), `The API server is back" "after"="1m0`); n != outages {
			t.Errorf("%d lines about the server's return, want %d:\n%s", n, outages, log())
		}
		if got := seconds(); got < 60*outages || got > 61*outages {
			t.Errorf("%v seconds were counted, want %d outages of a minute", got, outages)
		}
		if s.refused[http.MethodGet] > 1 || s.asked < 200*outages {
			t.Errorf("in the last outage the server was sent %v, and %d questions in all", s.refused, s.asked)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		s := &apiServer{}
		sees := watched(t, s, func(rt http.RoundTripper) http.RoundTripper { return rt })
		var longest time.Duration
		for i := range outages {
			longest = max(longest, after(s, sees, time.Minute, fmt.Sprint("new-", i)))
		}
		if longest < 10*time.Second {
			t.Errorf("a plain informer never needed more than %v: is the gate still of use?", longest)
		}
	})
}

// A server that hangs is noticed although no request fails.
func TestServerHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &apiServer{}
		g, log, _ := start(t, s.ask)
		time.Sleep(time.Minute)
		s.leave(true)
		time.Sleep(askUp + patience + time.Second)
		if away, is := g.Away(); !is || away < patience {
			t.Errorf("after 16 s: away %v for %v", is, away)
		}
		s.comeBack()
		time.Sleep(patience + time.Second)
		if _, is := g.Away(); is || !strings.Contains(log(), "is back") {
			t.Errorf("it is still away:\n%s", log())
		}
	})
}

// Requests of every method that come during an outage are sent after it, with their bodies.
func TestRequestsWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &apiServer{}
		g, _, _ := start(t, s.ask)
		client := http.Client{Transport: g.Wrap(s)}
		s.leave(false)
		time.AfterFunc(20*time.Second, s.comeBack)
		for range 2 { // the first finds the server gone, the second is held from the start
			response, err := client.Post("http://api/bindings", "text/plain", strings.NewReader("a binding"))
			if err != nil {
				t.Fatal(err)
			}
			b, err := io.ReadAll(response.Body)
			if err != nil || string(b) != "a binding" {
				t.Errorf("the server read %q, %v", b, err)
			}
			s.leave(false)
			time.AfterFunc(20*time.Second, s.comeBack)
			time.Sleep(10 * time.Second)
		}
	})
}

// failing is a transport that breaks after the request was sent.
type failing struct{ sent int }

func (f *failing) RoundTrip(*http.Request) (*http.Response, error) {
	f.sent++
	return nil, io.ErrUnexpectedEOF
}

// A request that may have reached the server is not repeated unless it only reads. If it fails although
// the server answers everything else, it is given up.
func TestWhatIsRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, log, _ := start(t, func(context.Context) error { return nil })
		for method, want := range map[string]int{http.MethodPost: 1, http.MethodPut: 1, http.MethodDelete: 1, http.MethodGet: attempts} {
			f := &failing{}
			r, err := http.NewRequestWithContext(t.Context(), method, "http://api", strings.NewReader("x"))
			if err != nil {
				t.Fatal(err)
			}
			if _, err := g.Wrap(f).RoundTrip(r); !errors.Is(err, io.ErrUnexpectedEOF) || f.sent != want {
				t.Errorf("%s was sent %d times, want %d; %v", method, f.sent, want, err)
			}
		}
		if log() != "" {
			t.Errorf("an outage is logged, but the server always answered:\n%s", log())
		}
	})
}

// Whoever waits for the server ends with its own context, or with the gate.
func TestWaitsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &apiServer{}
		s.leave(false)
		g := newGate(s.ask, logr.Discard(), func(float64) {})
		run, stop := context.WithCancel(t.Context())
		go g.Run(run)
		time.Sleep(askUp + time.Second)
		short, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		if err := g.Wait(short); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a wait of two seconds ended with %v", err)
		}
		time.AfterFunc(time.Second, stop)
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://api", nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := g.Wrap(s).RoundTrip(r); !errors.Is(err, errEnded) {
			t.Errorf("a request ended with %v when the gate did", err)
		}
	})
}
