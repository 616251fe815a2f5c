package recording

import (
	"fmt"
	"slices"
	"strings"
	"time"

	ucli "github.com/urfave/cli/v2"

	"gnnsched/internal/exit"
	"gnnsched/scheduler/eval/contender"
	"gnnsched/scheduler/policy/neural"
	"gnnsched/scheduler/server"
)

// CheckpointFlag returns the flag --checkpoint that Profiles reads.
func CheckpointFlag() ucli.Flag {
	return &ucli.StringSliceFlag{Name: "checkpoint", Usage: "use a network from a `FILE`, linear weights from a .json file, " +
		"or a KubeSchedulerConfiguration from a .yaml file; NAME=FILE sets its name; repeatable"}
}

// patience is the deadline of networks: a replay does not depend on how fast this machine is.
const patience = time.Hour

// Profiles returns the profiles of --present (first, if the command has this flag), of --profile, and of the files of --checkpoint. Files
// replace the default of --profile.
func Profiles(c *ucli.Context) ([]server.Profile, error) {
	var out []server.Profile
	if present := c.String("present"); present != "" {
		p, err := presentOf(present)
		if err != nil {
			return nil, err
		}
		out = append(out, p)
	}
	files := c.StringSlice("checkpoint")
	if len(files) == 0 || c.IsSet("profile") {
		for _, name := range c.StringSlice("profile") {
			p, err := named("profile", name)
			if err != nil {
				return nil, err
			}
			if !has(out, p.SchedulerName) {
				out = append(out, p)
			} else if isFile(c.String("present")) && out[0].SchedulerName == p.SchedulerName {
				return nil, exit.Usagef("--profile %s: the file of --present has that name; name it with NAME=FILE", name)
			}
		}
	}
	for _, f := range files {
		p, err := fromFile(f)
		if err != nil {
			return nil, err
		}
		if has(out, p.SchedulerName) {
			return nil, exit.Usagef("--checkpoint %s: there is a profile %s already; name the file with NAME=FILE", f, p.SchedulerName)
		}
		out = append(out, p)
	}
	return out, nil
}

// Profile returns the profile of a file of --checkpoint, or the one that --profile names if file is empty.
func Profile(name, file string) (server.Profile, error) {
	if file != "" {
		return fromFile(file)
	}
	return named("profile", name)
}

func has(list []server.Profile, name string) bool {
	return slices.ContainsFunc(list, func(p server.Profile) bool { return p.SchedulerName == name })
}

// presentOf returns the cluster's present profile: a built-in one, or the one in a file.
func presentOf(name string) (server.Profile, error) {
	if !isFile(name) {
		return named("present", name)
	}
	p, err := fromFile(name)
	if err != nil {
		return p, fmt.Errorf("--present: %w", err)
	}
	return p, nil
}

// isFile reports whether an argument is [NAME=]FILE. Names of profiles have neither = nor a point.
func isFile(argument string) bool { return strings.ContainsAny(argument, "=.") }

// named returns the profile that a flag names; "default" is upstream's.
func named(flag, name string) (server.Profile, error) {
	if name == "default" {
		name = server.DefaultProfile
	}
	p, err := server.ProfileNamed(name)
	if err != nil {
		return p, exit.New(exit.Usage, fmt.Errorf("--%s: %w", flag, err), "")
	}
	return patient(p), nil
}

func fromFile(name string) (server.Profile, error) {
	p, err := contender.FileProfile(name)
	if err != nil {
		return p, err
	}
	if p.Checkpoint != "" {
		if _, err := neural.Load(p.Checkpoint); err != nil {
			return p, err
		}
	}
	return patient(p), nil
}

// patient gives a network its deadline.
func patient(p server.Profile) server.Profile {
	if p.Variant != "" && p.Variant != server.DefaultProfile {
		p.Deadline.Duration = patience
	}
	return p
}
