package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"gnnsched/internal/runfolder"
)

// Manifest returns the manifest of a run of a kind: the command line, the version, and the flags that were set.
func Manifest(c *cli.Context, kind string) runfolder.Manifest {
	command := append([]string{filepath.Base(os.Args[0])}, os.Args[1:]...)
	m := runfolder.Manifest{Kind: kind, Command: command, Version: c.App.Version, Settings: map[string]string{}}
	alias := map[string]bool{}
	for _, f := range c.Command.Flags {
		for _, name := range f.Names()[1:] {
			alias[name] = true
		}
	}
	for _, name := range c.LocalFlagNames() {
		if !alias[name] {
			m.Settings[name] = setting(c.Value(name))
		}
	}
	return m
}

// setting writes the value of a flag as one gives it.
func setting(v any) string {
	switch v := v.(type) {
	case cli.StringSlice:
		return strings.Join(v.Value(), ",")
	case cli.Float64Slice:
		return strings.Trim(strings.ReplaceAll(fmt.Sprint(v.Value()), " ", ","), "[]")
	case cli.Timestamp:
		return v.Value().UTC().Format(time.RFC3339)
	}
	return fmt.Sprint(v)
}
