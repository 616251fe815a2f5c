package canary

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"
)

// Annotations of the lease of userconfig.ShareLeaseOf.
const (
	// StoppedAnnotation says since when and why the canary is stopped.
	StoppedAnnotation = "gnnsched.io/share-stopped"
	// runningAnnotation says since when a process runs the canary. A process that is killed leaves it behind. Then nobody
	// knows whether it had stopped the canary, and the next process takes it for a stop.
	runningAnnotation = "gnnsched.io/share-running"
)

// otherTime is how long a process waits for the runningAnnotation of another to go. That one may be ending, and tries to
// remove it for lateTime.
const otherTime = lateTime + requestTime

var errOther = errors.New("another process runs the share, or was killed")

// claim writes that this process runs the canary. It returns why the canary was stopped earlier; empty if it was not. A
// runningAnnotation of another process that stays for otherTime is such a stop, and is kept as one.
func (c *Split) claim(ctx context.Context) (earlier string, err error) {
	err = c.change(ctx, func(lease *coordinationv1.Lease) (bool, error) {
		earlier = lease.Annotations[StoppedAnnotation]
		other := lease.Annotations[runningAnnotation]
		if earlier != "" || other == c.running { // an earlier claim may have been written though its answer did not come
			return false, nil
		}
		if other == "" {
			metav1.SetMetaDataAnnotation(&lease.ObjectMeta, runningAnnotation, c.running)
			return true, nil
		}
		if c.waited.IsZero() {
			c.waited = time.Now()
		}
		if time.Since(c.waited) < otherTime {
			return false, errOther
		}
		since, _, _ := strings.Cut(other, " ")
		earlier = fmt.Sprintf("%s unclean: the process that ran the share since %q was killed, or could not say how it ended. It may have "+
			"stopped the share", time.Now().UTC().Format(time.RFC3339), since)
		markStopped(lease, earlier)
		return true, nil
	})
	return earlier, err
}

// keep keeps in the cluster why the canary is stopped. After ctx has ended it tries for lateTime.
func (c *Split) keep(ctx context.Context, why string) {
	if !c.late(ctx, "keep that the share is stopped", func(lease *coordinationv1.Lease) (bool, error) {
		if lease.Annotations[StoppedAnnotation] != "" { // an earlier stop stays as it is
			return c.unmark(lease), nil
		}
		markStopped(lease, why)
		return true, nil
	}) {
		// The command is quoted for a shell, and the log quotes it again: why has no quotes and no backslashes.
		c.log.Error(nil, "Why the share stopped is not kept in the cluster; the next process sees only that this one did not end cleanly, and "+
			"does not begin the share", "annotate",
			fmt.Sprintf("kubectl -n %s annotate lease %s '%s=%s'", metav1.NamespaceSystem, c.lease, StoppedAnnotation, why))
	}
}

// release removes the runningAnnotation of this process, which has not stopped the canary. After ctx has ended it tries
// for lateTime.
func (c *Split) release(ctx context.Context) {
	if c.late(ctx, "remove the mark that the share runs", func(lease *coordinationv1.Lease) (bool, error) { return c.unmark(lease), nil }) {
		return
	}
	c.log.Error(nil, "The mark that the share runs may stay in the cluster: the next process does not begin the share, unless you remove "+
		"the mark first", "annotate",
		fmt.Sprintf("kubectl -n %s annotate lease %s %s-", metav1.NamespaceSystem, c.lease, runningAnnotation))
}

// unmark removes the runningAnnotation if it is of this process, and reports whether it was.
func (c *Split) unmark(lease *coordinationv1.Lease) bool {
	if lease.Annotations[runningAnnotation] != c.running {
		return false
	}
	delete(lease.Annotations, runningAnnotation)
	return true
}

func markStopped(lease *coordinationv1.Lease, why string) {
	metav1.SetMetaDataAnnotation(&lease.ObjectMeta, StoppedAnnotation, why)
	delete(lease.Annotations, runningAnnotation)
}

// late changes the lease until that succeeds. After ctx has ended it tries for lateTime. It reports whether it succeeded.
func (c *Split) late(ctx context.Context, what string, edit func(*coordinationv1.Lease) (bool, error)) bool {
	late, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	stop := context.AfterFunc(ctx, func() { time.AfterFunc(lateTime, cancel) })
	defer stop()
	return c.retry(late, what, func(ctx context.Context) error { return c.change(ctx, edit) })
}

// read returns why the canary is stopped; empty if it is not.
func (c *Split) read(ctx context.Context) (string, error) {
	lease, err := c.handle.ClientSet().CoordinationV1().Leases(metav1.NamespaceSystem).Get(ctx, c.lease, metav1.GetOptions{})
	if err != nil {
		return "", err
	}
	return lease.Annotations[StoppedAnnotation], nil
}

// change reads the lease, lets edit change it, and writes it if edit reports a change.
func (c *Split) change(ctx context.Context, edit func(*coordinationv1.Lease) (bool, error)) error {
	leases := c.handle.ClientSet().CoordinationV1().Leases(metav1.NamespaceSystem)
	return retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		lease, err := leases.Get(ctx, c.lease, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			lease, err = leases.Create(ctx, &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: c.lease}}, metav1.CreateOptions{})
		}
		if err != nil {
			return err
		}
		changed, err := edit(lease)
		if err != nil || !changed {
			return err
		}
		_, err = leases.Update(ctx, lease, metav1.UpdateOptions{})
		return err
	})
}
