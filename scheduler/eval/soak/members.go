package soak

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"

	"gnnsched/internal/kubeconfig"
	"gnnsched/scheduler/plugin"
	"gnnsched/scheduler/plugin/canary"
	"gnnsched/scheduler/plugin/userconfig"
	"gnnsched/scheduler/server"
)

// Names of profiles that are treated apart.
const (
	swapped  = "gnn"   // its checkpoint is swapped
	learning = "dqn"   // it learns, if there is a trainer
	sharing  = "share" // a network with one checkpoint places half of its pods
	rival    = "rival" // a scheduler with a lease of its own, which places pods at the same time as the leader
)

// leaderProfiles are the profiles of the schedulers with leader election.
var leaderProfiles = []string{swapped, learning, sharing, "acgnn", "gpu-gnn", "fgd", server.DefaultProfile}

// profileNames are all profiles. Pods are spread over them.
var profileNames = append(leaderProfiles[:len(leaderProfiles):len(leaderProfiles)], rival)

// shareLatency is the time in which attempts of the share must end. It is long, because the machine may be busy.
const shareLatency = 20 * time.Second

// member is one scheduler process.
type member struct {
	name   string
	config server.Config
	flags  []string // more than all have
}

// members returns the processes: the schedulers with leader election, the rival, and the shadow.
func (f *fleet) members() (out []member, err error) {
	config := func(names ...string) (server.Config, error) {
		c := server.Config{
			Kubeconfig: kubeconfig.SimulatedKubeconfig(f.folder()), QPS: kubeconfig.UnlimitedQPS,
			Profiling: true, // to ask for garbage collections
		}
		for _, name := range names {
			p, err := f.profile(name)
			if err != nil {
				return c, err
			}
			c.Profiles = append(c.Profiles, p)
		}
		return c, nil
	}
	leaders, err := config(leaderProfiles...)
	if err != nil {
		return nil, err
	}
	leaders.LeaderElect = f.config.Schedulers > 1
	for i := range f.config.Schedulers {
		out = append(out, member{name: fmt.Sprintf("scheduler-%d", i), config: leaders})
	}
	other, err := config(rival)
	if err != nil {
		return nil, err
	}
	other.LeaderElect, other.Lease = true, "gnnsched-"+rival
	watching, err := config(swapped)
	if err != nil {
		return nil, err
	}
	watching.Profiles[0].SchedulerName = server.DefaultProfile
	return append(out, member{name: rival, config: other}, member{name: "shadow", config: watching, flags: []string{
		"--shadow", "--shadow-of", server.DefaultProfile, "--shadow-of", rival, "--shadow-report", f.shadowReport(),
	}}), nil
}

// profile returns the profile of a name.
func (f *fleet) profile(name string) (p server.Profile, err error) {
	switch name {
	case sharing:
		p, err = server.ProfileNamed(swapped)
		p.SchedulerName, p.Checkpoint = sharing, f.checkpointFile(swapped)
		p.Canary = &canary.Args{Of: 0.5, Latency: metav1.Duration{Duration: shareLatency}}
	case rival:
		p, err = server.ProfileNamed("gpu-best-fit")
		p.SchedulerName = rival
	default:
		p, err = server.ProfileNamed(name)
	}
	if name == swapped || name == learning {
		p.Checkpoint = f.checkpointFile(name)
	}
	if name == learning && f.config.Trainer != "" {
		p.Learn = &plugin.LearnArgs{
			Trainer:   []string{f.config.Trainer, "--online", "--init", p.Checkpoint, "--guard-episodes", "2"},
			Objective: "balance", InitEpsilon: 0.1, EpsilonDecay: 0.999, FinalEpsilon: 0.01,
		}
	}
	return p, err
}

// prepare writes the configuration of a member and adds its process.
func (f *fleet) prepare(m member) error {
	text, err := m.config.YAML()
	if err != nil {
		return err
	}
	file := f.file(m.name + ".yaml")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		return err
	}
	port, err := freePort()
	if err != nil {
		return err
	}
	f.ports = append(f.ports, port)
	args := append([]string{"rungnn", "--config", file, "--port", strconv.Itoa(port), "--log-dir", "", "--log-level", "warn"}, m.flags...)
	command := func() *exec.Cmd { return exec.Command(f.config.Scheduler, args...) }
	f.schedulers = append(f.schedulers, &process{
		name: m.name, output: f.file(m.name + ".log"), pause: 200 * time.Millisecond, command: command,
	})
	return nil
}

func (f *fleet) shadowReport() string { return f.file("shadow.json") }

// marks returns the leases that schedulers leave in the cluster.
func (s *soak) marks() coordinationclient.LeaseInterface {
	return s.client.CoordinationV1().Leases(metav1.NamespaceSystem)
}

// stopOf returns why the share is stopped; empty if it is not.
func (s *soak) stopOf(ctx context.Context) (why string, err error) {
	lease, err := s.marks().Get(ctx, userconfig.ShareLeaseOf(sharing), metav1.GetOptions{})
	if err != nil {
		return "", fmt.Errorf("read whether the share is stopped: %w", err)
	}
	return lease.Annotations[canary.StoppedAnnotation], nil
}

// unclean is part of the reason of a share that stopped because its process was killed.
const unclean = " unclean: "

// resumeShare acts as a person does after the process of a share was killed: it clears the stop and starts the schedulers again. It reports
// false if the share is not stopped.
func (s *soak) resumeShare(ctx context.Context) bool {
	if why, err := s.stopOf(ctx); err != nil || !strings.Contains(why, unclean) {
		return false
	}
	patch := fmt.Sprintf(`{"metadata": {"annotations": {%q: null}}}`, canary.StoppedAnnotation)
	_, err := s.marks().Patch(ctx, userconfig.ShareLeaseOf(sharing), types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	if err != nil {
		return false
	}
	for _, p := range s.fleet.schedulers[:s.config.Schedulers] {
		p.end(syscall.SIGTERM)
	}
	return true
}

// judgeShare reports a share that was stopped, unless a kill was the reason: its pods fare no worse than the rest.
func (s *soak) judgeShare(ctx context.Context) error {
	why, err := s.stopOf(ctx)
	if err != nil {
		return err
	}
	if why != "" && !(strings.Contains(why, unclean) && s.recoveries.kills() > 0) {
		s.book.add(violation{kind: shareStopped, detail: why})
	}
	for i := range s.fleet.schedulers {
		text, err := s.fleet.read(ctx, i, "/metrics")
		if err != nil {
			continue // it is being started
		}
		for line := range strings.Lines(text) {
			if strings.HasPrefix(line, "gnnsched_share_pods_total{") {
				s.sharePods = append(s.sharePods, strings.TrimSpace(line))
			}
		}
	}
	return nil
}

// judgeShadow reports a shadow that left no report behind. The shadow begins a new comparison after each kill.
func (s *soak) judgeShadow() {
	var report struct {
		Counts struct{ Bound, Compared int }
	}
	text, err := os.ReadFile(s.fleet.shadowReport())
	if err == nil {
		err = json.Unmarshal(text, &report)
	}
	switch {
	case err != nil:
		s.book.add(violation{kind: shadowFailed, detail: fmt.Sprintf("it left no report: %v", err)})
	case report.Counts.Bound > 0 && report.Counts.Compared == 0:
		s.book.add(violation{kind: shadowFailed, detail: fmt.Sprintf("it compared none of %d pods", report.Counts.Bound)})
	}
	s.shadowed = fmt.Sprintf("the shadow compared %d of %d pods since it was last killed", report.Counts.Compared, report.Counts.Bound)
}
