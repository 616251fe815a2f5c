package server

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"time"

	"github.com/go-logr/logr"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
	leases "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/utils/ptr"
)

// A process that schedules renews its marks every markRenew. A mark that was not renewed for markExpires
// belongs to a process that was killed. One that was last renewed markOld ago does in any case: clocks of
// machines do not differ by so much.
const (
	markRenew   = time.Second
	markExpires = 3 * time.Second
	markOld     = time.Minute
)

// mark is a lease that shows that a process schedules. It forbids nothing: others look at it. A process
// has one for each of its scheduler names, and without leader election the lease of the election too, so
// that a process with leader election stands by.
type mark struct {
	leases leases.LeaseInterface
	lease  string // name of the lease
	holder string // this process
	log    logr.Logger

	found   *coordinationv1.Lease // another's mark, as last seen
	since   time.Time             // when found last changed, by this machine's clock
	changed bool                  // whether found has changed since it was first seen: its process lives
}

// processName names this process in leases.
func processName() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return fmt.Sprintf("%s_%d_%.8s", host, os.Getpid(), uuid.NewUUID())
}

var processNames = regexp.MustCompile(`^(.+)_(\d+)_[0-9a-f]{8}$`)

// processOf says which process a name of processName stands for. Other names stay as they are.
func processOf(name string) string {
	parts := processNames.FindStringSubmatch(name)
	if parts == nil {
		return name
	}
	return fmt.Sprintf("process %s on %s", parts[2], parts[1])
}

// claim makes the mark this process's. It watches another's mark for a while; if that is renewed, it
// returns the holder's name.
func (m *mark) claim(ctx context.Context) (other string, err error) {
	for told := false; ; told = true {
		mine, err := m.try(ctx)
		if err != nil || mine {
			return "", err
		}
		if m.changed {
			return *m.found.Spec.HolderIdentity, nil
		}
		if m.found != nil && !told {
			m.log.Info("Another scheduler was here just now: looking whether it still runs", "other", processOf(*m.found.Spec.HolderIdentity),
				"lease", m.lease)
		}
		select {
		case <-ctx.Done():
			return "", context.Cause(ctx)
		case <-time.After(markRenew / 4):
		}
	}
}

// try renews the mark, or takes it if it is nobody's. It reports whether the mark is this process's.
func (m *mark) try(ctx context.Context) (mine bool, err error) {
	lease, err := m.leases.Get(ctx, m.lease, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		lease = &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: m.lease}}
		m.sign(lease, m.holder)
		_, err = m.leases.Create(ctx, lease, metav1.CreateOptions{})
		return m.taken(err)
	}
	if err != nil || !m.free(lease) {
		return false, err
	}
	m.sign(lease, m.holder)
	_, err = m.leases.Update(ctx, lease, metav1.UpdateOptions{})
	return m.taken(err)
}

// taken interprets the result of writing the mark. Whoever was faster has it.
func (m *mark) taken(err error) (mine bool, failed error) {
	if apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) {
		return false, nil
	}
	if err == nil {
		m.found, m.changed = nil, false
	}
	return err == nil, err
}

// free reports whether no other process holds the mark, and notes one that does.
func (m *mark) free(lease *coordinationv1.Lease) bool {
	holder := ptr.Deref(lease.Spec.HolderIdentity, "")
	if holder == "" || holder == m.holder {
		return true
	}
	if m.found == nil || m.found.ResourceVersion != lease.ResourceVersion || !m.found.Spec.RenewTime.Equal(lease.Spec.RenewTime) {
		m.changed = m.found != nil
		m.found, m.since = lease, time.Now()
	}
	expires := max(markExpires, time.Duration(ptr.Deref(lease.Spec.LeaseDurationSeconds, 0))*time.Second)
	renewed := lease.Spec.RenewTime
	return time.Since(m.since) > expires || renewed == nil || time.Since(renewed.Time) > max(markOld, expires)
}

// sign writes a holder, which may be empty, on the lease.
func (m *mark) sign(lease *coordinationv1.Lease, holder string) {
	now := metav1.NowMicro()
	if ptr.Deref(lease.Spec.HolderIdentity, "") != holder {
		lease.Spec.AcquireTime = &now
	}
	lease.Spec.HolderIdentity, lease.Spec.RenewTime = &holder, &now
	lease.Spec.LeaseDurationSeconds = ptr.To(int32(markExpires / time.Second))
}

// release gives the mark back, so that a next process need not watch it first.
func (m *mark) release(ctx context.Context) error {
	lease, err := m.leases.Get(ctx, m.lease, metav1.GetOptions{})
	if err != nil || ptr.Deref(lease.Spec.HolderIdentity, "") != m.holder {
		return err
	}
	m.sign(lease, "")
	_, err = m.leases.Update(ctx, lease, metav1.UpdateOptions{})
	return err
}
