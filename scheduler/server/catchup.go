package server

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"

	"gnnsched/internal/logging"
)

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
