package runfolder

import (
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"syscall"
	"time"

	"gnnsched/internal/exit"
	"gnnsched/internal/files"
)

// schema is the version of the folder's form. A new field does not raise it; a new meaning does.
const schema = 1

// manifestFile is the name of the manifest in the folder.
const manifestFile = "manifest.json"

// Manifest describes the run. Create and describe set Schema and Platform, and remove secrets from Command and Settings. Ended is nil while
// the run goes on, and stays nil if it was killed.
type Manifest struct {
	Schema   int               `json:"schema"`
	Kind     string            `json:"kind"`            // the command, as eval or runsim
	Title    string            `json:"title,omitempty"` // one line for people
	Command  []string          `json:"command"`         // the command line, the program first
	Version  string            `json:"version"`         // of the program and of Kubernetes
	Platform string            `json:"platform"`        // Go version, operating system, architecture, number of CPUs
	Started  time.Time         `json:"started"`
	Ended    *time.Time        `json:"ended,omitempty"`
	Seeds    []uint64          `json:"seeds,omitempty"`
	Settings map[string]string `json:"settings,omitempty"` // by name, as the flags that were set
	Notes    []string          `json:"notes,omitempty"`    // what readers must know about the data
	Error    string            `json:"error,omitempty"`    // why the run ended before its time
	Dropped  map[string]int    `json:"dropped,omitempty"`  // rows that were not written because the file was full, by file
}

// describe writes the manifest into a folder that another package fills, and replaces an older one.
func describe(dir string, m Manifest) error {
	m.Schema = schema
	m.Platform = fmt.Sprintf("%s %s/%s, %d CPUs", runtime.Version(), runtime.GOOS, runtime.GOARCH, runtime.NumCPU())
	m.Command, m.Settings = redactCommand(m.Command), redactSettings(m.Settings)
	m.Title, m.Error, m.Notes = redact(m.Title), redact(m.Error), slices.Clone(m.Notes)
	for i, note := range m.Notes {
		m.Notes[i] = redact(note)
	}
	text, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return fmt.Errorf("write the manifest: %w", err)
	}
	if err := files.Write(filepath.Join(dir, manifestFile), append(text, '\n'), 0o644); err != nil {
		return refused(dir, err)
	}
	return nil
}

// refused explains why a folder cannot be written. A full disk, unlike a wrong name, is no usage error.
func refused(dir string, err error) error {
	code, hint := exit.Usage, "choose a directory that you can write to"
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		code, hint = exit.Internal, "make room, or choose another place with --out"
	}
	return exit.New(code, fmt.Errorf("write the run folder %s: %w", dir, err), hint)
}
