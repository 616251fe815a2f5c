package driver

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"gnnsched/internal/exit"
	"gnnsched/workload"
)

// createNamespace creates the namespace with the run's labels if it is missing. An existing namespace stays as it is, because it may be
// foreign.
func (c *Config) createNamespace(ctx context.Context) (created bool, err error) {
	n, err := c.Client.CoreV1().Namespaces().Get(ctx, c.Namespace, metav1.GetOptions{})
	switch {
	case err == nil && n.Status.Phase == corev1.NamespaceTerminating:
		return false, exit.New(exit.Usage, fmt.Errorf("namespace %s is being deleted", c.Namespace),
			"wait until it is gone, or choose another one with --namespace")
	case err == nil:
		return false, nil
	case !apierrors.IsNotFound(err):
		return false, fmt.Errorf("look for namespace %s: %w", c.Namespace, err)
	}
	n = &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: c.Namespace, Labels: c.labels()}}
	_, err = c.Client.CoreV1().Namespaces().Create(ctx, n, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return false, nil // created by others in the meantime
	}
	if err != nil {
		return false, fmt.Errorf("create namespace %s: %w", c.Namespace, err)
	}
	return true, nil
}

// checkNames returns an error if a Deployment of the namespace has a name of the plan, at which
// the run would stop halfway, or the run's id, in which case a reset would delete it.
func (c *Config) checkNames(ctx context.Context) error {
	existing, err := c.Client.AppsV1().Deployments(c.Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("list the Deployments in namespace %s: %w", c.Namespace, err)
	}
	owner := map[string]string{}
	for _, d := range existing.Items {
		owner[d.Name] = d.Labels[workload.LabelRun]
	}
	for name, run := range owner {
		if run == c.RunID {
			return exit.New(exit.Usage, fmt.Errorf("run id %s is in use: it is on Deployment %s in namespace %s", run, name, c.Namespace),
				"remove it with `cleancluster --run "+run+"`, or choose another id")
		}
	}
	for _, s := range c.Plan.Steps {
		if run, taken := owner[s.Deployment.Name]; taken && s.Action == workload.Add {
			err := fmt.Errorf("namespace %s already has a Deployment %s", c.Namespace, s.Deployment.Name)
			if run != "" {
				return exit.New(exit.Usage, fmt.Errorf("%w, of run %s", err, run),
					"remove it with `cleancluster --run "+run+"`, or choose another --seed or --namespace")
			}
			return exit.New(exit.Usage, err, "choose another --seed or --namespace")
		}
	}
	return nil
}
