package kwok

import (
	"bufio"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	certutil "k8s.io/client-go/util/cert"
	"k8s.io/utils/ptr"

	"gnnsched/internal/exit"
	"gnnsched/internal/fatal"
	"gnnsched/kwok/nodepool"
)

const (
	envHolder = "KWOK_TEST_HOLD_DIR"    // makes the test binary hold the lock of this directory
	envDeaf   = "KWOK_TEST_HOLDER_DEAF" // makes it also ignore SIGTERM
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(envHolder); dir != "" {
		hold(dir)
	}
	os.Exit(m.Run())
}

// hold locks the directory as a running cluster does, until SIGTERM.
func hold(dir string) {
	d, err := openDir(dir)
	if err == nil {
		err = d.writeRun(runFile{PID: os.Getpid(), Start: processStart(os.Getpid()), StartedAt: time.Now()})
	}
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	term := make(chan os.Signal, 1)
	signal.Notify(term, syscall.SIGTERM)
	fmt.Println("held")
	for range term {
		if os.Getenv(envDeaf) == "" {
			_ = d.close()
			os.Exit(0)
		}
	}
}

// startHolder starts a process that holds the lock of dir. A goroutine waits for the process, so
// that it does not become a zombie, which would look alive.
func startHolder(t *testing.T, dir string, env ...string) *exec.Cmd {
	t.Helper()
	c := exec.Command(os.Args[0])
	c.Env = append(append(os.Environ(), envHolder+"="+dir), env...)
	out := fatal.Value(c.StdoutPipe())(t)
	fatal.If(t, c.Start())
	said := bufio.NewReader(out)
	if line, err := said.ReadString('\n'); err != nil || line != "held\n" {
		t.Fatalf("the holder says %q, %v", line, err)
	}
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		_ = c.Wait()
	}()
	t.Cleanup(func() {
		_ = c.Process.Kill()
		<-gone
	})
	return c
}

func TestTerminate(t *testing.T) {
	for _, c := range []struct {
		name string
		env  []string
	}{{"one that obeys", nil}, {"one that does not", []string{envDeaf + "=1"}}} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			p := startHolder(t, dir, c.env...)
			if s, err := Inspect(context.Background(), dir); err != nil || s.Phase != Starting || s.PID != p.Process.Pid {
				t.Errorf("state %+v, %v", s, err)
			}
			ran, err := Terminate(context.Background(), dir, 300*time.Millisecond)
			if !ran || err != nil {
				t.Fatalf("ran %v, %v", ran, err)
			}
			if s, err := Inspect(context.Background(), dir); err != nil || s.Phase != Stopped {
				t.Errorf("state %+v, %v", s, err)
			}
			if ran, err := Terminate(context.Background(), dir, time.Second); ran || err != nil {
				t.Errorf("again: ran %v, %v", ran, err)
			}
		})
	}
}

func TestTerminateNeverHitsAStranger(t *testing.T) {
	stranger := exec.Command("sleep", "60")
	fatal.If(t, stranger.Start())
	t.Cleanup(func() { _ = stranger.Process.Kill(); _ = stranger.Wait() })
	dir := t.TempDir()
	d, err := openDir(dir) // the lock is held, but not by the process in the run file
	fatal.If(t, err)
	fatal.If(t, d.writeRun(runFile{PID: stranger.Process.Pid, Start: processStart(os.Getpid())}))
	if ran, err := Terminate(context.Background(), dir, 100*time.Millisecond); ran || err == nil ||
		!strings.Contains(err.Error(), "but not in process") {
		t.Errorf("ran %v, %v", ran, err)
	}
	// The run file is stale: no process holds the lock.
	fatal.If(t, d.lock.Close())
	if ran, err := Terminate(context.Background(), dir, 100*time.Millisecond); ran || err != nil {
		t.Errorf("stale: ran %v, %v", ran, err)
	}
	if err := stranger.Process.Signal(syscall.Signal(0)); err != nil {
		t.Errorf("the stranger is gone: %v", err)
	}
}

func TestTerminateGivesUpWithItsContext(t *testing.T) {
	dir := t.TempDir()
	startHolder(t, dir, envDeaf+"=1")
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	if ran, err := Terminate(ctx, dir, time.Minute); !ran || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("ran %v, %v", ran, err)
	}
}

func TestInspectWithoutACluster(t *testing.T) {
	if s, err := Inspect(context.Background(), t.TempDir()+"/none"); err != nil || s.Phase != Absent {
		t.Errorf("%+v, %v", s, err)
	}
	file := t.TempDir() + "/file"
	touch(t, file)
	if _, err := Inspect(context.Background(), file); err != nil && exit.Code(err) != exit.Usage {
		t.Errorf("a file: %v", err)
	}
}

func TestProcessStartNamesOneProcess(t *testing.T) {
	me := processStart(os.Getpid())
	if me == "" || me != processStart(os.Getpid()) {
		t.Errorf("mine is %q, then %q", me, processStart(os.Getpid()))
	}
	if p := processStart(os.Getppid()); p == me {
		t.Errorf("my parent's is mine: %q", p)
	}
	if got := processStart(-1); got != "" {
		t.Errorf("of nobody: %q", got)
	}
}

// kwok may ask twice to remove a pod. The second request leaves a new pod with the same name alone.
func TestKubeletRemovesOnlyDeletedPods(t *testing.T) {
	old := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web-0", Namespace: "default", UID: "old",
		DeletionTimestamp: &metav1.Time{Time: time.Now()}, Finalizers: []string{"a/b"}}}
	client := fake.NewClientset(old)
	pods := kubelets{client}.CoreV1().Pods("default")
	fatal.If(t, pods.Delete(t.Context(), "web-0", metav1.DeleteOptions{}))
	actions := client.Actions()
	asked, ok := actions[len(actions)-1].(clienttesting.DeleteActionImpl)
	if !ok || asked.DeleteOptions.Preconditions == nil || *asked.DeleteOptions.Preconditions.UID != "old" {
		t.Errorf("the deletion does not name the UID: %+v", asked)
	}
	if err := pods.Delete(t.Context(), "web-0", metav1.DeleteOptions{}); err != nil {
		t.Errorf("a pod that is gone: %v", err)
	}
	again := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web-0", Namespace: "default", UID: "new"}}
	if _, err := client.CoreV1().Pods("default").Create(t.Context(), again, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatal(err)
	}
	if err := pods.Delete(t.Context(), "web-0", metav1.DeleteOptions{}); err != nil {
		t.Error(err)
	}
	if _, err := client.CoreV1().Pods("default").Get(t.Context(), "web-0", metav1.GetOptions{}); err != nil {
		t.Errorf("the new pod: %v", err)
	}
}

// TestDevices starts a cluster whose nodes have devices. The API server accepts their slices, a template
// becomes a claim, and devices follow changed pools; the slices of a deleted node go with it.
func TestDevices(t *testing.T) {
	checkLeaks(t)
	pools, err := nodepool.Load("testdata/devices.yaml")
	fatal.If(t, err)
	_, cs := start(t, Config{Dir: t.TempDir(), Pools: pools})
	ctx := context.Background()
	devices := func() map[string]int {
		t.Helper()
		list := fatal.Value(cs.ResourceV1().ResourceSlices().List(ctx, metav1.ListOptions{}))(t)
		out := map[string]int{}
		for _, s := range list.Items {
			out[*s.Spec.NodeName] += len(s.Spec.Devices)
		}
		return out
	}
	// A device of mig-0 is whole, or 7 of 1g.5gb, 3 of 2g.10gb, 2 of 3g.20gb.
	if got := fmt.Sprint(devices()); got != "map[mig-0:26 shared-0:4 shared-1:4]" {
		t.Errorf("devices %s", got)
	}
	for _, name := range []string{nodepool.DefaultDriver, "mig.nvidia.com"} {
		if _, err := cs.ResourceV1().DeviceClasses().Get(ctx, name, metav1.GetOptions{}); err != nil {
			t.Error(err)
		}
	}

	template := &resourceapi.ResourceClaimTemplate{ObjectMeta: metav1.ObjectMeta{Name: "gpu"}}
	template.Spec.Spec.Devices.Requests = []resourceapi.DeviceRequest{{Name: "gpu",
		Exactly: &resourceapi.ExactDeviceRequest{DeviceClassName: nodepool.DefaultDriver}}}
	fatal.Value(cs.ResourceV1().ResourceClaimTemplates("default").Create(ctx, template, metav1.CreateOptions{}))(t)
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Spec: corev1.PodSpec{
		Containers:     []corev1.Container{{Name: "c", Image: "none"}},
		ResourceClaims: []corev1.PodResourceClaim{{Name: "gpu", ResourceClaimTemplateName: ptr.To("gpu")}},
	}}
	fatal.Value(cs.CoreV1().Pods("default").Create(ctx, pod, metav1.CreateOptions{}))(t)
	fatal.Until(t, "the template's claim", func() error {
		list, err := cs.ResourceV1().ResourceClaims("default").List(ctx, metav1.ListOptions{})
		if err == nil && len(list.Items) != 1 {
			err = fmt.Errorf("there are %d", len(list.Items))
		}
		return err
	})

	pools = pools[:1]
	pools[0].Count, pools[0].Devices[0].Count = 1, 2
	fatal.Value(nodepool.Reconcile(ctx, cs, pools))(t)
	fatal.Value(nodepool.Publish(ctx, cs, pools))(t)
	fatal.Until(t, "the devices of the changed pools", func() error {
		if got := fmt.Sprint(devices()); got != "map[shared-0:2]" {
			return errors.New(got)
		}
		return nil
	})
}

func touch(t *testing.T, path string) {
	t.Helper()
	fatal.If(t, os.MkdirAll(filepath.Dir(path), 0o700))
	fatal.If(t, os.WriteFile(path, []byte("x"), 0o600))
}

func TestOpenDirClaimsOnlyWhatIsFree(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	touch(t, file)
	foreign := t.TempDir()
	touch(t, filepath.Join(foreign, "thesis.tex"))
	ours := t.TempDir()
	touch(t, filepath.Join(ours, fileMarker))
	touch(t, filepath.Join(ours, "notes.txt"))
	for _, c := range []struct{ name, path, want string }{
		{"new", filepath.Join(t.TempDir(), "a", "b"), ""},
		{"empty", t.TempDir(), ""},
		{"ours", ours, ""},
		{"foreign", foreign, "thesis.tex"},
		{"a file", file, "not a directory"},
		{"below a file", filepath.Join(file, "sub"), "not a directory"},
	} {
		d, err := openDir(c.path)
		if c.want == "" {
			if err != nil {
				t.Errorf("%s: %v", c.name, err)
				continue
			}
			if _, err := os.Stat(filepath.Join(c.path, fileMarker)); err != nil {
				t.Errorf("%s: no marker: %v", c.name, err)
			}
			if err := d.close(); err != nil {
				t.Errorf("%s: %v", c.name, err)
			}
			continue
		}
		if err == nil || !strings.Contains(err.Error(), c.want) || exit.Code(err) != exit.Usage {
			t.Errorf("%s: got %v, want a usage error about %q", c.name, err, c.want)
		}
	}
	if _, err := os.Stat(filepath.Join(foreign, fileMarker)); err == nil {
		t.Error("the foreign directory was marked as ours")
	}
}

func TestOneClusterADirectory(t *testing.T) {
	path := t.TempDir()
	d, err := openDir(path)
	fatal.If(t, err)
	fatal.If(t, d.writeRun(runFile{PID: 4711}))
	if _, err := openDir(path); !errors.Is(err, errRunning) || exit.Code(err) != exit.Usage || !strings.Contains(err.Error(), "4711") {
		t.Errorf("a second cluster: %v", err)
	}
	if held, err := lockHeld(path); err != nil || !held {
		t.Errorf("held %v, %v", held, err)
	}
	fatal.If(t, d.close())
	if held, err := lockHeld(path); err != nil || held {
		t.Errorf("after close: held %v, %v", held, err)
	}
	if d, err = openDir(path); err != nil {
		t.Fatalf("after close: %v", err)
	}
	fatal.If(t, d.close())
}

func TestSettingsAndPoolsAreKept(t *testing.T) {
	path := t.TempDir()
	d := fatal.Value(openDir(path))(t)
	s, err := d.settings()
	if err != nil || s.CreatedAt.IsZero() || s.Port != 0 {
		t.Fatalf("first settings %+v, %v", s, err)
	}
	if p, err := d.pools(); err != nil || nodepool.Nodes(p) != 11 {
		t.Fatalf("first pools %+v, %v", p, err)
	}
	s.Port = 1234
	fatal.If(t, errors.Join(d.saveSettings(s), d.savePools(nodepool.Default(3)), d.close()))
	if d, err = openDir(path); err != nil {
		t.Fatal(err)
	}
	defer d.close() //nolint:errcheck // the test is over
	again, err := d.settings()
	if err != nil || !again.CreatedAt.Equal(s.CreatedAt) || again.Port != 1234 {
		t.Errorf("kept %+v, %v; want %+v", again, err, s)
	}
	if p, err := d.pools(); err != nil || nodepool.Nodes(p) != 4 {
		t.Errorf("kept pools %+v, %v", p, err)
	}
	fatal.If(t, os.WriteFile(d.file(fileSettings), []byte("{"), 0o600))
	if _, err := d.settings(); err == nil || !strings.Contains(err.Error(), fileSettings) {
		t.Errorf("damaged settings: %v", err)
	}
}

func TestPurge(t *testing.T) {
	path := filepath.Join(t.TempDir(), "cluster")
	d := fatal.Value(openDir(path))(t)
	fatal.Value(d.credentials([]string{loopback}))(t)
	fatal.If(t, d.saveSettings(settings{}))
	touch(t, d.file(filepath.Join(dirEtcd, "member", "wal")))
	touch(t, d.file(".unfinished-pools.json-123"))
	touch(t, d.file("kwokcluster.err"))
	touch(t, d.file("kwokcluster-2026-11-22T00-54-43.123.log"))
	touch(t, d.file("kwokcluster-notes.log"))
	touch(t, d.file("pools-of-mine.yaml"))
	if _, err := Purge(path); !errors.Is(err, errRunning) {
		t.Errorf("a cluster that runs was purged: %v", err)
	}
	fatal.If(t, d.close())
	left, err := Purge(path)
	if d := cmp.Diff([]string{"kwokcluster-notes.log", "pools-of-mine.yaml"}, left); d != "" || err != nil {
		t.Errorf("%v %s", err, d)
	}
	if d, err = openDir(path); err != nil { // the marker is still there
		t.Fatal(err)
	}
	fatal.If(t, errors.Join(d.close(), os.Remove(d.file("pools-of-mine.yaml")), os.Remove(d.file("kwokcluster-notes.log"))))
	if left, err := Purge(path); err != nil || len(left) > 0 {
		t.Errorf("left %v, %v", left, err)
	}
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the directory is still there: %v", err)
	}
	if _, err := Purge(path); err != nil {
		t.Errorf("purge of what is gone: %v", err)
	}
}

func TestPurgeLeavesForeignDirectories(t *testing.T) {
	path := t.TempDir()
	touch(t, filepath.Join(path, dirEtcd, "somebody's"))
	if _, err := Purge(path); exit.Code(err) != exit.Usage {
		t.Errorf("got %v", err)
	}
	if _, err := os.Stat(filepath.Join(path, dirEtcd, "somebody's")); err != nil {
		t.Errorf("deleted all the same: %v", err)
	}
}

func verify(t *testing.T, d *dataDir, creds credentials, host string) error {
	t.Helper()
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(creds.caPEM) {
		t.Fatal("the authority is not PEM")
	}
	certs, err := certutil.CertsFromFile(d.file(fileServerCert))
	fatal.If(t, err)
	_, err = certs[0].Verify(x509.VerifyOptions{DNSName: host, Roots: roots})
	return err
}

func TestCredentialsAreKept(t *testing.T) {
	d := &dataDir{path: t.TempDir()}
	first := fatal.Value(d.credentials([]string{loopback, "localhost"}))(t)
	if len(first.token) != 2*tokenBytes {
		t.Errorf("token %q", first.token)
	}
	for _, h := range []string{loopback, "localhost"} {
		if err := verify(t, d, first, h); err != nil {
			t.Errorf("%s: %v", h, err)
		}
	}
	if verify(t, d, first, "cluster") == nil {
		t.Error("the certificate is good for a name that nobody asked for")
	}
	for _, name := range []string{fileServerCert, fileServerKey, fileCAKey, fileServiceAccountKey, fileTokens} {
		if info, err := os.Stat(d.file(name)); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", name, info, err)
		}
	}
	again := fatal.Value(d.credentials([]string{loopback}))(t)
	if d := cmp.Diff(first, again, cmp.AllowUnexported(credentials{})); d != "" {
		t.Error(d)
	}
	more := fatal.Value(d.credentials([]string{loopback, "cluster"}))(t)
	if d := cmp.Diff(first, more, cmp.AllowUnexported(credentials{})); d != "" {
		t.Errorf("a new name changed the authority or the token: %s", d)
	}
	if err := verify(t, d, first, "cluster"); err != nil {
		t.Error(err)
	}
}

func TestDamagedCredentialsAreErrors(t *testing.T) {
	for _, name := range []string{fileCAKey, fileServiceAccountKey, fileTokens} {
		d := &dataDir{path: t.TempDir()}
		fatal.Value(d.credentials([]string{loopback}))(t)
		fatal.If(t, os.WriteFile(d.file(name), []byte("junk"), 0o600))
		if _, err := d.credentials([]string{loopback}); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	// A damaged certificate is replaced.
	d := &dataDir{path: t.TempDir()}
	fatal.Value(d.credentials([]string{loopback}))(t)
	fatal.If(t, os.WriteFile(d.file(fileServerCert), []byte("junk"), 0o600))
	creds := fatal.Value(d.credentials([]string{loopback}))(t)
	if err := verify(t, d, creds, loopback); err != nil {
		t.Error(err)
	}
}
