package defrag

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

const (
	leaseName  = "gnnsched-defrag"
	leaseTime  = 15 * time.Second
	renewal    = 10 * time.Second
	retryAfter = 2 * time.Second
)

// errLost is why moves end.
var errLost = errors.New("another process holds the lease " + leaseName + " now")

// Alone calls work while this process holds the lease in a namespace. While another process holds it, Alone waits, and says so once by
// waits. If the lease is lost, the context of work ends. The lease is given back when work has ended.
func Alone(ctx context.Context, c kubernetes.Interface, namespace string, waits func(holder string),
	work func(context.Context) error) error {
	host, err := os.Hostname()
	if err != nil {
		return fmt.Errorf("this machine's name: %w", err)
	}
	// A process that may not read the lease would try for ever.
	if _, err := c.CoordinationV1().Leases(namespace).Get(ctx, leaseName, metav1.GetOptions{}); ctx.Err() != nil {
		return context.Cause(ctx)
	} else if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("the lease %s/%s: %w", namespace, leaseName, err)
	}
	self := fmt.Sprintf("%s_%d_%x", host, os.Getpid(), time.Now().UnixNano())
	holds, release := context.WithCancel(context.WithoutCancel(ctx))
	defer release()
	var once sync.Once // either work begins, or ctx has ended before
	ended := make(chan error, 1)
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Name: leaseName, LeaseDuration: leaseTime, RenewDeadline: renewal, RetryPeriod: retryAfter, ReleaseOnCancel: true,
		Lock: &resourcelock.LeaseLock{
			LeaseMeta: metav1.ObjectMeta{Namespace: namespace, Name: leaseName}, Client: c.CoordinationV1(),
			LockConfig: resourcelock.ResourceLockConfig{Identity: self},
		},
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(leads context.Context) {
				once.Do(func() {
					working, lose := context.WithCancelCause(ctx)
					defer lose(nil)
					defer context.AfterFunc(leads, func() { lose(errLost) })()
					ended <- work(working)
					release()
				})
			},
			OnStoppedLeading: func() {},
			OnNewLeader: func(holder string) {
				if holder != self && holder != "" {
					waits(holder)
				}
			},
		},
	})
	if err != nil {
		return fmt.Errorf("the lease %s/%s: %w", namespace, leaseName, err)
	}
	defer context.AfterFunc(ctx, func() {
		once.Do(func() {
			ended <- context.Cause(ctx)
			release()
		})
	})()
	elector.Run(holds)
	return <-ended
}
