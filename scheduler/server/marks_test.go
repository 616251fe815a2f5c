package server

import (
	"context"
	"errors"
	"net"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	leases "k8s.io/client-go/kubernetes/typed/coordination/v1"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/klog/v2"

	"gnnsched/internal/exit"
	"gnnsched/scheduler/plugin/userconfig"
)

// marked starts a process with scheduler names, and keeps its marks until stop is called, or kill, after
// which it gives them back, or not.
func marked(t *testing.T, client kubernetes.Interface, log *lines, schedulers ...string) (stop, kill func(), err error) {
	t.Helper()
	m := marksOf(client, klog.FromContext(log.context(t.Context())), schedulers, true)
	if err := m.claim(t.Context()); err != nil {
		return nil, nil, err
	}
	ctx, cancel := context.WithCancel(t.Context())
	dead := make(chan struct{})
	for _, x := range m.all() {
		x.leases = mortal{x.leases, dead}
	}
	ended := make(chan struct{})
	go func() { defer close(ended); m.keep(ctx) }()
	return func() { cancel(); <-ended }, func() { close(dead); cancel(); <-ended }, nil
}

// A second process of a name is refused at the start. After the first has stopped, it may start at once;
// after a kill, as soon as the mark has expired.
func TestSecondProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset()
		var log lines
		stop, _, err := marked(t, client, &log, "gnn", "fgd")
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		began := time.Now()
		_, _, err = marked(t, client, &log, "dqn", "fgd")
		if exit.Code(err) != exit.Usage || !strings.Contains(err.Error(), "kube-system/gnnsched-fgd") {
			t.Errorf("a second process of a name: %v", err)
		}
		if took := time.Since(began); took > 2*markRenew {
			t.Errorf("it was refused after %v", took)
		}
		stop()
		began = time.Now()
		_, kill, err := marked(t, client, &log, "fgd", "dqn") // the refused one did not keep dqn
		if took := time.Since(began); err != nil || took > 0 {
			t.Errorf("after a stop: %v after %v", err, took)
		}
		time.Sleep(time.Minute)
		kill()
		began = time.Now()
		stop, _, err = marked(t, client, &log, "fgd")
		if took := time.Since(began); err != nil || took < markRenew || took > markExpires+markRenew {
			t.Errorf("after a kill: %v after %v", err, took)
		}
		stop()
		if log.count("looking whether it still runs") != 2 || len(log.all) != 2 {
			t.Errorf("logged: %v", log.all)
		}
	})
}

// A process of another name may start beside the first, with a warning about GPUs.
func TestOtherName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset()
		var log lines
		first, _, err := marked(t, client, &log, "gnn")
		if err != nil {
			t.Fatal(err)
		}
		second, _, err := marked(t, client, &log, "dqn")
		if err != nil || log.count("Another scheduler works on this cluster") != 1 {
			t.Errorf("%v, logged: %v", err, log.all)
		}
		time.Sleep(time.Minute)
		first()
		time.Sleep(time.Minute)
		lease, err := client.CoordinationV1().Leases(metav1.NamespaceSystem).Get(t.Context(), userconfig.LeaseName, metav1.GetOptions{})
		if err != nil || time.Since(lease.Spec.RenewTime.Time) > 2*markRenew {
			t.Errorf("the second did not take over the shared lease: %v, %v", lease, err)
		}
		second()
		if len(log.all) != 1 {
			t.Errorf("logged: %v", log.all)
		}
	})
}

// A process that loses its mark, because it was cut off from the API server while another of its name
// started, says so once.
func TestTwoOfOneName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset()
		var log lines
		first, _, err := marked(t, client, &log, "gnn")
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute + markRenew/2)
		leases := client.CoordinationV1().Leases(metav1.NamespaceSystem)
		for range 60 {
			lease, err := leases.Get(t.Context(), userconfig.MarkOf("gnn"), metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			(&mark{}).sign(lease, "another")
			if _, err := leases.Update(t.Context(), lease, metav1.UpdateOptions{}); err != nil {
				t.Fatal(err)
			}
			time.Sleep(markRenew)
		}
		first()
		if log.count("Another process schedules pods of the same scheduler name") != 1 || len(log.all) != 1 {
			t.Errorf("logged: %v", log.all)
		}
	})
}

// Without the right to write leases a scheduler starts, with a warning. Without a cluster it does not.
func TestMarksFail(t *testing.T) {
	for name, c := range map[string]struct {
		err  error
		code int
		warn int
	}{
		"forbidden": {apierrors.NewForbidden(schema.GroupResource{Resource: "leases"}, "x", errors.New("no")), exit.OK, 1},
		"gone":      {&net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}, exit.Unreachable, 0},
	} {
		t.Run(name, func(t *testing.T) {
			client := fake.NewClientset()
			client.PrependReactor("*", "leases", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, c.err })
			var log lines
			err := marksOf(client, klog.FromContext(log.context(t.Context())), []string{"gnn"}, true).claim(t.Context())
			if exit.Code(err) != c.code || log.count("will not be noticed") != c.warn {
				t.Errorf("code %d (%v), logged %v", exit.Code(err), err, log.all)
			}
		})
	}
}

// Every scheduler name has a lease of its own, with a name that Kubernetes accepts.
func TestMarkName(t *testing.T) {
	seen := map[string]bool{}
	for _, name := range []string{"gnn", "default-scheduler", "team.example.com", "UPPER", "upper", "with space", "",
		strings.Repeat("x", 300), strings.Repeat("x", 301)} {
		lease := userconfig.MarkOf(name)
		if seen[lease] || len(lease) > 253 || strings.ToLower(lease) != lease || strings.Contains(lease, " ") {
			t.Errorf("%q has the lease %q", name, lease)
		}
		seen[lease] = true
	}
}

// mortal is the access of a process to its leases, which ends when the process is killed.
type mortal struct {
	leases.LeaseInterface
	dead <-chan struct{}
}

// Get implements leases.LeaseInterface.
func (m mortal) Get(ctx context.Context, name string, o metav1.GetOptions) (*coordinationv1.Lease, error) {
	select {
	case <-m.dead:
		return nil, errors.New("killed")
	default:
		return m.LeaseInterface.Get(ctx, name, o)
	}
}
