package kwok

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
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
	out, err := c.StdoutPipe()
	fatal.If(t, err)
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
	if err := pods.Delete(t.Context(), "web-0", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
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
		list, err := cs.ResourceV1().ResourceSlices().List(ctx, metav1.ListOptions{})
		fatal.If(t, err)
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
	if _, err := cs.ResourceV1().ResourceClaimTemplates("default").Create(ctx, template, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Spec: corev1.PodSpec{
		Containers:     []corev1.Container{{Name: "c", Image: "none"}},
		ResourceClaims: []corev1.PodResourceClaim{{Name: "gpu", ResourceClaimTemplateName: ptr.To("gpu")}},
	}}
	if _, err := cs.CoreV1().Pods("default").Create(ctx, pod, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the template's claim", func() error {
		list, err := cs.ResourceV1().ResourceClaims("default").List(ctx, metav1.ListOptions{})
		if err == nil && len(list.Items) != 1 {
			err = fmt.Errorf("there are %d", len(list.Items))
		}
		return err
	})

	pools = pools[:1]
	pools[0].Count, pools[0].Devices[0].Count = 1, 2
	if _, err := nodepool.Reconcile(ctx, cs, pools); err != nil {
		t.Fatal(err)
	}
	if _, err := nodepool.Publish(ctx, cs, pools); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the devices of the changed pools", func() error {
		if got := fmt.Sprint(devices()); got != "map[shared-0:2]" {
			return errors.New(got)
		}
		return nil
	})
}
