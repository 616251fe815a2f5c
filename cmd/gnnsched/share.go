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
	return []ucli.Flag{
		&ucli.Float64Flag{Name: shareFlag, Category: shareCategory,
			Usage: "place this `SHARE` of the pods, at most 1, and the rest as the default scheduler would; stop if its pods fare worse"},
		&ucli.StringFlag{Name: "share-by", Category: shareCategory, Value: canary.ByOwner,
			Usage: "`WHAT` is drawn: owner (a Deployment, Job, … with all its pods) or namespace"},
	}
}

// checkShare refuses flags that have no effect or exclude each other.
func checkShare(c *ucli.Context) error {
	if !c.IsSet(shareFlag) {
		if c.IsSet("share-by") {
			return exit.New(exit.Usage, fmt.Errorf("--share-by has no effect without --%s", shareFlag), "add --"+shareFlag+" 0.05")
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
	if c.Float64(shareFlag) == 0 {
		return exit.New(exit.Usage, fmt.Errorf("--%s is 0, must be more", shareFlag), "to place no pods, watch with --shadow")
	}
	p.Canary = &canary.Args{Of: c.Float64(shareFlag), By: c.String("share-by")}
	if err := config.Validate(); err != nil {
		return exit.New(exit.Usage, err, "see --help")
	}
	return nil
}
