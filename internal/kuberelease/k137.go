//go:build !k136

package kuberelease

import (
	"context"

	resourceapi "k8s.io/api/resource/v1beta2"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/backend/cache"
)

func newInformers(client kubernetes.Interface) informers.SharedInformerFactory {
	return scheduler.NewInformerFactory(client, 0, nil)
}

// Cache returns a scheduler's cache of nodes and pods, without pod groups. ctx ends its goroutine.
func Cache(ctx context.Context) cache.Cache { return cache.New(ctx, nil, false, false) }

// DeviceTaintRules returns how many there are in a cluster.
func DeviceTaintRules(ctx context.Context, c kubernetes.Interface) (int, error) {
	list, err := c.ResourceV1().DeviceTaintRules().List(ctx, metav1.ListOptions{})
	if apierrors.IsNotFound(err) { // a server of Kubernetes 1.36
		var older *resourceapi.DeviceTaintRuleList
		if older, err = c.ResourceV1beta2().DeviceTaintRules().List(ctx, metav1.ListOptions{}); err == nil {
			return len(older.Items), nil
		}
	}
	if apierrors.IsNotFound(err) { // not served
		return 0, nil
	}
	return len(list.Items), err
}
