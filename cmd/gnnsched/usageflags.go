package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	ucli "github.com/urfave/cli/v2"
	"sigs.k8s.io/yaml"

	"gnnsched/internal/exit"
	"gnnsched/internal/files"
	"gnnsched/scheduler/usage"
)

// usageFlags returns the flags.
func usageFlags() []ucli.Flag {
	return []ucli.Flag{
		&ucli.StringFlag{Name: "usage", Usage: "`SOURCE` of measured usage: " + usage.PrometheusSource + " or " + usage.MetricsAPISource +
			"; default: none, requests decide"},
		&ucli.StringFlag{Name: "usage-address", Usage: "`URL` of Prometheus, such as https://prometheus:9090"},
		&ucli.StringFlag{Name: "usage-queries",
			Usage: "YAML `FILE` with queries that replace the default ones, by name; see docs/reference/scheduler-config.md"},
		&ucli.StringFlag{Name: "usage-ca-file", Usage: "PEM `FILE` with the certificates that sign Prometheus' certificate"},
		&ucli.StringFlag{Name: "usage-token-file", Usage: "`FILE` with a bearer token for Prometheus"},
	}
}

// usageConfig returns the flags' configuration of measured usage; nil if they name no source.
func usageConfig(c *ucli.Context) (*usage.Config, error) {
	if c.String("usage") == "" {
		for _, f := range usageFlags() {
			name := f.Names()[0]
			if c.IsSet(name) {
				return nil, exit.New(exit.Usage, fmt.Errorf("--%s without --usage", name),
					"say where usage comes from, for example --usage "+usage.PrometheusSource)
			}
		}
		return nil, nil
	}
	out := &usage.Config{
		Source: c.String("usage"), Address: c.String("usage-address"),
	}
	for _, f := range []struct {
		to   *string
		name string
	}{
		{&out.CAFile, "usage-ca-file"}, {&out.TokenFile, "usage-token-file"},
	} {
		path, err := readableFile(c.String(f.name))
		if err != nil {
			return nil, exit.New(exit.Usage, fmt.Errorf("--%s: %w", f.name, err), "name a file that this user can read")
		}
		*f.to = path
	}
	if err := readQueries(c.String("usage-queries"), &out.Queries); err != nil {
		return nil, exit.New(exit.Usage, fmt.Errorf("--usage-queries: %w", err), "docs/reference/scheduler-config.md lists the queries")
	}
	checked := *out // omitted values stay out of --print-config
	if err := checked.Default(); err != nil {
		return nil, exit.New(exit.Usage, err, "see --help")
	}
	if err := checked.CheckFiles(); err != nil {
		return nil, exit.New(exit.Usage, fmt.Errorf("--usage: %w", err), "docs/reference/scheduler-config.md describes the files")
	}
	return out, nil
}

// readableFile returns the absolute path of a readable file; "" for "". The scheduler may run in another directory.
func readableFile(path string) (string, error) {
	if path == "" {
		return "", nil
	}
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	if err := f.Close(); err != nil {
		return "", err
	}
	return filepath.Abs(path)
}

// readQueries reads a file of queries by name.
func readQueries(path string, to *map[string]string) error {
	if path == "" {
		return nil
	}
	text, err := files.Read(path, files.Text)
	if err != nil {
		return err
	}
	if err := yaml.UnmarshalStrict(text, to); err != nil {
		return fmt.Errorf("%s: want a line NAME: QUERY for each query: %w", path, err)
	}
	if len(*to) == 0 {
		return errors.New(path + " has no query")
	}
	return nil
}
