// Package kwok runs a simulated Kubernetes cluster inside this process. etcd, kube-apiserver and kube-controller-manager are the real ones;
// kwok's controllers stand in for the kubelets of nodes that do not exist. A pod runs as soon as it is bound, and its usage follows its
// usage model (package kwok/usage).
//
//	cluster, err := kwok.Start(ctx, kwok.Config{Dir: t.TempDir(), Pools: nodepool.Default(10)})
//	if err != nil {
//		t.Fatal(err)
//	}
//	defer cluster.Stop(context.Background())
//	clientset, err := kubernetes.NewForConfig(cluster.REST())
//
// When Start returns, the API server answers and every node is Ready. The cluster has no
// scheduler: start one with cluster.Kubeconfig(), or set the nodeName of pods.
//
// By default the cluster listens on the loopback interface only. It uses TLS and accepts only
// the token in its kubeconfig. Config.Dir keeps its data for the next start in that directory.
// A process can run several clusters one after another, but not at the same time, because the
// components share global feature gates and metrics.
//
// klog is global as well and this package does not change it. Redirect klog before Start, or
// the components log to stderr.
//
// # Version
//
// The API server reports the version that the linker sets, else a placeholder. Build with
//
//	-ldflags "-X k8s.io/component-base/version.gitVersion=v1.37.2
//	  -X k8s.io/component-base/version.gitMajor=1
//	  -X k8s.io/component-base/version.gitMinor=37
//	  -X k8s.io/component-base/version.gitTreeState=clean
//	  -X sigs.k8s.io/kwok/pkg/consts.Version=v0.8.0"
package kwok
