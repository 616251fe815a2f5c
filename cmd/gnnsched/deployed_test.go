//go:build !race

// The race detector finds two races here that are not ours: Kubernetes' API server encodes the sizeLimit of an emptyDir for one watcher
// while it copies it for another, and the scheduler sets klog's process-wide logger while the server in the same process logs. Other tests
// run scheduler and server under the detector.

package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	kyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/yaml"

	"gnnsched/deploy"
	"gnnsched/internal/cluster/kube"
	"gnnsched/internal/fatal"
	"gnnsched/internal/logging"
	"gnnsched/kwok"
	"gnnsched/kwok/nodepool"
)

// deployedPatience is the time limit of every wait.
const deployedPatience = time.Minute

// site is a cluster on which manifests of `gnnsched deploy` are applied.
type site struct {
	cluster *kwok.Cluster
	client  *kubernetes.Clientset
	dynamic dynamic.Interface
}

func newSite(t *testing.T) *site {
	t.Helper()
	logging.DropKlog() // the API server's; the scheduler routes its own
	capacity := func(cpu string) corev1.ResourceList {
		return corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse("16Gi"),
			corev1.ResourcePods: resource.MustParse("110"),
		}
	}
	shared := capacity("8")
	kube.AddGPUs(shared, 2)
	reserved := []corev1.Taint{{Key: "reserved", Effect: corev1.TaintEffectNoSchedule}}
	c, err := kwok.Start(context.Background(), kwok.Config{Dir: t.TempDir(), UsageInterval: time.Second, Pools: []nodepool.Pool{
		{Name: "plain", Count: 3, Capacity: capacity("8"), Zones: []string{"a", "b", "c"}},
		{Name: "shared", Count: 1, Capacity: shared, Zones: []string{"a"}, Labels: map[string]string{kube.GPUModelLabel: "T4"}},
		{Name: "tight", Count: 1, Capacity: capacity("2"), Zones: []string{"a"}, Taints: reserved},
	}})
	fatal.If(t, err)
	t.Cleanup(func() {
		if err := c.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return &site{c, kubernetes.NewForConfigOrDie(c.REST()), dynamic.NewForConfigOrDie(c.REST())}
}

// apply applies manifests. Objects without a namespace get one if their kind needs it.
func (s *site) apply(ctx context.Context, manifests []byte, namespace string) error {
	docs := kyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(manifests)))
	for {
		doc, err := docs.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		o := &unstructured.Unstructured{}
		if err == nil {
			err = yaml.Unmarshal(doc, &o.Object)
		}
		if err != nil {
			return err
		}
		if namespaced := []string{"Deployment", "StatefulSet", "Service", "Pod", "PersistentVolumeClaim", "ResourceClaim",
			"PodDisruptionBudget"}; o.GetNamespace() == "" && slices.Contains(namespaced, o.GetKind()) {
			o.SetNamespace(namespace)
		}
		gvr, _ := meta.UnsafeGuessKindToResource(o.GroupVersionKind())
		if _, err := s.dynamic.Resource(gvr).Namespace(o.GetNamespace()).Apply(ctx, o.GetName(), o,
			metav1.ApplyOptions{FieldManager: "test", Force: true}); err != nil {
			return fmt.Errorf("%s %s: %w", o.GetKind(), o.GetName(), err)
		}
	}
}

// kubeconfig writes a kubeconfig with a token of a service account.
func (s *site) kubeconfig(t *testing.T, namespace, account string) string {
	t.Helper()
	token := fatal.Value(s.client.CoreV1().ServiceAccounts(namespace).CreateToken(t.Context(),
		account, &authenticationv1.TokenRequest{}, metav1.CreateOptions{}))(t)
	rest, k := s.cluster.REST(), clientcmdapi.NewConfig()
	k.Clusters["c"] = &clientcmdapi.Cluster{Server: rest.Host, CertificateAuthorityData: rest.CAData}
	k.AuthInfos["c"] = &clientcmdapi.AuthInfo{Token: token.Status.Token}
	k.Contexts["c"] = &clientcmdapi.Context{Cluster: "c", AuthInfo: "c"}
	k.CurrentContext = "c"
	file := filepath.Join(t.TempDir(), "kubeconfig")
	fatal.If(t, clientcmd.WriteToFile(*k, file))
	return file
}

// without returns manifests whose roles do not mention a resource.
func without(t *testing.T, manifests []byte, gone string) []byte {
	t.Helper()
	docs := strings.Split(string(manifests), "---\n")
	found := false
	for i, doc := range docs {
		var role rbacv1.ClusterRole
		if !strings.Contains(doc, "rules:") || yaml.Unmarshal([]byte(doc), &role) != nil {
			continue
		}
		for j := range role.Rules {
			r := &role.Rules[j]
			for k := len(r.Resources) - 1; k >= 0; k-- {
				if strings.Join(r.APIGroups, ",")+"/"+r.Resources[k] == gone {
					found, r.Resources = true, slices.Delete(r.Resources, k, k+1)
				}
			}
		}
		role.Rules = slices.DeleteFunc(role.Rules, func(r rbacv1.PolicyRule) bool { return len(r.Resources) == 0 })
		text := fatal.Value(yaml.Marshal(role))(t)
		docs[i] = string(text)
	}
	if !found {
		t.Fatalf("no rule names %s", gone)
	}
	return []byte(strings.Join(docs, "---\n"))
}

// measured are the values with which the scheduler needs all rights that the chart can give.
const measured = "usage.source=metrics.k8s.io,args={--policy=crane-dynamic}"

// The rendered manifests are applied to an API server with RBAC, and the scheduler runs with the arguments of the
// Deployment as its service account. It needs no right that the manifests do not give.
func TestDeployed(t *testing.T) {
	s := newSite(t)
	t.Run("second", func(t *testing.T) {
		s.deploy(t, "second", measured, "")
		s.admitted(t, "second", 2)
		if err := s.start(t, "second").work(t, "work-second"); err != nil {
			t.Error(err)
		}
	})
	t.Run("replacement", func(t *testing.T) {
		s.deploy(t, "replacement", "mode=replacement,args={--policy=gpu-best-fit}", "")
		s.admitted(t, "replacement", 2)
		d := s.start(t, "replacement")
		if err := errors.Join(d.work(t, "work-replacement"), d.chose(t.Context())); err != nil {
			t.Error(err)
		}
		s.placesItself(t, d, "replacement")
	})
	t.Run("compute", func(t *testing.T) { // workers and a Job that waits for its queue
		text, err := deploy.Render(deploy.Options{Name: "gnnsched", Namespace: "compute", ValueFiles: []string{"../../deploy/compute.yaml"}})
		fatal.If(t, err)
		fatal.If(t, s.apply(t.Context(), text, "compute"))
		s.admitted(t, "compute", 4)
	})
	t.Run("switch", s.testSwitch)
	// Without one of these the test above fails.
	for _, gone := range []string{"apps/replicasets", "/pods/binding", "metrics.k8s.io/pods", "coordination.k8s.io/leases",
		"resource.k8s.io/resourceclaims"} {
		t.Run("without "+gone, func(t *testing.T) {
			s.deploy(t, "missing", measured, gone)
			name := "work-" + strings.NewReplacer("/", "-", ".", "-").Replace(gone)
			if err := s.start(t, "missing").work(t, name); !errors.Is(err, errRefused) {
				t.Errorf("the scheduler works without a right to %s: %v", gone, err)
			}
		})
	}
}

// deploy renders manifests into a namespace, takes a resource out of the roles if it is not empty, and applies them.
func (s *site) deploy(t *testing.T, namespace, set, gone string) {
	t.Helper()
	text := fatal.Value(deploy.Render(deploy.Options{Name: "gnnsched", Namespace: namespace, Set: set}))(t)
	if gone != "" {
		text = without(t, text, gone)
	}
	fatal.If(t, s.apply(t.Context(), text, namespace))
}

// admitted checks that the API server admits so many pods of Deployments to the namespace, which enforces restricted pod security.
func (s *site) admitted(t *testing.T, namespace string, want int) {
	t.Helper()
	deadline := time.Now().Add(deployedPatience)
	for {
		pods := fatal.Value(s.client.CoreV1().Pods(namespace).List(t.Context(), metav1.ListOptions{}))(t)
		if len(pods.Items) == want {
			return
		}
		if time.Now().After(deadline) {
			sets, _ := s.client.AppsV1().ReplicaSets(namespace).List(t.Context(), metav1.ListOptions{})
			t.Fatalf("%d pods, want %d: %v", len(pods.Items), want, conditions(sets))
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func conditions(l *appsv1.ReplicaSetList) (out []appsv1.ReplicaSetCondition) {
	for _, r := range l.Items {
		out = append(out, r.Status.Conditions...)
	}
	return out
}

// testSwitch applies the policy of docs/how-to/deploy.md, which gives gnnsched the new pods of a namespace with a label.
func (s *site) testSwitch(t *testing.T) {
	page, err := os.ReadFile("../../docs/how-to/deploy.md")
	fatal.If(t, err)
	_, policy, _ := strings.Cut(string(page), "```yaml\n")
	policy, _, found := strings.Cut(policy, "```")
	if !found || !strings.Contains(policy, "MutatingAdmissionPolicy") {
		t.Fatal("docs/how-to/deploy.md has no policy")
	}
	fatal.If(t, s.apply(t.Context(), []byte(policy), ""))
	// scheduler returns the scheduler's name of a new pod that gives the name.
	scheduler := func(namespace, name string) string {
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{GenerateName: "p-"},
			Spec:       corev1.PodSpec{SchedulerName: name, Containers: []corev1.Container{{Name: "c", Image: "none"}}},
		}
		pod, err := s.client.CoreV1().Pods(namespace).Create(t.Context(), pod, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		fatal.If(t, err)
		return pod.Spec.SchedulerName
	}
	for name, labels := range map[string]map[string]string{"switched": {"gnnsched.io/scheduler": "gnn"}, "left": nil} {
		fatal.Value(s.client.CoreV1().Namespaces().Create(t.Context(),
			&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}, metav1.CreateOptions{}))(t)
	}
	// until the API server knows the policy
	for deadline := time.Now().Add(deployedPatience); scheduler("switched", "") != "gnn"; time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("a new pod of the namespace is the default scheduler's")
		}
	}
	if got := scheduler("switched", "other"); got != "other" {
		t.Errorf("a pod that names a scheduler gets %s", got)
	}
	if got := scheduler("left", ""); got != corev1.DefaultSchedulerName {
		t.Errorf("a pod of another namespace gets %s", got)
	}
}

// placesItself checks that the replacement places its own two pods, on two nodes.
func (s *site) placesItself(t *testing.T, d *deployed, namespace string) {
	t.Helper()
	err := d.until(t.Context(), func() error {
		pods, err := s.client.CoreV1().Pods(namespace).List(t.Context(), metav1.ListOptions{})
		if err != nil {
			return err
		}
		on := map[string]bool{}
		for _, p := range pods.Items {
			on[p.Spec.NodeName] = p.Spec.NodeName != ""
		}
		delete(on, "")
		if len(on) != 2 {
			return fmt.Errorf("its pods are on %v", on)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}
