package defrag

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/utils/clock"

	"gnnsched/internal/cluster/kube"
	"gnnsched/scheduler/plan"
	"gnnsched/scheduler/plugin/nodereservation"
)

// nodes are the nodes that a run cordons, and those that it holds for the pods that move.
type nodes struct {
	client kubernetes.Interface
	clock  clock.Clock
	closed []string                          // by this run
	marked time.Time                         // when the closed ones were marked last
	held   map[string][]nodereservation.Hold // by node
}

// Release gives nodes back that a run cordoned or held which was killed, and returns the names of the cordoned ones.
func Release(ctx context.Context, c kubernetes.Interface) ([]string, error) {
	list, err := c.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list nodes: %w", err)
	}
	return nodereservation.GiveBack(ctx, c, pointers(list.Items), func(time.Time) bool { return true })
}

// close cordons nodes. Those that are cordoned already stay as they are.
func (n *nodes) close(ctx context.Context, names []string) error {
	n.marked = n.clock.Now()
	for _, name := range names {
		node, err := n.client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return fmt.Errorf("cordon node %s: %w", name, err)
		}
		if node.Spec.Unschedulable {
			continue
		}
		n.closed = append(n.closed, name)
		if err := n.cordon(ctx, name, nodereservation.Moving(n.marked), true); err != nil {
			return err
		}
	}
	return nil
}

// renew keeps the nodes closed for as long as the run goes on.
func (n *nodes) renew(ctx context.Context) error {
	if n.clock.Since(n.marked) < nodereservation.CordonTime/3 {
		return nil
	}
	n.marked = n.clock.Now()
	for _, name := range n.closed {
		if err := n.cordon(ctx, name, nodereservation.Moving(n.marked), true); err != nil {
			return err
		}
	}
	return nil
}

// open gives the nodes back, but keeps those closed that are emptied.
func (n *nodes) open(ctx context.Context, keep []string) error {
	var errs []error
	for _, name := range n.closed {
		if slices.Contains(keep, name) {
			errs = append(errs, n.cordon(ctx, name, nodereservation.Emptied, true))
		} else {
			errs = append(errs, n.cordon(ctx, name, nil, nil))
		}
	}
	for name := range n.held {
		errs = append(errs, n.patch(ctx, name, map[string]any{kube.HoldsAnnotation: nil}, nil))
	}
	n.closed, n.held = nil, nil
	return errors.Join(errs...)
}

// hold adds h to a node's reservations. If its owner has a reservation there, that grows by one pod.
func (n *nodes) hold(ctx context.Context, name string, h nodereservation.Hold) error {
	list := slices.Clone(n.held[name])
	if i := slices.IndexFunc(list, func(x nodereservation.Hold) bool { return x.Owner == h.Owner }); i >= 0 {
		list[i].Pods, list[i].Until, list[i].GPUs = list[i].Pods+1, h.Until, slices.Concat(list[i].GPUs, h.GPUs)
	} else {
		list = append(list, h)
	}
	text, err := json.Marshal(list)
	if err != nil {
		return err
	}
	if n.held == nil {
		n.held = map[string][]nodereservation.Hold{}
	}
	n.held[name] = list
	return n.patch(ctx, name, map[string]any{kube.HoldsAnnotation: string(text)}, nil)
}

// cordon sets a node's mark and whether it is cordoned; nil removes either.
func (n *nodes) cordon(ctx context.Context, name string, value, closed any) error {
	return n.patch(ctx, name, map[string]any{kube.DefragAnnotation: value}, map[string]any{"unschedulable": closed})
}

func (n *nodes) patch(ctx context.Context, name string, annotations, spec map[string]any) error {
	return nodereservation.Change{Node: name, Annotations: annotations, Spec: spec}.Patch(ctx, n.client)
}

// empty returns which of the nodes have no pods but those of DaemonSets, static pods and pods that have ended, and what the others have.
func (n *nodes) empty(ctx context.Context, names []string) (out []string, used []plan.Blocked, err error) {
	for _, name := range names {
		pods, err := n.client.CoreV1().Pods("").List(ctx, metav1.ListOptions{FieldSelector: "spec.nodeName=" + name})
		if err != nil {
			return out, used, fmt.Errorf("list the pods of node %s: %w", name, err)
		}
		left := slices.DeleteFunc(pods.Items, func(p v1.Pod) bool { return !counts(p) })
		if len(left) == 0 {
			out = append(out, name)
			continue
		}
		why := left[0].Namespace + "/" + left[0].Name + " is there"
		if left[0].DeletionTimestamp != nil {
			why = left[0].Namespace + "/" + left[0].Name + " is still being deleted"
		}
		used = append(used, plan.Blocked{Node: name, Pods: len(left), Why: why})
	}
	return out, used, nil
}

// counts reports whether a pod keeps its node in use.
func counts(p v1.Pod) bool {
	owner := metav1.GetControllerOf(&p)
	return p.Status.Phase != v1.PodSucceeded && p.Status.Phase != v1.PodFailed &&
		(owner == nil || owner.Kind != "DaemonSet" && owner.Kind != "Node")
}

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
