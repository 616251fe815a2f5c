package watch

import (
	"context"
	"fmt"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	apiwatch "k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	"gnnsched/cmd/internal/top/state"
)

// sliceStore and claimStore write to the cluster, as nodeStore does.
type sliceStore struct{ feed }

type claimStore struct{ feed }

var (
	_ cache.ReflectorStore = (*sliceStore)(nil)
	_ cache.ReflectorStore = (*claimStore)(nil)
)

func (s *sliceStore) Add(obj any) error { return s.Update(obj) }

func (s *sliceStore) Update(obj any) error {
	o, err := sliceIn(obj)
	if err == nil {
		s.cluster.SetSlice(o)
	}
	return err
}

func (s *sliceStore) Delete(obj any) error {
	o, err := sliceIn(obj)
	if err == nil {
		s.cluster.DeleteSlice(o.Name)
	}
	return err
}

func (s *sliceStore) Replace(list []any, _ string) error {
	all := make([]*resourceapi.ResourceSlice, 0, len(list))
	for _, obj := range list {
		o, err := sliceIn(obj)
		if err != nil {
			return err
		}
		all = append(all, o)
	}
	s.cluster.ReplaceSlices(all)
	s.markSynced()
	return nil
}

func sliceIn(obj any) (*resourceapi.ResourceSlice, error) {
	if o, is := obj.(*resourceapi.ResourceSlice); is {
		return o, nil
	}
	return nil, fmt.Errorf("watch: a %T among the resource slices", obj)
}

func (s *claimStore) Add(obj any) error { return s.Update(obj) }

func (s *claimStore) Update(obj any) error {
	c, err := claimIn(obj)
	if err == nil {
		s.cluster.SetClaim(c)
	}
	return err
}

func (s *claimStore) Delete(obj any) error {
	c, err := claimIn(obj)
	if err == nil {
		s.cluster.DeleteClaim(c.Namespace, c.Name)
	}
	return err
}

func (s *claimStore) Replace(list []any, _ string) error {
	all := make([]state.Claim, 0, len(list))
	for _, obj := range list {
		c, err := claimIn(obj)
		if err != nil {
			return err
		}
		all = append(all, c)
	}
	s.cluster.ReplaceClaims(all)
	s.markSynced()
	return nil
}

func claimIn(obj any) (state.Claim, error) {
	if o, is := obj.(*resourceapi.ResourceClaim); is {
		return state.ClaimOf(o), nil
	}
	return state.Claim{}, fmt.Errorf("watch: a %T among the resource claims", obj)
}

func listSlices(cfg Config) *cache.ListWatch {
	api := cfg.Client.ResourceV1().ResourceSlices()
	return &cache.ListWatch{
		ListWithContextFunc:  func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) { return api.List(ctx, o) },
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (apiwatch.Interface, error) { return api.Watch(ctx, o) },
	}
}

func listClaims(cfg Config) *cache.ListWatch {
	api := cfg.Client.ResourceV1().ResourceClaims(metav1.NamespaceAll)
	return &cache.ListWatch{
		ListWithContextFunc:  func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) { return api.List(ctx, o) },
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (apiwatch.Interface, error) { return api.Watch(ctx, o) },
	}
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
	var slices []*resourceapi.ResourceSlice
	err := pages(ctx, listSlices(cfg).ListWithContext, func(obj runtime.Object) { slices = append(slices, obj.(*resourceapi.ResourceSlice)) })
	if err == nil {
		cluster.ReplaceSlices(slices)
		var claims []state.Claim
		err = pages(ctx, listClaims(cfg).ListWithContext,
			func(obj runtime.Object) { claims = append(claims, state.ClaimOf(obj.(*resourceapi.ResourceClaim))) })
		cluster.ReplaceClaims(claims)
	}
	if err != nil && ctx.Err() == nil {
		cfg.Log.V(1).Info("devices in resource slices are not shown", "err", err.Error())
	}
}
