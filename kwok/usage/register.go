package usage

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	apiregistration "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	aggregator "k8s.io/kube-aggregator/pkg/client/clientset_generated/clientset"
	"k8s.io/metrics/pkg/apis/metrics"
	"k8s.io/metrics/pkg/apis/metrics/v1beta1"
)

// Register tells the API server that it serves metrics.k8s.io itself, so that it lists the group. kubectl top asks for that list first. A
// registration of an earlier start is kept; a registration of another server is corrected.
func Register(ctx context.Context, rc *rest.Config) error {
	client, err := aggregator.NewForConfig(rc)
	if err != nil {
		return err
	}
	version := v1beta1.SchemeGroupVersion.Version
	want := &apiregistration.APIService{
		ObjectMeta: metav1.ObjectMeta{Name: version + "." + metrics.GroupName},
		Spec:       apiregistration.APIServiceSpec{Group: metrics.GroupName, Version: version, GroupPriorityMinimum: 100, VersionPriority: 100},
	}
	services := client.ApiregistrationV1().APIServices()
	_, err = services.Create(ctx, want, metav1.CreateOptions{})
	if !apierrors.IsAlreadyExists(err) {
		return wrap(err)
	}
	have, err := services.Get(ctx, want.Name, metav1.GetOptions{})
	if err != nil || have.Spec.Service == nil {
		return wrap(err)
	}
	have.Spec = want.Spec
	_, err = services.Update(ctx, have, metav1.UpdateOptions{})
	return wrap(err)
}

func wrap(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("register %s: %w", metrics.GroupName, err)
}
