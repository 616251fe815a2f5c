package contender

import (
	"fmt"
	"path/filepath"
	"strings"

	"gnnsched/internal/exit"
	"gnnsched/scheduler/eval"
	"gnnsched/scheduler/eval/live"
	"gnnsched/scheduler/policy/heuristic"
	"gnnsched/scheduler/policy/linear"
	"gnnsched/scheduler/server"
)

// Kubernetes is the policy that scores as kube-scheduler does. On a cluster, kube-scheduler's own
// default profile takes its place.
const Kubernetes = "kube-scheduler"

// WithProfiles gives every contender the scheduler profile that decides the same way on a
// cluster. files are the ones that [List] got.
func WithProfiles(contenders []eval.Contender, files []string) (out []live.Contender, err error) {
	ofFile := map[string]server.Profile{}
	for _, f := range files {
		p, err := FileProfile(f)
		if err != nil {
			return nil, err
		}
		ofFile[p.SchedulerName] = p
	}
	for _, c := range contenders {
		x := live.Contender{Contender: c, Running: strings.HasPrefix(c.Name, running+":")}
		if p, is := ofFile[c.Name]; is {
			x.Profile = p
		} else if c.Name == Kubernetes {
			x.Profile = server.Profile{SchedulerName: c.Name, Args: server.Args{Variant: server.DefaultProfile}}
		} else if x.Profile, err = server.ProfileNamed(c.Name); err != nil {
			return nil, exit.New(exit.Usage, err, "")
		}
		out = append(out, x)
	}
	return out, nil
}

// FileProfile returns the scheduler profile of a file for --checkpoint: [NAME=]FILE, with a network, with linear
// weights (.json), or with a KubeSchedulerConfiguration (.yaml). Its errors have exit codes. The checkpoint of a
// network is not read.
func FileProfile(argument string) (server.Profile, error) {
	if prefix, _, ok := strings.Cut(argument, ":"); ok && prefix == running {
		return server.Profile{}, exit.Usagef("--checkpoint %s: a file has no profile with %s: on a cluster", argument, prefix)
	}
	name, path := splitArgument(argument)
	file, err := filepath.Abs(path)
	if err != nil {
		return server.Profile{}, fmt.Errorf("find %s: %w", path, err)
	}
	if isStock(path) {
		p, err := server.ProfileNamed(stockPrefix + ":" + file)
		p.SchedulerName = name
		return p, err
	}
	if filepath.Ext(path) != ".json" {
		// Any variant will do: the file says what the network is.
		return server.Profile{SchedulerName: name, Args: server.Args{Checkpoint: file, Variant: server.Variants[0]}}, nil
	}
	if _, err := linear.Load(file); err != nil {
		return server.Profile{}, exit.New(exit.Usage, fmt.Errorf("%s: %w", argument, err),
			"networks, heuristics and linear weights have a scheduler profile")
	}
	return server.Profile{SchedulerName: name, Args: server.Args{Policy: heuristic.FromWeights(file)}}, nil
}
