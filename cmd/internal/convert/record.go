package convert

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"time"

	"github.com/rs/zerolog"
	ucli "github.com/urfave/cli/v2"

	"gnnsched/internal/exit"
	"gnnsched/workload/record"
	"gnnsched/workload/record/observe"
)

// measuredFlags are the flags that have no effect on a record.
var measuredFlags = []string{"format", "part", "step", "days", "limit", "request-percentile", "no-requests"}

// toRecord makes a record of Prometheus' history, or a new one of kubectl's output or of a trace.
func toRecord(c *ucli.Context, log zerolog.Logger) error {
	for _, f := range measuredFlags {
		if c.IsSet(f) {
			return exit.Usagef("--%s has no effect on a record; leave it out", f)
		}
	}
	dir := c.String("out")
	if c.IsSet("prometheus") {
		return historyToRecord(c, log)
	}
	if record.Is(dir) {
		return exit.New(exit.Usage, fmt.Errorf("%s is a record already", dir), "name another folder with --out")
	}
	if isTraces(c.Args().Slice()) {
		return traceToRecord(c, log)
	}
	var all []listing
	for _, path := range c.Args().Slice() {
		l, err := listingOf(path)
		if err == nil && len(all) > 0 && l.at < all[len(all)-1].at {
			err = fmt.Errorf("%s is older than the file before it; name the files in the order of their times", path)
		}
		if err != nil {
			return exit.New(exit.Usage, err, "kubectl get pods,nodes -A -o json prints such a file")
		}
		for _, kind := range slices.Sorted(maps.Keys(l.Skipped)) {
			log.Warn().Str("file", path).Str("kind", kind).Int("objects", l.Skipped[kind]).Msg("a record has no place for these objects")
		}
		if b := l.Bounded; b.Pods > 0 {
			log.Warn().Str("file", path).Int("pods", b.Pods).Str("first", b.First).Msg("pods ask for more than any cluster has; the record bounds it")
		}
		all = append(all, l)
	}
	out, err := record.Create(dir, record.Options{})
	if err != nil {
		return exit.New(exit.Usage, err, "name another folder with --out")
	}
	var now int64
	f := observe.NewFollower(observe.Config{Out: out, Now: func() int64 { return now }})
	for _, l := range all {
		now = l.at
		l.Tell(f)
	}
	out.Run(record.Run{ID: "1", Source: "kubectl", From: all[0].at, To: now, Program: c.App.Version})
	n := f.Counts()
	log.Info().Str("out", dir).Int("nodes", n.Nodes).Int("pods", n.Pods).Int("waiting", n.Waiting).Int("ended", n.Ended).Msg("converted")
	_, err = out.Close()
	return err
}

// listing is a file of objects with the time at which it was written, in milliseconds since 1970.
type listing struct {
	observe.Objects
	at int64
}

func listingOf(path string) (listing, error) {
	if path == "-" {
		o, err := observe.ReadObjects(os.Stdin, "standard input")
		return listing{o, time.Now().UnixMilli()}, err
	}
	f, err := os.Open(path)
	if err != nil {
		return listing{}, err
	}
	defer f.Close() // it is only read
	info, err := f.Stat()
	if err != nil {
		return listing{}, err
	}
	o, err := observe.ReadObjects(f, path)
	return listing{o, max(info.ModTime().UnixMilli(), 1)}, err
}
