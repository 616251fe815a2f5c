package main

import (
	"fmt"

	ucli "github.com/urfave/cli/v2"

	"gnnsched/internal/exit"
	"gnnsched/scheduler/plugin/canary"
	"gnnsched/scheduler/server"
)

// shareFlag leaves the network of a scheduler a share of the pods.
const shareFlag = "share"

// shareCategory is the heading of the flags in --help.
const shareCategory = "with --share"

// shareFlags returns --share and the flags that go with it.
func shareFlags() []ucli.Flag {
	return append([]ucli.Flag{
		&ucli.Float64Flag{Name: shareFlag, Category: shareCategory,
			Usage: "place this `SHARE` of the pods, at most 1, and the rest as the default scheduler would; stop if its pods fare worse"},
	}, withShare()...)
}

func withShare() []ucli.Flag {
	return []ucli.Flag{
		&ucli.StringFlag{Name: "share-by", Category: shareCategory, Value: canary.ByOwner,
			Usage: "`WHAT` is drawn: owner (a Deployment, Job, … with all its pods) or namespace"},
		&ucli.Float64Flag{Name: "share-failures", Category: shareCategory, Value: canary.DefaultFailures,
			Usage: "`SHARE` of the pods by which failures may exceed the rest's"},
		&ucli.DurationFlag{Name: "share-latency", Category: shareCategory, Value: canary.DefaultLatency,
			Usage: "`TIME` within which 99 of 100 attempts of the share must end, unless the rest's take half as long"},
	}
}

// checkShare refuses flags that have no effect or exclude each other.
func checkShare(c *ucli.Context) error {
	if !c.IsSet(shareFlag) {
		for _, f := range withShare() {
			if name := f.Names()[0]; c.IsSet(name) {
				return exit.New(exit.Usage, fmt.Errorf("--%s has no effect without --%s", name, shareFlag), "add --"+shareFlag+" 0.05")
			}
		}
		return nil
	}
	for name, hint := range map[string]string{
		"shadow": "watch first with --shadow, then place a share without it",
		"learn":  "a scheduler that learns decides about all its pods; learn first, then share",
	} {
		if c.Bool(name) {
			return exit.New(exit.Usage, fmt.Errorf("--%s and --%s exclude each other", shareFlag, name), hint)
		}
	}
	return nil
}

// takeShare gives the one profile its share. Without a --scheduler-name it takes the pods of the default scheduler.
func takeShare(c *ucli.Context, config *server.Config) error {
	if !c.IsSet(shareFlag) {
		return nil
	}
	if n := len(config.Profiles); n != 1 {
		return exit.New(exit.Usage, fmt.Errorf("--%s is for one profile, and --profiles names %d", shareFlag, n),
			"name one, or write a file for --config")
	}
	p := &config.Profiles[0]
	if !c.IsSet("scheduler-name") {
		p.SchedulerName = server.DefaultProfile
	}
	for _, name := range []string{shareFlag, "share-failures"} {
		if c.Float64(name) == 0 { // which would stand for the default
			return exit.New(exit.Usage, fmt.Errorf("--%s is 0, must be more", name), "to place no pods, watch with --shadow")
		}
	}
	if c.Duration("share-latency") <= 0 {
		return exit.New(exit.Usage, fmt.Errorf("--share-latency is %v, must be more than 0", c.Duration("share-latency")), "")
	}
	p.Canary = &canary.Args{Of: c.Float64(shareFlag), By: c.String("share-by"), Failures: c.Float64("share-failures")}
	p.Canary.Latency.Duration = c.Duration("share-latency")
	if err := config.Validate(); err != nil {
		return exit.New(exit.Usage, err, "see --help")
	}
	return nil
}
