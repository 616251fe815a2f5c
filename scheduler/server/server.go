package server

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	_ "k8s.io/component-base/metrics/prometheus/clientgo" // as kube-scheduler: requests, work queues, the lease
	_ "k8s.io/component-base/metrics/prometheus/version"  // as kube-scheduler
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/cmd/kube-scheduler/app/options"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"gnnsched/internal/exit"
	"gnnsched/internal/logging"
	"gnnsched/internal/metric"
	"gnnsched/scheduler/plugin"
	"gnnsched/scheduler/plugin/userconfig"
)

// announce makes an election say in the log who leads, and give the lease back when the process is told
// to stop, so that a standby need not wait until the lease expires. It does not wait either for a leader of this machine
// or this pod that was killed.
func announce(ctx context.Context, e *leaderelection.LeaderElectionConfig) *announcedLock {
	l := &announcedLock{Interface: e.Lock, log: klog.FromContext(ctx).WithName(logging.ProjectLogger)}
	e.ReleaseOnCancel = true
	e.Lock = l
	return l
}

// announcedLock logs who holds a lease, whenever that changes. The elector calls it from one goroutine.
type announcedLock struct {
	resourcelock.Interface
	log    klog.Logger
	leader string   // the last that was logged
	killed string   // the last leader that was found killed
	alive  *os.File // locked since before this process led; nil if that failed
	tried  bool     // to lock it
}

// aliveFile returns the path of the file that the process of an identity, which is unique, keeps locked. The kernel frees the lock when
// the process ends. Containers of a pod see the files of those before them; other pods and machines do not see them.
func aliveFile(identity string) string {
	return filepath.Join(os.TempDir(), "gnnsched-alive-"+filepath.Base(identity))
}

// lockAlive makes and locks the file of this process.
func lockAlive(identity string) (*os.File, error) {
	f, err := os.OpenFile(aliveFile(identity), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		os.Remove(f.Name()) // a file without a lock would say that this process ended
		f.Close()
		return nil, err
	}
	return f, nil
}

// write writes a record. Before this process leads, it locks its file.
func (l *announcedLock) write(record resourcelock.LeaderElectionRecord, write func() error) error {
	if !l.tried {
		l.tried = true
		var err error
		if l.alive, err = lockAlive(l.Identity()); err != nil {
			l.log.Info("If this process is killed, a standby waits until the lease expires", "err", err)
		}
	}
	err := write()
	if err == nil {
		if l.killed != "" {
			os.Remove(aliveFile(l.killed))
			l.killed = ""
		}
		l.held(record.HolderIdentity)
	}
	return err
}

// ended reports whether the process of an identity certainly ended. No file says nothing.
func ended(identity string) bool {
	f, err := os.Open(aliveFile(identity))
	if err != nil {
		return false
	}
	defer f.Close() //nolint:errcheck // it is only locked
	info, err := f.Stat()
	if err != nil || syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) != nil {
		return false
	}
	owner, known := info.Sys().(*syscall.Stat_t)
	return known && owner.Uid == uint32(os.Getuid()) // anybody may write into a temporary folder
}

// close removes the file. The lease has been given back.
func (l *announcedLock) close() {
	if l != nil && l.alive != nil {
		os.Remove(l.alive.Name())
		l.alive.Close()
	}
}

// Get implements resourcelock.Interface.
func (l *announcedLock) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	record, raw, err := l.Interface.Get(ctx)
	if err == nil {
		if by := record.HolderIdentity; by != "" && by != l.Identity() && ended(by) {
			l.log.Info("The process that holds the lease was killed: this one takes over", "leader", by, "lease", l.Describe())
			l.killed, record.HolderIdentity = by, ""
		}
		l.held(record.HolderIdentity)
	}
	return record, raw, err
}

// Create implements resourcelock.Interface.
func (l *announcedLock) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return l.write(record, func() error { return l.Interface.Create(ctx, record) })
}

// Update implements resourcelock.Interface.
func (l *announcedLock) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return l.write(record, func() error { return l.Interface.Update(ctx, record) })
}

// lost logs that this process does not hold the lease any more. The elector has ended.
func (l *announcedLock) lost() {
	l.log.Info("Lost the lease: standing by again", "lease", l.Describe())
	l.leader = ""
}

// held logs the holder of the lease if it is another than before.
func (l *announcedLock) held(by string) {
	if by == l.leader {
		return
	}
	l.leader = by
	switch by {
	case "":
		l.log.Info("No scheduler leads", "lease", l.Describe())
	case l.Identity():
		l.log.Info("This scheduler leads: it schedules", "lease", l.Describe())
	default:
		l.log.Info("Standby: another scheduler leads", "leader", by, "lease", l.Describe())
	}
}

var set metric.Set

// attemptDuration has buckets that grow by 15 %. Upstream's own histogram starts at 1 ms, which is longer
// than most attempts on a small cluster take.
var attemptDuration = set.Histograms("scheduling_attempt_duration_seconds", // 20 µs to 1.2 s
	"Time of one scheduling attempt from the snapshot to the choice of a node (filters and scores), for every profile.",
	metric.Exponential(20e-6, 1.15, 80), "profile")

// timeAttempts measures every scheduling attempt of every profile. It must come before the profiles are wrapped,
// because plugins know the profile's own handle.
func timeAttempts(s *scheduler.Scheduler) {
	set.Register()
	inner, handles := s.SchedulePod, maps.Clone(s.Profiles)
	s.SchedulePod = func(ctx context.Context, f framework.Framework, state fwk.CycleState,
		pod *framework.QueuedPodInfo) (scheduler.ScheduleResult, error) {
		start := time.Now()
		defer func() {
			took := time.Since(start)
			attemptDuration.WithLabelValues(f.ProfileName()).Observe(took.Seconds())
			plugin.Attempted(handles[f.ProfileName()], pod.Pod, took)
		}()
		return inner(ctx, f, state, pod)
	}
}

const (
	// bindAgain is the time between two tries of a binding.
	bindAgain = 500 * time.Millisecond
	// bindFailures is how often a binding is sent to a server that answers with status 500 or more.
	bindFailures = 3
	bindingPath  = "/binding"
)

// rebinding is a transport that learns what became of each binding. A binding may have been written although its answer is lost, because
// the server was killed or the connection broke, or although the answer is a status of 500 or more. A scheduler that takes it for failed
// gives the pod's room and devices to another pod before it sees the first one on the node. client-go repeats no such request. So
// rebinding sends a binding again until there is another answer. The second one of the same pod to the same node is refused if the first
// one was written: that is success too.
type rebinding struct{ next http.RoundTripper }

// WrappedRoundTripper implements net.RoundTripperWrapper.
func (t rebinding) WrappedRoundTripper() http.RoundTripper { return t.next }

// RoundTrip implements http.RoundTripper.
func (t rebinding) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method != http.MethodPost || !strings.HasSuffix(r.URL.Path, bindingPath) || r.GetBody == nil {
		return t.next.RoundTrip(r)
	}
	for attempt, failures := 1, 0; ; attempt++ {
		response, err := t.next.RoundTrip(r)
		fails := err == nil && response.StatusCode >= http.StatusInternalServerError
		if fails {
			failures++
		}
		switch {
		case r.Context().Err() != nil, fails && failures == bindFailures:
			return response, err
		case err == nil && !fails:
			if attempt > 1 && response.StatusCode == http.StatusConflict {
				return t.settle(r, response)
			}
			return response, nil
		case fails:
			response.Body.Close()
		}
		select {
		case <-r.Context().Done():
			return nil, errors.Join(r.Context().Err(), err)
		case <-time.After(bindAgain):
		}
		r = r.Clone(r.Context())
		if r.Body, err = r.GetBody(); err != nil {
			return nil, err
		}
	}
}

// settle replaces the refusal of a binding that was sent before by success if the pod is bound as the
// request demands.
func (t rebinding) settle(r *http.Request, refusal *http.Response) (*http.Response, error) {
	wanted, err := bindingIn(r)
	if err != nil {
		return refusal, nil //nolint:nilerr // the refusal is what the caller has to know
	}
	pod, err := t.podOf(r)
	if err != nil || pod.UID != wanted.UID || pod.Spec.NodeName != wanted.Target.Name {
		return refusal, nil //nolint:nilerr // as above
	}
	refusal.Body.Close()
	body, err := json.Marshal(metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusSuccess})
	if err != nil {
		return nil, err
	}
	return &http.Response{
		Status: http.StatusText(http.StatusCreated), StatusCode: http.StatusCreated, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(bytes.NewReader(body)),
		ContentLength: int64(len(body)), Request: r,
	}, nil
}

// bindingIn reads the binding from the body of a request.
func bindingIn(r *http.Request) (*corev1.Binding, error) {
	body, err := r.GetBody()
	if err != nil {
		return nil, err
	}
	defer body.Close()
	text, err := io.ReadAll(body)
	if err != nil {
		return nil, err
	}
	o, _, err := scheme.Codecs.UniversalDeserializer().Decode(text, nil, nil)
	if err != nil {
		return nil, err
	}
	b, is := o.(*corev1.Binding)
	if !is {
		return nil, fmt.Errorf("the body is a %T", o)
	}
	return b, nil
}

// podOf reads the pod that a binding is about.
func (t rebinding) podOf(r *http.Request) (*corev1.Pod, error) {
	url := *r.URL
	url.Path, url.RawPath, url.RawQuery = strings.TrimSuffix(url.Path, bindingPath), "", ""
	get, err := http.NewRequestWithContext(r.Context(), http.MethodGet, url.String(), nil)
	if err != nil {
		return nil, err
	}
	get.Header = r.Header.Clone()
	get.Header.Del("Content-Type")
	get.Header.Set("Accept", "application/json")
	answer, err := t.next.RoundTrip(get)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return nil, errors.New(answer.Status)
	}
	p := &corev1.Pod{}
	return p, json.NewDecoder(answer.Body).Decode(p)
}

const (
	catchUpWithin = 30 * time.Second
	catchUpPause  = 50 * time.Millisecond
	catchUpPage   = 500 // pods in one answer
	// runningOnNodes selects the pods that a scheduler keeps in its cache.
	runningOnNodes = "spec.nodeName!=,status.phase!=Succeeded,status.phase!=Failed"
)

// catchUp waits until the scheduler's caches have all pods that are bound and all claims that are allocated. The watches of a standby
// may be behind when the standby gets the lease, above all after an outage. Without the last bindings and allocations of the
// previous leader it would give their room and their devices to other pods.
func (i *instance) catchUp(ctx context.Context, client kubernetes.Interface) {
	within, cancel := context.WithTimeout(ctx, catchUpWithin)
	defer cancel()
	log, began := klog.FromContext(ctx).WithName(logging.ProjectLogger), time.Now()
	for pause := catchUpPause; ; pause = min(2*pause, time.Second) {
		missing, err := i.missing(within, client)
		if err == nil && missing == 0 {
			missing, err = i.missingClaims(within, client)
		}
		switch {
		case err == nil && missing == 0, ctx.Err() != nil:
			if waited := time.Since(began); waited > time.Second {
				log.Info("Scheduling begins late: a watch was behind", "waited", waited.Round(time.Millisecond))
			}
			return
		case within.Err() != nil:
			log.Error(err, "Scheduling begins although a watch is behind", "missing", missing)
			return
		}
		select {
		case <-within.Done():
		case <-time.After(pause):
		}
	}
}

// missing returns how many bound pods the scheduler's cache lacks. The list is the API server's latest state,
// not that of its cache.
func (i *instance) missing(ctx context.Context, client kubernetes.Interface) (n int, err error) {
	options := metav1.ListOptions{FieldSelector: runningOnNodes, Limit: catchUpPage}
	for {
		list, err := client.CoreV1().Pods(metav1.NamespaceAll).List(ctx, options)
		if err != nil {
			return 0, err
		}
		for j := range list.Items {
			if _, err := i.sched.Cache.GetPod(&list.Items[j]); err != nil {
				n++
			}
		}
		if options.Continue = list.Continue; options.Continue == "" {
			return n, nil
		}
	}
}

// missingClaims returns how many allocated claims the informer lacks or has without an allocation; 0 if no plugin reads claims.
func (i *instance) missingClaims(ctx context.Context, client kubernetes.Interface) (n int, err error) {
	claims := i.informers.Resource().V1().ResourceClaims()
	if !claims.Informer().HasSynced() {
		return 0, nil
	}
	options := metav1.ListOptions{Limit: catchUpPage}
	for {
		list, err := client.ResourceV1().ResourceClaims(metav1.NamespaceAll).List(ctx, options)
		if err != nil {
			return 0, err
		}
		for _, c := range list.Items {
			known, err := claims.Lister().ResourceClaims(c.Namespace).Get(c.Name)
			if c.Status.Allocation != nil && (err != nil || known.Status.Allocation == nil) {
				n++
			}
		}
		if options.Continue = list.Continue; options.Continue == "" {
			return n, nil
		}
	}
}

// Endpoint is the address at which the process serves its health and metrics, over TLS with a
// self-signed certificate. Everybody may read /healthz, /livez and /readyz. Every other path needs a
// token that the API server knows, of a user whom it authorizes for the path.
//
// The decisions that Recording.Book keeps are served at decision.DebugPath, the samples of Recording.Curves at learningcurve.Path,
// and the state of measured usage at usage.Path.
type Endpoint struct {
	Address   string
	Port      int // 0 for no endpoint
	Recording plugin.Recording
	// FeatureGates are feature gates of Kubernetes to set, each as NAME=BOOL, as kube-scheduler's flag does. They hold for the process.
	FeatureGates []string
}

// Run runs kube-scheduler with the configuration file until ctx ends; then it returns nil. It calls
// onReady, unless that is nil, once right before the scheduler runs. Errors have exit codes:
// exit.Usage for an invalid configuration and for a port in use, exit.Unreachable for a cluster that does not answer.
func Run(ctx context.Context, configFile string, e Endpoint, onReady func()) error {
	if err := e.check(); err != nil {
		return err
	}
	o, err := e.options(configFile)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx) // ends what an error leaves behind
	defer cancel()
	p, err := newProcess(ctx, o, e.Recording)
	if err != nil {
		return exit.New(exit.Usage, fmt.Errorf("set up kube-scheduler: %w", err), "check the flags, or the file given by --config")
	}
	defer p.close()
	if ctx.Err() != nil {
		return nil
	}
	if onReady != nil {
		onReady()
	}
	if err := p.run(ctx); err != nil && ctx.Err() == nil {
		return fmt.Errorf("kube-scheduler ended: %w", err)
	}
	return nil
}

// options returns upstream's options with the configuration file and the endpoint.
func (e Endpoint) options(configFile string) (*options.Options, error) {
	o := options.NewOptions()
	flags := pflag.NewFlagSet("kube-scheduler", pflag.ContinueOnError)
	for _, f := range o.Flags.FlagSets {
		flags.AddFlagSet(f)
	}
	file, err := userconfig.Read(configFile)
	if err != nil {
		return nil, err
	}
	kubeconfig := file.Kubeconfig() // empty: use the service account of the pod that this process runs in
	if err := flags.Parse([]string{
		"--config=" + configFile, "--bind-address=" + e.Address, "--secure-port=" + strconv.Itoa(e.Port),
		// The API server that authorizes callers of the endpoint. Without it no token gives metrics.
		"--authentication-kubeconfig=" + kubeconfig, "--authorization-kubeconfig=" + kubeconfig,
		// Do not look up the cluster's CA for client certificates: clusters without one, such as
		// ours, would fill the log with errors.
		"--authentication-skip-lookup",
		"--feature-gates=" + strings.Join(e.FeatureGates, ","),
	}); err != nil {
		return nil, exit.New(exit.Usage, fmt.Errorf("kube-scheduler's options: %w", err), gateHint)
	}
	if err := o.ComponentGlobalsRegistry.Set(); err != nil {
		return nil, exit.New(exit.Usage, fmt.Errorf("kube-scheduler's feature gates: %w", err), gateHint)
	}
	o.Metrics = nil // we set none of these options, which logs a warning at each start
	return o, nil
}

const gateHint = "check --feature-gates; each is NAME=true or NAME=false, and kube-scheduler --help lists the names"

// check validates the port and returns a helpful error if it is in use.
func (e Endpoint) check() error {
	if e.Port == 0 {
		return nil
	}
	if e.Port < 0 || e.Port > 65535 {
		return exit.Usagef("port %d: choose 1 to 65535, or 0 for none", e.Port)
	}
	l, err := net.Listen("tcp", net.JoinHostPort(e.Address, strconv.Itoa(e.Port)))
	if err != nil {
		return exit.New(exit.Usage, fmt.Errorf("serve metrics: %w", err),
			"another scheduler may be running; choose another port with --port, or none with --port 0")
	}
	return errors.Join(l.Close())
}

// CheckHealth asks a running scheduler at u, such as https://127.0.0.1:10259/readyz, and writes its
// answer to out. It returns an error with exit code 3 unless the status is 200. It does not verify
// the scheduler's certificate, which is self-signed.
func CheckHealth(ctx context.Context, u *url.URL, timeout time.Duration, out io.Writer) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return exit.New(exit.Usage, err, "")
	}
	client := http.Client{Transport: &http.Transport{
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true,
	}}
	response, err := client.Do(request)
	if err != nil {
		return exit.New(exit.Unreachable, fmt.Errorf("no scheduler answers: %w", err), "is it running, with this port? see rungnn --port")
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, 64<<10))
	if err != nil {
		return exit.New(exit.Unreachable, fmt.Errorf("read the scheduler's answer: %w", err), "")
	}
	if response.StatusCode != http.StatusOK {
		return exit.New(exit.Unreachable, fmt.Errorf("the scheduler says %s: %s", response.Status, strings.TrimSpace(string(body))),
			"its log says why")
	}
	fmt.Fprintln(out, strings.TrimSpace(string(body)))
	return nil
}
