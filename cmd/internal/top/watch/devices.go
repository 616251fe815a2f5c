package watch

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"

	"gnnsched/cmd/internal/top/state"
)

func listSlices(cfg Config) *cache.ListWatch {
	return requests(cfg.Client.ResourceV1().ResourceSlices(), "")
}

func listClaims(cfg Config) *cache.ListWatch {
	return requests(cfg.Client.ResourceV1().ResourceClaims(metav1.NamespaceAll), "")
}

// orWithout ends the wait for a feed's first list when the list fails: clusters may lack the API, and users the right.
// The frames are then without it until it works.
func orWithout(f feed, lw *cache.ListWatch) *cache.ListWatch {
	return &cache.ListWatch{
		WatchFuncWithContext: lw.WatchFuncWithContext,
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			list, err := lw.ListWithContext(ctx, o)
			if err != nil && !negotiation(err) {
				f.markSynced()
			}
			return list, err
		},
	}
}

// readDevices reads the resource slices and claims once, as far as the cluster has them and the user may.
func readDevices(ctx context.Context, cfg Config, cluster *state.Cluster) {
	slices, err := pages(ctx, listSlices(cfg), stripSlice)
	if err == nil {
		cluster.ReplaceSlices(slices)
		var claims []state.Claim
		claims, err = pages(ctx, listClaims(cfg), stripClaim)
		cluster.ReplaceClaims(claims)
	}
	if err != nil && ctx.Err() == nil {
		cfg.Log.V(1).Info("devices in resource slices are not shown", "err", err.Error())
	}
}
