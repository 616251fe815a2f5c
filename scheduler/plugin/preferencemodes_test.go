package plugin

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/go-logr/logr/funcr"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"

	"gnnsched/scheduler/policy/preference"
)

// At the start, one line for each profile says how preferences count.
func TestStartSaysHowPreferencesCount(t *testing.T) {
	for given, want := range map[preference.Mode]string{"": "first", preference.Declared: "declared", preference.Blend: "blend",
		preference.Off: "off"} {
		profile := "says-" + want
		b := newBed(t, profile, Args{Policy: "best-fit"})
		var lines []string
		log := funcr.New(func(prefix, args string) { lines = append(lines, prefix+" "+args) }, funcr.Options{})
		raw := fmt.Sprintf(`{"policy": "best-fit", "preferences": %q}`, given)
		args, err := DecodeArgs(&runtime.Unknown{Raw: []byte(raw)}, profile)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := newLearnedScore(klog.NewContext(b.ctx, log), args, b.sched.Profiles[profile], b.reservations()); err != nil {
			t.Fatal(err)
		}
		said := slices.DeleteFunc(lines, func(l string) bool { return !strings.Contains(l, "Preferences of manifests") })
		if len(said) != 1 || !strings.Contains(said[0], `"profile"="`+profile+`"`) || !strings.Contains(said[0], `"preferences"="`+want+`"`) {
			t.Errorf("preferences %q: %q", given, said)
		}
	}
}

// Twelve replicas prefer the nodes with an SSD, which have room for eight of them, and should avoid the two
// others that are small. The default profile places eight and none there, and so does every profile of
// ours. Without preferences none does.
func TestTwelveReplicasPreferSSD(t *testing.T) {
	s := readSuite(t)
	k := kinds[slices.IndexFunc(kinds, func(k kind) bool { return k.name == "node-affinity-deployment" })]
	s.cluster = mixedNodes(t)
	for _, n := range s.cluster.nodes[1:3] {
		n.Labels["disk"] = "ssd"
	}
	for _, n := range s.cluster.nodes[3:5] {
		n.Labels["pool"], n.Spec.Taints = "spot", []v1.Taint{{Key: "spot", Effect: v1.TaintEffectPreferNoSchedule}}
	}
	for _, p := range s.pods[k.name] {
		p.Spec.Containers[0].Resources.Requests = v1.ResourceList{v1.ResourceCPU: resource.MustParse("2500m"),
			v1.ResourceMemory: resource.MustParse("2Gi")}
	}
	want := []int{8, 0} // on nodes with an SSD, and minus those on avoided nodes
	for _, args := range suiteProfiles {
		for _, mode := range []preference.Mode{preference.First, preference.Declared, preference.Off} {
			args.Preferences = mode
			profile := args.Variant + args.Policy + "-ssd-" + string(mode)
			b := newBed(t, profile, args, s.objects...)
			b.load(t, s.cluster)
			if got := s.play(t, b, defaultProfile, k); !slices.Equal(got, want) {
				t.Fatalf("the default profile: %v, want %v", got, want)
			}
			if got := s.play(t, b, profile, k); slices.Equal(got, want) != (mode != preference.Off) {
				t.Errorf("%s: %v, the default profile %v", profile, got, want)
			}
		}
	}
}

// blended are upstream's weights of its plugins that score by preferences, as in server.Profile.
var blended = []config.Plugin{{Name: "TaintToleration", Weight: 3}, {Name: "NodeAffinity", Weight: 2},
	{Name: "PodTopologySpread", Weight: 2}, {Name: "InterPodAffinity", Weight: 2}, {Name: "ImageLocality", Weight: 1}}
