package docs_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"gnnsched/internal/cluster/kube"
	"gnnsched/kwok/nodepool"
)

// The nodes and pods of the pages about GPUs are as kwokcluster and the scheduler read them.
func TestSnippetsAboutGPUs(t *testing.T) {
	manifests := map[string]int{}
	for _, page := range []string{"how-to/gpus.md", "how-to/claims-and-mig.md"} {
		for _, b := range blocks(t, page) {
			text := strings.Join(b.lines, "\n")
			switch {
			case b.language != "yaml":
			case b.lines[0] == "pools:":
				if _, err := nodepool.Parse(page, []byte(text)); err != nil {
					t.Error(err)
				}
			default:
				for _, manifest := range strings.Split(text, "\n---\n") {
					manifests[checkManifest(t, page, manifest)]++
				}
			}
		}
	}
	if manifests["Pod"] != 3 || manifests["ResourceClaimTemplate"] != 1 {
		t.Errorf("the pages have %v", manifests)
	}
}

// checkManifest checks a manifest of a page, and returns its kind.
func checkManifest(t *testing.T, page, manifest string) string {
	t.Helper()
	var is metav1.TypeMeta
	err := yaml.Unmarshal([]byte(manifest), &is)
	switch is.Kind {
	case "Pod":
		var p corev1.Pod
		if err = yaml.UnmarshalStrict([]byte(manifest), &p); err == nil {
			_, err = kube.Pod(&p)
		}
	case "ResourceClaimTemplate":
		err = yaml.UnmarshalStrict([]byte(manifest), &resourceapi.ResourceClaimTemplate{})
	}
	if err != nil {
		t.Errorf("%s: %v in\n%s", page, err, manifest)
	}
	return is.Kind
}
