package trial

import (
	"fmt"
	"strings"

	"gnnsched/internal/kuberelease"
	"gnnsched/scheduler/eval"
	"gnnsched/scheduler/learn/cem"
	"gnnsched/scheduler/policy/stock"
)

// head is the comment in front of the configuration.
type head struct {
	scenario eval.Scenario
	version  string // of this program
	profile  stock.Profile
	command  string           // that repeats the run
	judged   *eval.Comparison // nil if the profile was not judged
}

func (h head) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "Score plugins of kube-scheduler (Kubernetes %s), tuned by gnnsched %s in the simulator:\n  %s\n\n",
		kuberelease.Scheduler, h.version, h.command)
	fmt.Fprintf(&b, "Scenario %s, objective %s.\n", h.scenario.Name, h.scenario.Objective.Name())
	h.results(&b)
	b.WriteString("\nNodeAffinity, InterPodAffinity and ImageLocality were not played. Their weights keep the default profile's ratio\n" +
		"to the sum of NodeResourcesFit and NodeResourcesBalancedAllocation.\n")
	if h.profile.NoDefaultSpread {
		b.WriteString("WITHOUT DEFAULT SPREADING: replicas are spread over nodes and zones only where their manifests have\n" +
			"topologySpreadConstraints. Delete the arguments of PodTopologySpread to spread them as by default.\n")
	}
	b.WriteString("\nUse: kube-scheduler --config FILE. It ignores --kubeconfig then; add clientConnection.kubeconfig, with kubeadm\n" +
		"/etc/kubernetes/scheduler.conf. Compare: gnnsched eval --policies kube-scheduler,stock:FILE\n")
	return b.String()
}

// results writes the means on held-out episodes.
func (h head) results(b *strings.Builder) {
	if h.judged == nil {
		b.WriteString("It was not judged on other episodes.\n")
		return
	}
	r := h.judged
	fmt.Fprintf(b, "Means over the %d held-out seeds from %d on, less is better; difference with its 95%% interval:\n",
		len(r.Seeds), r.Seeds[0])
	fmt.Fprintf(b, "  %-12s %9s %9s %11s\n", "", "default", "tuned", "difference")
	for i, m := range cem.Judged {
		d := r.Differences(cem.Judged)[i][0]
		interval := fmt.Sprintf("(%+.4g to %+.4g)", d.Low, d.High)
		if r.Samples() < 2 {
			interval = "(one sample)"
		}
		fmt.Fprintf(b, "  %-12s %9.4g %9.4g %+11.4g %s\n", m.Title, r.Results[0].Mean(m), r.Results[1].Mean(m), d.Mean, interval)
	}
	for _, line := range warnings(r) {
		b.WriteString("Warning: " + line + "\n")
	}
}

// warnings says where the tuned profile is worse than the default, and whether it is better at all.
func warnings(r *eval.Comparison) (lines []string) {
	if r.Samples() < 2 && len(r.Seeds) > 1 {
		lines = append(lines, "these episodes have the same pods, so they are one sample. With --resample=false, "+
			"the profile was tuned on them too; else record for a longer time")
	}
	for i, d := range r.Differences(cem.Judged) {
		m, how := cem.Judged[i], fmt.Sprintf("p = %.2g over %d episodes", d[0].Adjusted, len(r.Seeds))
		if r.Samples() < 2 {
			how = "one sample"
		}
		if d[0].Mean > 0 {
			lines = append(lines, fmt.Sprintf("the tuned profile is worse than the default in %s: %.4g against %.4g (%s)",
				m.Title, r.Results[1].Mean(m), r.Results[0].Mean(m), how))
		}
		if m.Name == eval.Objective.Name && d[0].Mean <= 0 && d[0].Mark != eval.Lower {
			lines = append(lines, fmt.Sprintf("the tuned profile is not shown to be better than the default in %s (%s); the default will do",
				m.Title, how))
		}
	}
	return lines
}
