package contender

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"gnnsched/gnn/checkpoint"
	"gnnsched/internal/exit"
	"gnnsched/scheduler/eval"
	"gnnsched/scheduler/eval/agreement"
	"gnnsched/scheduler/policy/heuristic"
	"gnnsched/scheduler/policy/linear"
	"gnnsched/scheduler/server"
	"gnnsched/scheduler/server/stockconfig"
)

// Kubernetes is the policy that scores as kube-scheduler does. On a cluster, kube-scheduler's own
// default profile takes its place.
const Kubernetes = "kube-scheduler"

// WithProfiles gives every contender the scheduler profile that decides the same way on a
// cluster. files are the ones that [List] got.
func WithProfiles(contenders []eval.Contender, files []string) ([]agreement.Contender, error) {
	var out []agreement.Contender
	for _, x := range contenders {
		if x.Play != nil {
			return nil, exit.Usagef("%s uses what no scheduler has, so it has no profile on a cluster", x.Name)
		}
		name, keepsLonger := strings.CutPrefix(x.Name, leaving+":")
		name, ofRunning := strings.CutPrefix(name, running+":")
		ofRunning = ofRunning || keepsLonger
		p := server.Profile{SchedulerName: x.Name, PodsLeave: keepsLonger}
		if ofRunning {
			p.SchedulerName = strings.Replace(x.Name, ":", "-", 1)
		}
		network, wanted, _ := strings.Cut(name, ":")
		file, isFile := strings.CutPrefix(name, stockPrefix+":")
		_, notHeuristic := heuristic.Find(name)
		switch {
		case strings.HasPrefix(x.Name, firstFit+":"):
			return nil, exit.Usagef("%s has no profile on a cluster; with --claims, %s takes the first devices that fit", x.Name, Kubernetes)
		case isFile:
			var err error
			if p, err = stockProfile(x.Name, file); err != nil {
				return nil, err
			}
		case strings.HasPrefix(x.Name, byLoad+":"):
			return nil, exit.Usagef("%s has no profile on a cluster: schedulers do not know the load that is offered to them", x.Name)
		case ofRunning && !x.Network:
			return nil, exit.Usagef("%s has no profile on a cluster: schedulers count running pods for networks only", x.Name)
		case name == Kubernetes:
			p.Variant = server.DefaultProfile
		case notHeuristic == nil:
			p.Policy = name
		case slices.Contains(checkpoint.ShippedNames(), network):
			p.Variant, p.Objective = network, strings.ReplaceAll(wanted, "+", ",")
			p.SchedulerName = strings.NewReplacer(":", "-", "=", "-", "+", "-").Replace(p.SchedulerName)
		}
		// with PodsLeave, the pod list counts by lifetime
		out = append(out, agreement.Contender{Contender: x, Profile: p, Running: ofRunning && !keepsLonger})
	}
	for _, f := range files {
		p, err := FileProfile(f)
		if err != nil {
			return nil, err
		}
		out[slices.IndexFunc(out, func(x agreement.Contender) bool { return x.Name == p.SchedulerName })].Profile = p
	}
	return out, nil
}

// FileProfile returns the scheduler profile of a file for --checkpoint: [NAME=]FILE, with a network, with linear
// weights (.json), or with a KubeSchedulerConfiguration (.yaml). Its errors have exit codes. The checkpoint of a
// network is not read.
func FileProfile(argument string) (server.Profile, error) {
	if prefix, _, ok := strings.Cut(argument, ":"); ok && departures[prefix] != nil {
		return server.Profile{}, exit.Usagef("--checkpoint %s: a file has no profile with %s: on a cluster", argument, prefix)
	}
	name, path := splitArgument(argument)
	file, err := filepath.Abs(path)
	if err != nil {
		return server.Profile{}, fmt.Errorf("find %s: %w", path, err)
	}
	if isStock(path) {
		return stockProfile(name, file)
	}
	if filepath.Ext(path) != ".json" {
		return server.Profile{SchedulerName: name, Checkpoint: file, Variant: server.Variants[0]}, nil // the file overrides the variant
	}
	if _, err := linear.Load(file); err != nil {
		return server.Profile{}, exit.New(exit.Usage, fmt.Errorf("%s: %w", argument, err),
			"networks, heuristics and linear weights have a scheduler profile; a table has none")
	}
	return server.Profile{SchedulerName: name, Policy: heuristic.FromWeights(file)}, nil
}

// stockProfile returns upstream's profile with the score plugins of a file.
func stockProfile(schedulerName, file string) (server.Profile, error) {
	s, err := stockconfig.Read(file)
	return server.Profile{SchedulerName: schedulerName, Variant: server.DefaultProfile, Stock: &s}, err
}
