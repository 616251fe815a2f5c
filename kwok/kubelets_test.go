package kwok

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
)

// kwok may ask twice to remove a pod. The second request leaves a new pod with the same name alone.
func TestKubeletRemovesOnlyDeletedPods(t *testing.T) {
	old := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web-0", Namespace: "default", UID: "old",
		DeletionTimestamp: &metav1.Time{Time: time.Now()}, Finalizers: []string{"a/b"}}}
	client := fake.NewClientset(old)
	pods := kubelets{client}.CoreV1().Pods("default")
	if err := pods.Delete(t.Context(), "web-0", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	actions := client.Actions()
	asked, ok := actions[len(actions)-1].(clienttesting.DeleteActionImpl)
	if !ok || asked.DeleteOptions.Preconditions == nil || *asked.DeleteOptions.Preconditions.UID != "old" {
		t.Errorf("the deletion does not name the UID: %+v", asked)
	}
	if err := pods.Delete(t.Context(), "web-0", metav1.DeleteOptions{}); err != nil {
		t.Errorf("a pod that is gone: %v", err)
	}
	again := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web-0", Namespace: "default", UID: "new"}}
	if _, err := client.CoreV1().Pods("default").Create(t.Context(), again, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatal(err)
	}
	if err := pods.Delete(t.Context(), "web-0", metav1.DeleteOptions{}); err != nil {
		t.Error(err)
	}
	if _, err := client.CoreV1().Pods("default").Get(t.Context(), "web-0", metav1.GetOptions{}); err != nil {
		t.Errorf("the new pod: %v", err)
	}
}
