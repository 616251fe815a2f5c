package soak

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"gnnsched/internal/cluster/kube"
	"gnnsched/internal/kubeconfig"
)

// replicas is the number of pods of each ReplicaSet. Only pods with a controller move.
const replicas = 5

// createSets creates for each profile a ReplicaSet. The pods of a third of them have shares of GPUs, and those of another third claims.
func (s *soak) createSets(ctx context.Context) error {
	r := rand.New(rand.NewPCG(s.config.Seed, 2))
	for i, profile := range profileNames {
		requests := cpu(r, 100, 1000)
		if i%3 == 1 {
			requests = share(r)
		}
		pod := corev1.Pod{Spec: specOf(requests, profile)}
		if i%3 == 2 {
			claim(&pod, templateOf(share(r)))
		}
		name := "moved-" + profile
		labels := map[string]string{"set": name}
		template := corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: labels, Annotations: kube.GPUAnnotations(requests, nil)},
			Spec:       pod.Spec,
		}
		_, err := s.client.AppsV1().ReplicaSets(namespace).Create(ctx, &appsv1.ReplicaSet{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: appsv1.ReplicaSetSpec{
				Replicas: new(int32(replicas)), Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: template,
			},
		}, metav1.CreateOptions{})
		if err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("create the ReplicaSet %s: %w", name, err)
		}
	}
	return nil
}

// orphanSets deletes the ReplicaSets and leaves their pods.
func (s *soak) orphanSets(ctx context.Context) {
	sets := s.client.AppsV1().ReplicaSets(namespace)
	for ctx.Err() == nil {
		list, err := sets.List(ctx, metav1.ListOptions{})
		if err == nil && len(list.Items) == 0 {
			return
		}
		if err == nil {
			// One that is not deleted yet is deleted again next time.
			_ = sets.DeleteCollection(ctx, metav1.DeleteOptions{PropagationPolicy: new(metav1.DeletePropagationOrphan)}, metav1.ListOptions{})
		}
		pause(ctx, pollEvery)
	}
}

// mover returns the process that moves pods all the time.
func (f *fleet) mover() *process {
	return &process{name: "defrag", output: f.file("defrag.log"), pause: time.Second, command: func() *exec.Cmd {
		return exec.Command(f.config.Scheduler, "defrag", "--kubeconfig", kubeconfig.SimulatedKubeconfig(f.folder()), "--apply", "--every", "2s",
			"--objective", "balance,gpu-fragmentation", "--moves", "8", "--min-age", "0s", "--wait", "20s",
			"--log-dir", "", "--log-level", "warn", "--output", "json")
	}}
}
