package server

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/klog/v2"

	"gnnsched/internal/fatal"
	"gnnsched/scheduler/plugin/userconfig"
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

// stand starts a candidate. Its election has the documented lease settings.
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
		LeaseDuration: leaseDuration, RenewDeadline: renewDeadline, RetryPeriod: retryPeriod,
		Callbacks: leaderelection.LeaderCallbacks{OnStartedLeading: func(context.Context) { close(c.leads) }, OnStoppedLeading: func() {}},
	}
	announce(ctx, &e)
	elector, err := leaderelection.NewLeaderElector(e)
	fatal.If(t, err)
	go func() {
		defer close(c.done)
		elector.Run(ctx)
	}()
	return c
}

// A standby says who leads. A leader that is told to stop gives the lease back, and the standby leads
// long before the lease would have expired.
func TestStandbyTakesOver(t *testing.T) {
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
