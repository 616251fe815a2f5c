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
	away    string // refusing, hanging or failing; empty while it is there
	pods    []corev1.Pod
	streams []*io.PipeWriter
	asked   int            // questions about its health while it is away
	refused map[string]int // other requests while it is away, by method
}

var errRefused = &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}

// How a server is away.
const (
	refusing = "refusing" // connections
	hanging  = "hanging"  // without an answer
	failing  = "failing"  // with status 503 for everything
)

// leave ends all watches, unless the server hangs.
func (s *apiServer) leave(how string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.away, s.refused = how, map[string]int{}
	if how == hanging {
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
	s.away = ""
}

// create makes a pod, which watches show.
func (s *apiServer) create(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := corev1.Pod{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", ResourceVersion: fmt.Sprint(len(s.pods) + 2)}}
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
	away := s.away
	if away != "" {
		s.asked++
	}
	s.mu.Unlock()
	switch away {
	case refusing:
		return errRefused
	case hanging:
		<-ctx.Done()
		return ctx.Err()
	case failing:
		return failure{"503 Service Unavailable"}
	}
	return nil
}

// RoundTrip implements http.RoundTripper.
func (s *apiServer) RoundTrip(r *http.Request) (*http.Response, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.away != "" {
		s.refused[r.Method]++
	}
	switch s.away {
	case failing:
		return answer(r, http.StatusServiceUnavailable, metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"},
			Status: metav1.StatusFailure, Code: http.StatusServiceUnavailable})
	case refusing, hanging:
		return nil, errRefused
	}
	q := r.URL.Query()
	switch {
	case r.Method == http.MethodPost:
		b, err := io.ReadAll(r.Body)
		return &http.Response{StatusCode: http.StatusCreated, Body: io.NopCloser(strings.NewReader(string(b))), Request: r}, err
	case q.Get("sendInitialEvents") != "": // clients then list
		return answer(r, http.StatusBadRequest, metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"},
			Status: metav1.StatusFailure, Code: http.StatusBadRequest})
	case q.Get("watch") != "":
		from, w := io.Pipe()
		s.streams = append(s.streams, w)
		var since int
		fmt.Sscan(q.Get("resourceVersion"), &since)
		go show(w, s.pods[since-1:]...)
		return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}}, Body: from, Request: r}, nil
	}
	return answer(r, http.StatusOK, corev1.PodList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PodList"},
		ListMeta: metav1.ListMeta{ResourceVersion: fmt.Sprint(len(s.pods) + 1)}, Items: s.pods})
}

func answer(r *http.Request, status int, o any) (*http.Response, error) {
	b, err := json.Marshal(o)
	return &http.Response{StatusCode: status, Header: http.Header{"Content-Type": {"application/json"}},
		Body: io.NopCloser(strings.NewReader(string(b))), Request: r}, err
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
	return g, func() string { mu.Lock(); defer mu.Unlock(); return strings.Join(lines, "\n") },
		func() float64 { mu.Lock(); defer mu.Unlock(); return counted }
}

// after returns the time until a pod that is created when the server comes back is seen.
func after(s *apiServer, how string, sees func(string) bool, outage time.Duration, pod string) time.Duration {
	time.Sleep(30 * time.Second)
	s.leave(how)
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
	for how, most := range map[string]int{
		refusing: 1,
		failing:  3, // the watch breaks, and is tried again while the server is doubted
	} {
		t.Run(how, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &apiServer{}
				g, log, seconds := start(t, s.ask)
				sees := watched(t, s, g.Wrap)
				for i := range outages {
					if took := after(s, how, sees, time.Minute, fmt.Sprint("new-", i)); took > time.Second {
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
				if s.refused[http.MethodGet] > most || s.asked < 200*outages {
					t.Errorf("in the last outage the server was sent %v, and %d questions in all", s.refused, s.asked)
				}
			})
		})
	}
	synctest.Test(t, func(t *testing.T) {
		s := &apiServer{}
		sees := watched(t, s, func(rt http.RoundTripper) http.RoundTripper { return rt })
		var longest time.Duration
		for i := range outages {
			longest = max(longest, after(s, refusing, sees, time.Minute, fmt.Sprint("new-", i)))
		}
		if longest < 10*time.Second {
			t.Errorf("a plain informer never needed more than %v: is the gate still of use?", longest)
		}
	})
}

// A server that fails for less than a second is not away.
func TestShortFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &apiServer{}
		g, log, seconds := start(t, s.ask)
		client := http.Client{Transport: g.Wrap(s)}
		for range 20 {
			s.leave(failing)
			time.AfterFunc((convincing-2)*askAway, s.comeBack)
			if r, err := client.Get("http://api"); err != nil || r.StatusCode != http.StatusOK {
				t.Errorf("a request during the failure: %v, %v", r, err)
			}
			time.Sleep(time.Second)
		}
		if log() != "" || seconds() != 0 {
			t.Errorf("%v seconds, %s", seconds(), log())
		}
	})
}

// A server that hangs is noticed although no request fails.
func TestServerHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &apiServer{}
		g, log, _ := start(t, s.ask)
		time.Sleep(time.Minute)
		s.leave(hanging)
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
		s.leave(refusing)
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
			s.leave(refusing)
			time.AfterFunc(20*time.Second, s.comeBack)
			time.Sleep(10 * time.Second)
		}
	})
}

// breaking is a transport that breaks after the request was sent.
type breaking struct{ sent int }

func (f *breaking) RoundTrip(*http.Request) (*http.Response, error) {
	f.sent++
	return nil, io.ErrUnexpectedEOF
}

// A request that may have reached the server is not repeated unless it only reads. If it fails although
// the server answers everything else, it is given up.
func TestWhatIsRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, log, _ := start(t, func(context.Context) error { return nil })
		for method, want := range map[string]int{http.MethodPost: 1, http.MethodPut: 1, http.MethodDelete: 1, http.MethodGet: attempts} {
			f := &breaking{}
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

// A request that reads is sent again if the server fails to answer it, but not for ever. That is no outage
// while the server serves others, nor is a server that is busy.
func TestSingleFailures(t *testing.T) {
	for name, c := range map[string]struct {
		method   string
		answers  []int
		sent     int
		received int
	}{
		"passes":    {http.MethodGet, []int{500, 503, 200}, 3, 200},
		"stays":     {http.MethodGet, []int{500, 500, 500, 500}, attempts, 500},
		"writes":    {http.MethodPost, []int{500}, 1, 500},
		"busy":      {http.MethodGet, []int{429}, 1, 429},
		"forbidden": {http.MethodGet, []int{403}, 1, 403},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g, log, _ := start(t, func(context.Context) error { return nil })
				sent := 0
				client := http.Client{Transport: g.Wrap(roundTripper(func(r *http.Request) (*http.Response, error) {
					sent++
					return answer(r, c.answers[sent-1], nil)
				}))}
				r, err := http.NewRequestWithContext(t.Context(), c.method, "http://api", strings.NewReader("x"))
				if err != nil {
					t.Fatal(err)
				}
				response, err := client.Do(r)
				if err != nil || response.StatusCode != c.received || sent != c.sent || log() != "" {
					t.Errorf("sent %d times, want %d; received %v, %v; %s", sent, c.sent, response, err, log())
				}
			})
		})
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// Whoever waits for the server ends with its own context, or with the gate.
func TestWaitsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &apiServer{}
		s.leave(refusing)
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
