package server

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"

	"gnnsched/internal/exit"
	"gnnsched/internal/fatal"
	"gnnsched/scheduler/plugin/learningcurve"
	"gnnsched/scheduler/plugin/userconfig"
	"gnnsched/scheduler/usage"
)

// candidate is a process that wants to lead.
type candidate struct {
	mu    sync.Mutex
	lines []string
	leads chan struct{}
	stop  context.CancelFunc
	done  chan struct{}
}

func (c *candidate) log() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return strings.Join(c.lines, "\n")
}

// stand starts a candidate. Its election has a lease that does not expire during the test.
func stand(t *testing.T, client kubernetes.Interface, name string) *candidate {
	c := &candidate{leads: make(chan struct{}), done: make(chan struct{})}
	ctx := klog.NewContext(t.Context(), funcr.New(func(_, line string) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.lines = append(c.lines, line)
	}, funcr.Options{}))
	ctx, c.stop = context.WithCancel(ctx)
	e := leaderelection.LeaderElectionConfig{
		Lock: &resourcelock.LeaseLock{
			LeaseMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: userconfig.LeaseName}, Client: client.CoordinationV1(),
			LockConfig: resourcelock.ResourceLockConfig{Identity: name},
		},
		LeaseDuration: time.Hour, RenewDeadline: time.Minute, RetryPeriod: 50 * time.Millisecond,
		Callbacks: leaderelection.LeaderCallbacks{OnStartedLeading: func(context.Context) { close(c.leads) }, OnStoppedLeading: func() {}},
	}
	lock := announce(ctx, &e)
	elector, err := leaderelection.NewLeaderElector(e)
	fatal.If(t, err)
	go func() {
		defer close(c.done)
		elector.Run(ctx)
		lock.close()
	}()
	return c
}

// A standby says who leads. A leader that is told to stop gives the lease back, and the standby leads
// long before the lease would have expired.
func TestStandbyTakesOver(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	client := fake.NewClientset()
	first := stand(t, client, "first")
	<-first.leads
	second := stand(t, client, "second")
	for !strings.Contains(second.log(), `Standby: another scheduler leads" "leader"="first"`) {
		time.Sleep(10 * time.Millisecond)
	}
	if strings.Contains(second.log(), "it schedules") || !strings.Contains(first.log(), "it schedules") {
		t.Errorf("the first says %s, the second %s", first.log(), second.log())
	}
	first.stop()
	<-first.done
	lease, err := client.CoordinationV1().Leases(metav1.NamespaceSystem).Get(t.Context(), userconfig.LeaseName, metav1.GetOptions{})
	if err != nil || (lease.Spec.HolderIdentity != nil && *lease.Spec.HolderIdentity == "first") {
		t.Errorf("the first did not give the lease back: %v, %v", lease, err)
	}
	<-second.leads
	second.stop()
	<-second.done
	noFiles(t)
}

func noFiles(t *testing.T) {
	t.Helper()
	if left, err := os.ReadDir(os.TempDir()); err != nil || len(left) > 0 {
		t.Errorf("processes leave %v, %v", left, err)
	}
}

// A standby follows a leader that was killed on the same machine before the lease expires, and removes what the killed one left.
func TestStandbyFollowsKilled(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	lock, err := lockAlive("first")
	fatal.If(t, err)
	if ended("first") || ended("elsewhere") {
		t.Error("a process that lives, or of which nothing is known, counts as killed")
	}
	now := metav1.NowMicro()
	client := fake.NewClientset(&coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: userconfig.LeaseName},
		Spec: coordinationv1.LeaseSpec{HolderIdentity: ptr.To("first"), LeaseDurationSeconds: ptr.To[int32](3600), AcquireTime: &now,
			RenewTime: &now},
	})
	second := stand(t, client, "second")
	for !strings.Contains(second.log(), `Standby: another scheduler leads" "leader"="first"`) {
		time.Sleep(10 * time.Millisecond)
	}
	fatal.If(t, lock.Close()) // as the kernel does
	<-second.leads
	second.stop()
	<-second.done
	noFiles(t)
}

// Everything that keeps books of one cluster competes for one lease, whatever its profiles.
func TestOneLease(t *testing.T) {
	for _, names := range [][]string{{"gnn"}, {"fgd", DefaultProfile}} {
		c := Config{QPS: 50, LeaderElect: true}
		for _, n := range names {
			p, err := ProfileNamed(n)
			fatal.If(t, err)
			c.Profiles = append(c.Profiles, p)
		}
		y, err := c.YAML()
		fatal.If(t, err)
		if !strings.Contains(string(y), "resourceName: gnnsched\n") {
			t.Errorf("%v: %s", names, y)
		}
	}
}

// doors are the paths of the endpoint: everybody may read the health, a token opens the rest, and the
// paths for profiling exist only where it is turned on.
var doors = []struct {
	method, path    string
	open, profiling bool
}{
	{method: http.MethodGet, path: "/healthz", open: true},
	{method: http.MethodGet, path: "/livez", open: true},
	{method: http.MethodGet, path: "/readyz", open: true},
	{method: http.MethodGet, path: "/readyz?verbose", open: true},
	{method: http.MethodGet, path: "/"},
	{method: http.MethodGet, path: "/healthz/ping"},
	{method: http.MethodGet, path: "/metrics"},
	{method: http.MethodGet, path: "/metrics/resources"},
	{method: http.MethodGet, path: "/metrics/slis"},
	{method: http.MethodGet, path: "/configz"},
	{method: http.MethodGet, path: "/flagz"},
	{method: http.MethodGet, path: "/statusz"},
	{method: http.MethodGet, path: learningcurve.Path},
	{method: http.MethodGet, path: usage.Path},
	{method: http.MethodGet, path: "/debug/pprof/", profiling: true},
	{method: http.MethodGet, path: "/debug/pprof/heap", profiling: true},
	{method: http.MethodPut, path: "/debug/flags/v", profiling: true},
}

// Strange tokens, which anybody may send, are refused and do not fill the log.
func TestStrangeTokens(t *testing.T) {
	lines := 0
	ctx := klog.NewContext(t.Context(), funcr.New(func(string, string) { lines++ }, funcr.Options{}))
	strange := tokenUnlessHealth(authenticator.RequestFunc(func(*http.Request) (*authenticator.Response, bool, error) {
		return nil, false, errors.New("invalid bearer token")
	}))
	for range 1000 {
		if _, ok, err := strange.AuthenticateRequest(httptest.NewRequestWithContext(ctx, http.MethodGet, "/metrics", nil)); ok || err != nil {
			t.Fatal("let in, or logged by upstream:", ok, err)
		}
	}
	if lines < 1 || lines > 10 {
		t.Errorf("%d lines", lines)
	}
}

// Every path of the endpoint is asked without a token, with one that the cluster does not know, and with
// one that it knows.
func (l *lab) testDoors(t *testing.T) {
	for _, profiling := range []bool{false, true} {
		c := Config{Profiles: []Profile{{SchedulerName: "doors", Args: Args{Policy: "best-fit"}}}, QPS: 1000, Profiling: profiling}
		stop := l.run(t, c)
		l.untilReady(t)
		for _, d := range doors {
			denied, allowed := []int{http.StatusUnauthorized}, []int{http.StatusOK}
			if d.open {
				denied = allowed
			}
			switch {
			case d.profiling && !profiling, d.path == "/":
				allowed = []int{http.StatusNotFound, http.StatusOK} // the root lists paths, where the server has a root
			case d.path == "/flagz", d.path == "/statusz":
				allowed = []int{http.StatusOK, http.StatusNotAcceptable} // they serve to clients that accept their types
			}
			if status, body := l.ask(t, d.method, d.path, ""); !slices.Contains(denied, status) {
				t.Errorf("profiling %t: %s %s without a token: status %d, want %v: %.80s", profiling, d.method, d.path, status, denied, body)
			}
			if status, _ := l.ask(t, d.method, d.path, "somebody-else"); status != http.StatusUnauthorized {
				t.Errorf("profiling %t: %s %s with a strange token: status %d", profiling, d.method, d.path, status)
			}
			if status, body := l.ask(t, d.method, d.path, l.cluster.REST().BearerToken); !slices.Contains(allowed, status) {
				t.Errorf("profiling %t: %s %s with a token: status %d, want %v: %.80s", profiling, d.method, d.path, status, allowed, body)
			}
		}
		stop()
	}
}

func TestCheckHealth(t *testing.T) {
	release := make(chan struct{})
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/readyz":
			w.Write([]byte("ok"))
		case "/slow":
			<-release
		default:
			http.Error(w, "[-]sched-handler-sync failed", http.StatusInternalServerError)
		}
	}))
	defer server.Close()
	defer close(release)
	gone := httptest.NewServer(nil)
	gone.Close()
	for name, c := range map[string]struct {
		url  string
		code int
		want string
	}{
		"ready":     {server.URL + "/readyz", exit.OK, ""},
		"not ready": {server.URL + "/starting", exit.Unreachable, "500 Internal Server Error: [-]sched-handler-sync failed"},
		"slow":      {server.URL + "/slow", exit.Unreachable, "deadline exceeded"},
		"gone":      {gone.URL, exit.Unreachable, "no scheduler answers"},
	} {
		t.Run(name, func(t *testing.T) {
			u, err := url.Parse(c.url)
			if err != nil {
				t.Fatal(err)
			}
			timeout := 5 * time.Second
			if name == "slow" {
				timeout = 50 * time.Millisecond
			}
			var out bytes.Buffer
			err = CheckHealth(t.Context(), u, timeout, &out)
			if exit.Code(err) != c.code {
				t.Errorf("exit code %d, want %d (%v)", exit.Code(err), c.code, err)
			}
			if err == nil && out.String() != "ok\n" {
				t.Errorf("output %q", out.String())
			}
			if err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want %q in it", err, c.want)
			}
		})
	}
}
