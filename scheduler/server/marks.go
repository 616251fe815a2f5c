package server

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"

	"gnnsched/internal/choice"
	"gnnsched/internal/exit"
	"gnnsched/internal/kubeconfig"
	"gnnsched/internal/logging"
	"gnnsched/scheduler/plugin/userconfig"
)

// markTimeout is the time limit of each request about a mark.
const markTimeout = 5 * time.Second

// marks are the marks of a process.
type marks struct {
	names  []*mark // of each scheduler name
	shared *mark   // the election's lease; nil with leader election, whose elector holds it
	log    logr.Logger
	told   map[*mark]string // the other holder that was logged last
}

// newMarks returns the marks of a process, none of which it holds yet.
func newMarks(ctx context.Context, c *rest.Config, k *config.KubeSchedulerConfiguration) (*marks, error) {
	c = rest.CopyConfig(c)
	c.Timeout = markTimeout
	client, err := kubernetes.NewForConfig(c)
	if err != nil {
		return nil, fmt.Errorf("make a client: %w", err)
	}
	names := choice.Names(k.Profiles, func(p config.KubeSchedulerProfile) string { return p.SchedulerName })
	log := klog.FromContext(ctx).WithName(logging.ProjectLogger)
	return marksOf(client, log, names, !k.LeaderElection.LeaderElect), nil
}

// marksOf returns the marks of scheduler names, with the shared one or without.
func marksOf(client kubernetes.Interface, log logr.Logger, schedulers []string, shared bool) *marks {
	holder := processName()
	one := func(lease string) *mark {
		return &mark{leases: client.CoordinationV1().Leases(metav1.NamespaceSystem), lease: lease, holder: holder, log: log}
	}
	m := &marks{log: log, told: map[*mark]string{}}
	for _, s := range schedulers {
		m.names = append(m.names, one(userconfig.MarkOf(s)))
	}
	if shared {
		m.shared = one(userconfig.LeaseName)
		m.shared.log = logr.Discard() // the mark of a name says enough
	}
	return m
}

// claim makes sure that no other process schedules the pods of the same scheduler names. It warns if
// another schedules at all, and if it may not write leases. Errors have exit codes.
func (m *marks) claim(ctx context.Context) error {
	others, failed := make([]string, len(m.names)+1), make([]error, len(m.names)+1)
	var all sync.WaitGroup
	for i, x := range m.all() {
		all.Go(func() { others[i], failed[i] = x.claim(ctx) })
	}
	all.Wait()
	err := errors.Join(failed...)
	for i, x := range m.all() {
		switch {
		case others[i] == "":
		case x == m.shared:
			m.tell(x, others[i])
		default:
			return exit.New(exit.Usage, errors.Join(fmt.Errorf("another process schedules pods of the same scheduler name: %s holds the lease %s/%s",
				processOf(others[i]), metav1.NamespaceSystem, x.lease), m.release()),
				"stop it, choose another name with --scheduler-name, or start both processes with --leader-elect")
		}
	}
	if status := apierrors.APIStatus(nil); errors.As(err, &status) {
		m.log.Error(err, "A second scheduler of the same name will not be noticed: this one cannot write leases")
		return nil
	}
	if err != nil {
		return kubeconfig.Explain(fmt.Errorf("look for other schedulers: %w", err))
	}
	return nil
}

// all returns all marks.
func (m *marks) all() []*mark {
	if m.shared == nil {
		return m.names
	}
	return append(m.names[:len(m.names):len(m.names)], m.shared)
}

// keep renews the marks until ctx ends, and then gives them back. It logs when another process takes one.
func (m *marks) keep(ctx context.Context) {
	tick := time.NewTicker(markRenew)
	defer tick.Stop()
	for {
		for _, x := range m.all() {
			m.renew(ctx, x)
		}
		select {
		case <-ctx.Done():
			if err := m.release(); err != nil {
				m.log.V(1).Info("The marks of this process were not given back", "err", err.Error())
			}
			return
		case <-tick.C:
		}
	}
}

// renew renews one mark.
func (m *marks) renew(ctx context.Context, x *mark) {
	mine, err := x.try(ctx)
	switch {
	case err != nil: // an outage, or a missing right, which has been logged
	case mine:
		delete(m.told, x)
	case x.changed:
		m.tell(x, *x.found.Spec.HolderIdentity)
	}
}

// tell logs once that another process holds a mark.
func (m *marks) tell(x *mark, other string) {
	if m.told[x] == other {
		return
	}
	m.told[x] = other
	if x == m.shared {
		m.log.Error(nil, "Another scheduler works on this cluster. Where there are GPUs, both may give the same devices away: run all profiles "+
			"in one process, or every process with leader election", "other", processOf(other), "lease", x.lease)
		return
	}
	m.log.Error(nil, "Another process schedules pods of the same scheduler name: stop one of them, or start both with leader election",
		"other", processOf(other), "lease", x.lease)
}

// release gives the marks back.
func (m *marks) release() error {
	ctx, cancel := context.WithTimeout(context.Background(), markTimeout)
	defer cancel()
	var failed error
	for _, x := range m.all() {
		failed = errors.Join(failed, x.release(ctx))
	}
	return failed
}
