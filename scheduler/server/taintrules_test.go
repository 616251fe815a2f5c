package server

import (
	"context"
	"fmt"
	"testing"

	"github.com/spf13/pflag"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/util/compatibility"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/component-base/featuregate"
	featuregatetesting "k8s.io/component-base/featuregate/testing"
	"k8s.io/kubernetes/pkg/features"

	"gnnsched/kwok"
)

// switchGate switches a feature gate on for a test, and returns it as components take it.
//
// The process has one set of gates, and keeps the flags of every start: without the clean-up, the next scheduler or cluster of this
// test binary would set this one again.
func switchGate(t *testing.T, gate featuregate.Feature) []string {
	t.Helper()
	before := utilfeature.DefaultFeatureGate.Enabled(gate)
	featuregatetesting.SetFeatureGateDuringTest(t, utilfeature.DefaultFeatureGate, gate, true)
	t.Cleanup(func() {
		flags := pflag.NewFlagSet("", pflag.ContinueOnError)
		compatibility.DefaultComponentGlobalsRegistry.AddFlags(flags)
		if err := flags.Parse([]string{fmt.Sprintf("--feature-gates=%s=%t", gate, before)}); err != nil {
			t.Error(err)
		}
	})
	return []string{string(gate) + "=true"}
}

// With the gate that Kubernetes 1.36 has off by default, rules taint devices alike for upstream's plugins and for ours.
func TestDeviceTaintRules(t *testing.T) {
	gates := switchGate(t, features.DRADeviceTaintRules)
	l := newLabWith(t, kwok.Config{Pools: casePools(), FeatureGates: gates, RuntimeConfig: []string{"resource.k8s.io/v1beta2=true"}})
	l.gates = gates
	config := Config{QPS: 1000, Profiles: []Profile{{SchedulerName: DefaultProfile, Args: Args{Variant: DefaultProfile}},
		{SchedulerName: "best", Args: Args{Policy: "gpu-best-fit"}}}}
	defer l.start(context.Background(), t, withUpstream{config}, l.cluster.Kubeconfig())()
	for _, c := range readCases(t, "testdata/taintrules.yaml") {
		for _, profile := range []string{upstreamProfile, "best"} {
			t.Run(c.Name+"/"+profile, func(t *testing.T) {
				l.testCase(t, c, profile)
				rules := l.objects(t, "DeviceTaintRule", "")
				if err := rules.DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
					t.Error(err)
				}
			})
		}
	}
}
