//go:build !service && !k136

package karpenter

import (
	"cmp"
	"encoding/json"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	v1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/utils/resources"

	"gnnsched/scheduler/autoscale"
)

// nodePool returns a pool as Karpenter's object, from its manifest if it has one, with the defaults of Karpenter's API.
func nodePool(p *autoscale.Pool) (v1.NodePool, error) {
	np := v1.NodePool{}
	var given manifest
	if err := cmp.Or(json.Unmarshal(p.Manifest, &np), json.Unmarshal(p.Manifest, &given)); err != nil {
		return np, fmt.Errorf("pool %s: its manifest: %w", p.Name, err)
	}
	np.Name, np.UID = p.Name, types.UID("nodepool/"+p.Name)
	if np.Spec.Replicas != nil {
		return np, fmt.Errorf("pool %s: spec.replicas: pools of a fixed size are not supported", p.Name)
	}
	d := &np.Spec.Disruption
	if given.Spec.Disruption.ConsolidateAfter == nil {
		d.ConsolidateAfter.Duration = new(time.Duration)
	}
	if d.ConsolidationPolicy == "" {
		d.ConsolidationPolicy = v1.ConsolidationPolicyWhenEmptyOrUnderutilized
	}
	if d.Budgets == nil {
		d.Budgets = []v1.Budget{{Nodes: "10%"}}
	}
	for i := range d.Budgets {
		d.Budgets[i].Nodes = cmp.Or(d.Budgets[i].Nodes, "10%")
	}
	t := &np.Spec.Template.Spec
	if len(p.Zones) > 0 {
		t.Requirements = append(t.Requirements,
			v1.NodeSelectorRequirementWithMinValues{Key: corev1.LabelTopologyZone, Operator: corev1.NodeSelectorOpIn, Values: p.Zones})
	}
	if len(np.Spec.Limits) == 0 {
		np.Spec.Limits = v1.Limits{resources.Node: *resource.NewQuantity(autoscale.MostNodes, resource.DecimalSI)}
	}
	if given.Spec.Template.Spec.ExpireAfter == nil {
		t.ExpireAfter.Duration = new(720 * time.Hour)
	}
	if t.NodeClassRef == nil {
		t.NodeClassRef = &v1.NodeClassReference{}
	}
	r := t.NodeClassRef // Karpenter fails on an empty kind
	r.Group, r.Kind, r.Name = cmp.Or(r.Group, "gnnsched"), cmp.Or(r.Kind, "Catalog"), cmp.Or(r.Name, "default")
	conditions := np.StatusConditions()
	for _, c := range []string{v1.ConditionTypeValidationSucceeded, v1.ConditionTypeNodeClassReady, v1.ConditionTypeNodeRegistrationHealthy} {
		conditions.SetTrue(c)
	}
	return np, nil
}

// manifest has the fields of a NodePool whose absence means something else than "Never".
type manifest struct {
	Spec struct {
		Disruption struct {
			ConsolidateAfter *string `json:"consolidateAfter"`
		} `json:"disruption"`
		Template struct {
			Spec struct {
				ExpireAfter *string `json:"expireAfter"`
			} `json:"spec"`
		} `json:"template"`
	} `json:"spec"`
}

// requirementLabels returns the labels that requirements give to each machine: of several values, the first by name.
func requirementLabels(requirements []v1.NodeSelectorRequirementWithMinValues) map[string]string {
	labels := map[string]string{}
	for _, r := range requirements {
		if r.Operator != corev1.NodeSelectorOpIn || len(r.Values) == 0 || v1.WellKnownLabels.Has(r.Key) {
			continue
		}
		for _, value := range r.Values {
			if have, is := labels[r.Key]; !is || value < have {
				labels[r.Key] = value
			}
		}
	}
	return labels
}
