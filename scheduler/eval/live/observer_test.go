package live

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/goleak"
	"go.uber.org/zap"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/client-go/kubernetes/scheme"

	"gnnsched/internal/cluster"
	"gnnsched/internal/cluster/kube"
	"gnnsched/internal/each"
	"gnnsched/internal/exit"
	"gnnsched/internal/fatal"
	"gnnsched/internal/logging"
	"gnnsched/kwok/nodepool"
)

// startEtcd starts an etcd in a folder as kwokcluster does.
func startEtcd(t *testing.T, dir string) (stop func(), socket string) {
	t.Helper()
	c := embed.NewConfig()
	c.Dir = filepath.Join(dir, "data")
	socket = filepath.Join(dir, "e.sock")
	_ = os.Remove(socket)
	c.ListenClientUrls = []url.URL{{Scheme: "unix", Path: socket}}
	c.ListenPeerUrls = []url.URL{{Scheme: "unix", Host: filepath.Join(dir, "p.sock")}}
	peer := url.URL{Scheme: "http", Host: "127.0.0.1:2380"}
	c.AdvertisePeerUrls = []url.URL{peer}
	c.AdvertiseClientUrls = []url.URL{{Scheme: "http", Host: "127.0.0.1:2379"}}
	c.InitialCluster = c.Name + "=" + peer.String()
	c.UnsafeNoFsync = true
	c.TickMs, c.ElectionMs = 10, 100 // it elects itself sooner
	c.ZapLoggerBuilder = embed.NewZapLoggerBuilder(zap.NewNop())
	e := fatal.Value(embed.StartEtcd(c))(t)
	select {
	case <-e.Server.ReadyNotify():
	case <-time.After(time.Minute):
		t.Fatal("etcd is not ready")
	}
	return func() { e.Server.HardStop(); e.Close() }, socket
}

// The observer reads every state of the pods of its namespace, also when etcd stops in between, and begins
// with those before it came.
func TestObserver(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	dir, err := os.MkdirTemp("", "soak") // the path of a socket must be short
	fatal.If(t, err)
	defer os.RemoveAll(dir)
	stop, socket := startEtcd(t, dir)
	encoder := scheme.Codecs.EncoderForVersion(protobuf.NewSerializer(scheme.Scheme, scheme.Scheme), corev1.SchemeGroupVersion)
	claimEncoder := scheme.Codecs.EncoderForVersion(protobuf.NewSerializer(scheme.Scheme, scheme.Scheme), resourceapi.SchemeGroupVersion)
	node := machine{cluster.Resources{MilliCPU: 1e6, Memory: 1 << 50, Pods: 100}, 8}
	b := newBook(map[string]machine{"n": node, "m": node})
	o, err := newObserver(b, socket)
	fatal.If(t, err)
	put := func(name, node string) {
		b, err := runtime.Encode(encoder, pod(name, core, node, ""))
		if err == nil {
			_, err = o.client.Put(t.Context(), "/registry/pods/default/"+name, string(b))
		}
		fatal.If(t, err)
	}
	putClaim := func(c *resourceapi.ResourceClaim) {
		b, err := runtime.Encode(claimEncoder, c)
		if err == nil {
			_, err = o.client.Put(t.Context(), "/registry/resourceclaims/default/"+c.Name, string(b))
		}
		fatal.If(t, err)
	}
	put("before", "n")
	for _, key := range []string{"/registry/pods/other/pod", "/registry/podtemplates/soak/x", "/registry/resourceclaims/other/c",
		"/registry/resourceclaimtemplates/soak/x"} {
		fatal.Value(o.client.Put(t.Context(), key, "not read"))(t)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- o.run(ctx) }()
	fatal.UntilTrue(t, "the first pod is seen", func() bool { return len(b.names(func(r *record) bool { return r.node != "" })) == 1 })
	for i := range 2 {
		stop()
		stop, _ = startEtcd(t, dir)
		putClaim(claimState("c", "n", "gpu-0", 600, "a"))
		putClaim(claimState("d", "n", "gpu-0", 600, "b")) // each time too much, if only for a moment
		putClaim(claimState("d", "", "", 600))
		put(fmt.Sprint("after", i), "")
		put(fmt.Sprint("after", i), "n")
		put(fmt.Sprint("after", i), "m") // gone from etcd's latest state, but not from its history
		b.deleting(fmt.Sprint("after", i))
		fatal.Value(o.client.Delete(t.Context(), fmt.Sprint("/registry/pods/default/after", i)))(t)
	}
	claims := func() int {
		b.mu.Lock()
		defer b.mu.Unlock()
		return len(b.claims)
	}
	fatal.UntilTrue(t, "all states are seen", func() bool { return b.census().states == 1+2*4 })
	fatal.UntilTrue(t, "all claims are seen", func() bool { return claims() == 2 })
	fatal.Value(o.client.Delete(t.Context(), "/registry/resourceclaims/default/c"))(t)
	fatal.UntilTrue(t, "the claim is gone", func() bool { return claims() == 1 })
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if err := o.client.Close(); err != nil {
		t.Error(err)
	}
	twice, devices := 0, 0
	for _, v := range b.violations {
		switch v.kind {
		case boundTwice:
			twice++
		case deviceTwice:
			devices++
		}
	}
	if twice != 2 || devices != 1 || b.census().allocated != 3 {
		t.Errorf("%d pods bound twice, want 2; %d violations by claims, want 1 of claim d; %d allocated, want 3: %v",
			twice, devices, b.census().allocated, b.violations)
	}
	stop()
}

// Every kind of pod comes, and each pod except the oversized ones fits on an empty node, so a pod without a node on an empty cluster is
// lost.
func TestPodsFit(t *testing.T) {
	total := each.Sum(kinds, func(k kind) int { return k.weight })
	if total != 100 {
		t.Errorf("the weights of the kinds are %d %%", total)
	}
	r := rand.New(rand.NewPCG(1, 2))
	shares, devices, urgentPods, large, claims, two := 0, 0, 0, 0, 0, 0
	known := map[string]bool{}
	for _, t := range templates() {
		known[templateOf(t)] = true
	}
	for i := range 5000 {
		p := newPod(r, int64(i), "gnn")
		for _, c := range p.Spec.ResourceClaims {
			if !known[*c.ResourceClaimTemplateName] {
				t.Errorf("there is no template %s", *c.ResourceClaimTemplateName)
			}
		}
		claims += min(len(p.Spec.ResourceClaims), 1)
		two += len(p.Spec.ResourceClaims) / 2
		if p.Spec.PriorityClassName != "" {
			urgentPods++
		}
		running, err := kube.Running(p)
		if err != nil {
			t.Fatalf("%v: %v", p.Annotations, err)
		}
		want := running.Requests
		want.Pods = 1
		fits := false
		for _, q := range pools(4) {
			model := p.Annotations[kube.GPUModelAnnotation]
			has := machines([]nodepool.Pool{q})[q.Name+"-0"].Resources
			fits = fits || want.Within(has) && (model == "" || model == q.Labels[kube.GPUModelLabel])
		}
		tooLarge := p.Labels[tooLargeLabel] != ""
		if fits == tooLarge {
			t.Errorf("a pod with %+v fits: %v", want, fits)
		}
		switch {
		case tooLarge:
			large++
		case want.GPU > 0:
			devices++
		case want.GPUMilli > 0:
			shares++
		}
	}
	if shares == 0 || devices == 0 || urgentPods == 0 || large == 0 || claims == 0 || two == 0 {
		t.Errorf("%d shares, %d with whole devices, %d urgent, %d too large, %d with claims, %d with two: all must come",
			shares, devices, urgentPods, large, claims, two)
	}
}

func TestValidate(t *testing.T) {
	good := Soak{For: time.Minute, Nodes: 20, Pods: 300}
	if err := good.Validate(); err != nil {
		t.Error(err)
	}
	for want, change := range map[string]func(*Soak){
		"a soak of 1s":      func(c *Soak) { c.For = time.Second },
		"3 nodes":           func(c *Soak) { c.Nodes = 3 },
		"5000 pods":         func(c *Soak) { c.Pods = 5000 },
		"a pause of -1s":    func(c *Soak) { c.Every = -time.Second },
		"1 pods at the sam": func(c *Soak) { c.Pods = 1 },
	} {
		c := good
		change(&c)
		if err := c.Validate(); exit.Code(err) != exit.Usage || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

func TestMain(m *testing.M) {
	logging.DropKlog() // etcd's client complains there while etcd is stopped
	m.Run()
}

// A program is started again when it ends. Only unrequested ends are reported.
func TestProgram(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	file := filepath.Join(t.TempDir(), "output")
	p := &program{name: "test", path: "sh", log: file, args: []string{
		"-c", "echo started; trap 'exit 0' INT; while :; do sleep 0.02; done",
	}}
	ctx, cancel := context.WithCancel(t.Context())
	ends := make(chan error, 1)
	done := make(chan error)
	go func() { done <- p.run(ctx, func(cause error) { ends <- cause }) }()
	starts := func(n int) {
		fatal.UntilTrue(t, "the process starts", func() bool {
			b, _ := os.ReadFile(file)
			return strings.Count(string(b), "started") == n && p.pid() != 0
		})
	}
	starts(1)
	if !p.end(syscall.SIGKILL) {
		t.Error("the process did not run")
	}
	starts(2)
	if len(ends) != 0 {
		t.Errorf("reported an end that was asked for: %v", <-ends)
	}
	fatal.If(t, syscall.Kill(p.pid(), syscall.SIGKILL))
	starts(3)
	if cause := <-ends; !strings.Contains(cause.Error(), "test ended: signal: killed: started") {
		t.Errorf("got %v", cause)
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// Without its program none starts.
func TestNoProgram(t *testing.T) {
	p := &program{name: "test", path: "/no/such/program", log: filepath.Join(t.TempDir(), "output")}
	if err := p.run(t.Context(), nil); err == nil || !strings.Contains(err.Error(), "start test") {
		t.Errorf("got %v", err)
	}
}

// The lower quartiles of the first and the last third count, so that a single sample does not, and a process must live all the time.
func TestThirds(t *testing.T) {
	start := time.Unix(1000, 0)
	var flat, grows []sample
	for i := range 100 {
		at := start.Add(time.Duration(i) * time.Second)
		flat = append(flat, sample{at, 100 + float64(i%3)})
		grows = append(grows, sample{at, 100 + float64(i)})
	}
	flat = append(flat, sample{start.Add(99 * time.Second), 1e9})
	for name, c := range map[string]struct {
		all         []sample
		first, last float64
		ok          bool
	}{
		"flat": {flat, 100, 100, true}, "growing": {grows, 108, 175, true}, "ended": {grows[:50], 0, 0, false}, "begun late": {grows[50:], 0, 0, false},
	} {
		first, last, ok := thirds(c.all, start, start.Add(99*time.Second))
		if math.Abs(first-c.first) > 1 || math.Abs(last-c.last) > 1 || ok != c.ok {
			t.Errorf("%s: %v, %v, %v; want %v, %v, %v", name, first, last, ok, c.first, c.last, c.ok)
		}
	}
}

// A run whose memory is judged leaves the time for it.
func TestFailing(t *testing.T) {
	for run, want := range map[time.Duration]time.Duration{
		10 * time.Minute: 6 * time.Minute, 31 * time.Minute: 1116 * time.Second, 45 * time.Minute: 15 * time.Minute,
		60 * time.Minute: 30 * time.Minute, 100 * time.Minute: 60 * time.Minute,
	} {
		if got := (Soak{For: run}).failing(); got != want {
			t.Errorf("everything fails for %v of %v, want %v", got, run, want)
		}
	}
}
