//go:build k136

package server

import (
	"context"

	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/controller/resourceclaim"
)

// newClaimController returns upstream's controller of ResourceClaims, without pod groups.
func newClaimController(ctx context.Context, client kubernetes.Interface, f informers.SharedInformerFactory) (*resourceclaim.Controller, error) {
	return resourceclaim.NewController(klog.FromContext(ctx), resourceclaim.Features{AdminAccess: true, PrioritizedList: true}, client, f.Core().V1().Pods(), nil,
		f.Resource().V1().ResourceClaims(), f.Resource().V1().ResourceClaimTemplates())
}
