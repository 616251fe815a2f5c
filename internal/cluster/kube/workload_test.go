package kube

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestWorkload(t *testing.T) {
	yes, hash := true, map[string]string{"pod-template-hash": "7f9"}
	for _, c := range []struct {
		kind, name string
		labels     map[string]string
		want       string
	}{
		{"", "", hash, ""},
		{"ReplicaSet", "web-7f9", hash, "Deployment/web"},
		{"ReplicaSet", "web-7f9", nil, "ReplicaSet/web-7f9"},
		{"Job", "report-29012345", nil, "CronJob/report"},
		{"Job", "train-2", nil, "Job/train-2"},
		{"Job", "-29012345", nil, "Job/-29012345"},
		{"StatefulSet", "db", nil, "StatefulSet/db"},
	} {
		p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Labels: c.labels}}
		if c.kind != "" {
			p.OwnerReferences = []metav1.OwnerReference{{Kind: c.kind, Name: c.name, Controller: &yes}}
		}
		if got := Workload(p); got != c.want {
			t.Errorf("%s %s: %q, want %q", c.kind, c.name, got, c.want)
		}
	}
	for annotated, want := range map[string]string{"Deployment/web": "Deployment/web", "web": "", "Deployment/": "", "<b>/web": "",
		"Deployment/<script>": ""} {
		p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{WorkloadAnnotation: annotated}}}
		if got := Workload(p); got != want {
			t.Errorf("annotated %q: %q, want %q", annotated, got, want)
		}
	}
}
