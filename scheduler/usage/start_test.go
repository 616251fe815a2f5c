package usage

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
)

// handle stands for a scheduler's handle.
type handle struct {
	fwk.Handle
	factory informers.SharedInformerFactory
}

func (h handle) SharedInformerFactory() informers.SharedInformerFactory { return h.factory }
func (h handle) KubeConfig() *rest.Config                               { return nil }
func (h handle) SnapshotSharedLister() fwk.SharedLister                 { return nil }

// A measurement before the scheduler knows the nodes would be lost, and the next one is 15 s away.
func TestStartWaitsForTheNodes(t *testing.T) {
	asked := atomic.Int32{}
	prometheus := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		fmt.Fprint(w, `{"status":"success","data":{"resultType":"vector","result":[{"metric":{"node":"a"},"value":[1,"1"]}]}}`)
	}))
	defer prometheus.Close()
	node := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a"}}
	factory := informers.NewSharedInformerFactory(fake.NewClientset(node), 0)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	config := Config{Source: PrometheusSource, Address: prometheus.URL}
	view, err := Start(ctx, &config, handle{factory: factory}, klog.Background())
	if err != nil {
		t.Fatal(err)
	}
	time.Sleep(100 * time.Millisecond)
	if n := asked.Load(); n > 0 {
		t.Errorf("%d queries before the nodes are known", n)
	}
	factory.Start(ctx.Done())
	for deadline := time.Now().Add(10 * time.Second); len(view.store.current().Nodes) == 0; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the first measurement has no node")
		}
	}
}
