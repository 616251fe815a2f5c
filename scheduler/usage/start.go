package usage

import (
	"context"
	"encoding/json"
	"sync"

	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/utils/clock"
)

// started holds the stores of running pollers. The profiles of one scheduler with the same configuration share one.
var started sync.Map

type startedKey struct {
	snapshot fwk.SharedLister // one for each scheduler
	config   string
}

// Start returns a view of the measurements of c's source, from now on and until ctx is done. Without a configuration the view attaches
// nothing.
func Start(ctx context.Context, c *Config, h fwk.Handle, log klog.Logger) (*View, error) {
	if c == nil {
		return &View{}, nil
	}
	clk := clock.RealClock{}
	text, err := json.Marshal(c)
	if err != nil {
		return nil, err
	}
	key := startedKey{h.SnapshotSharedLister(), string(text)}
	if s, running := started.Load(key); running {
		return newView(s.(*store), clk), nil
	}
	core := h.SharedInformerFactory().Core().V1()
	p, err := newPoller(*c, h.KubeConfig(), directoryOf(core.Nodes().Lister(), core.Pods().Lister()), clk)
	if err != nil {
		return nil, err
	}
	started.Store(key, p.store)
	context.AfterFunc(ctx, func() { started.Delete(key) })
	nodes, pods := core.Nodes().Informer(), core.Pods().Informer()
	go func() {
		// Before, no sample has a node to belong to, and the next measurement is an interval away.
		if cache.WaitForCacheSync(ctx.Done(), nodes.HasSynced, pods.HasSynced) {
			p.Run(ctx, log)
		}
	}()
	return newView(p.store, clk), nil
}
