package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/urfave/cli/v2"

	"gnnsched/internal/runfolder"
)

// Manifest returns the manifest of a run of a kind: the command line, the version, and the flags that were set.
func Manifest(c *cli.Context, kind string) runfolder.Manifest {
	command := append([]string{filepath.Base(os.Args[0])}, os.Args[1:]...)
	m := runfolder.Manifest{Kind: kind, Command: command, Version: c.App.Version, Settings: map[string]string{}}
	for _, name := range c.LocalFlagNames() {
		switch v := c.Value(name).(type) {
		case cli.StringSlice:
			m.Settings[name] = strings.Join(v.Value(), ",")
		default:
			m.Settings[name] = fmt.Sprint(v)
		}
	}
	return m
}
