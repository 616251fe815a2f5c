package play

import (
	"testing"

	"gnnsched/workload/record"
)

func TestNamespaceNote(t *testing.T) {
	far := func(selector string) string {
		return `{"podAntiAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":[{"topologyKey":"kubernetes.io/hostname","namespaceSelector":` + selector + `}]}}`
	}
	labelled := record.Object{Kind: record.KindNamespace, Name: "other", Spec: `{"team":"x"}`}
	for what, c := range map[string]struct {
		affinity string
		objects  []record.Object
		want     string
	}{
		"a label": {far(`{"matchLabels":{"team":"x"}}`), nil,
			"1 pods select namespaces by labels, which the record lacks of 2 namespaces"},
		"a preference": {`{"podAffinity":{"preferredDuringSchedulingIgnoredDuringExecution":[{"weight":1,"podAffinityTerm":{"topologyKey":"zone","namespaceSelector":{"matchExpressions":[{"key":"team","operator":"DoesNotExist"}]}}}]}}`, nil, "1 pods select namespaces by labels, which the record lacks of 2 namespaces"},
		"one is known": {far(`{"matchLabels":{"team":"x"}}`), []record.Object{labelled},
			"1 pods select namespaces by labels, which the record lacks of 1 namespaces"},
		"both are known": {far(`{"matchLabels":{"team":"x"}}`), []record.Object{labelled, {Kind: record.KindNamespace, Name: "shop"}},
			""},
		"the name":                 {far(`{"matchLabels":{"kubernetes.io/metadata.name":"other"}}`), nil, ""},
		"another name and a label": {far(`{"matchLabels":{"kubernetes.io/metadata.name":"third","team":"x"}}`), nil, ""},
		"a name and a label": {far(`{"matchLabels":{"kubernetes.io/metadata.name":"other","team":"x"}}`), nil,
			"1 pods select namespaces by labels, which the record lacks of 2 namespaces"},
		"all namespaces":        {far(`{}`), nil, ""},
		"no selector":           {far(`null`), nil, ""},
		"no affinity":           {"", nil, ""},
		"none that can be read": {`{"podAntiAffinity":7}`, nil, ""},
	} {
		pods := []record.Pod{{Namespace: "shop", Name: "a", Affinity: c.affinity}, {Namespace: "other", Name: "b"}}
		if got := NamespaceNote("the record", pods, c.objects); got != c.want {
			t.Errorf("%s: %q, want %q", what, got, c.want)
		}
	}
}
