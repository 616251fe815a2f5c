//go:build torch

package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	ucli "github.com/urfave/cli/v2"

	"gnnsched/gnn/checkpoint"
	"gnnsched/internal/cli"
	"gnnsched/internal/exit"
	"gnnsched/internal/workers"
	"gnnsched/scheduler/eval/remote"
	"gnnsched/scheduler/learn"
)

// wholeKind is the kind of the units whose handler is trainWhole.
const wholeKind = "run"

// wholeRun is a run from its start to its end, as the task of a unit.
type wholeRun struct {
	Command string                  // gpu, or none
	Config  json.RawMessage         // with the seed
	Named   []string                // files in the configuration
	Inputs  [][2]string             // flags that name files, and the files
	Sent    map[string]*remote.File // the files of both
}

// wholeResult holds what a run wrote.
type wholeResult struct {
	Files     map[string][]byte // by the name in the worker's folder
	Dir       string            // that folder
	Out, Errs string            // what it printed
}

// The names in the folder of a run.
const (
	wholeOut    = "net.safetensors"
	wholeState  = "state"
	wholeEvents = "events"
)

// unit sends the files of a run.
func (w wholeRun) unit(ctx context.Context, queue *workers.Queue, about string) (u workers.Unit, err error) {
	w.Sent = map[string]*remote.File{}
	paths := slices.Clone(w.Named)
	for _, in := range w.Inputs {
		paths = append(paths, in[1])
	}
	u = workers.Unit{Kind: wholeKind, About: about}
	for _, path := range paths {
		f, err := remote.SendFile(ctx, queue, path)
		if err != nil {
			return u, err
		}
		w.Sent[path] = f
		u.Blobs = slices.AppendSeq(u.Blobs, maps.Values(f.Blobs))
	}
	u.Task, err = json.Marshal(w)
	return u, err
}

// trainWhole is a workers.Handler. It trains in a folder that outlives the process: a worker of this machine that begins the run again
// goes on where the killed one was.
func trainWhole(ctx context.Context, task []byte, blob func(string) (string, error)) ([]byte, error) {
	var w wholeRun
	if err := json.Unmarshal(task, &w); err != nil {
		return nil, err
	}
	dir, end, err := runFolder(task)
	if err != nil {
		return nil, err
	}
	defer end()
	args, err := w.arguments(dir, blob)
	if err != nil {
		return nil, err
	}
	var out, errs bytes.Buffer
	a := app()
	a.Writer, a.ErrWriter = &out, &errs
	if code := cli.RunContext(ctx, a, args); code != exit.OK {
		return nil, errors.New(lastLine(errs.String()))
	}
	r := wholeResult{Dir: dir, Out: out.String(), Errs: errs.String(), Files: map[string][]byte{}}
	if err := w.own(filepath.Join(dir, wholeOut)); err != nil {
		return nil, err
	}
	for _, path := range []string{wholeOut, checkpoint.TypicalPath(wholeOut), wholeEvents} {
		if err := r.read(path); err != nil {
			return nil, err
		}
	}
	data, err := remote.Encode(r)
	return data, errors.Join(err, os.RemoveAll(dir))
}

// runFolder returns the folder of a run, which no other process has until end is called. Folders that nobody used for a week go.
func runFolder(task []byte) (dir string, end func(), err error) {
	base, err := os.UserCacheDir()
	if err != nil {
		base = os.TempDir()
	}
	base = filepath.Join(base, "gnnsched", "runs")
	old, _ := os.ReadDir(base)
	for _, d := range old {
		if at, err := d.Info(); err == nil && time.Since(at.ModTime()) > 7*24*time.Hour {
			_ = os.RemoveAll(filepath.Join(base, d.Name()))
		}
	}
	dir = filepath.Join(base, fmt.Sprintf("%x", sha256.Sum256(task))[:16])
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", nil, err
	}
	lock, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return "", nil, err
	}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err == nil {
		return dir, func() { lock.Close() }, nil
	}
	lock.Close() // a worker that the queue gave up still has it
	dir, err = os.MkdirTemp(base, "")
	return dir, func() {}, err
}

// arguments returns the command line of a run in a folder, which continues if it was begun there.
func (w wholeRun) arguments(dir string, blob remote.Blob) ([]string, error) {
	if w.Command != "" && w.Command != "gpu" {
		return nil, fmt.Errorf("%q is no command for workers", w.Command)
	}
	at := map[string]string{}
	for path, f := range w.Sent {
		var err error
		if at[path], err = f.Write(dir, blob); err != nil {
			return nil, err
		}
	}
	args := []string{"gnntrain"}
	if w.Command != "" {
		args = append(args, w.Command)
	}
	in := func(name string) string { return filepath.Join(dir, name) }
	args = append(args, "--log-scrolling", "--out", in(wholeOut), "--state", in(wholeState), "--events", in(wholeEvents))
	_, err := os.Stat(in(wholeState))
	goesOn := err == nil
	for _, input := range w.Inputs {
		if !slices.Contains([]string{"--start", "--nodes", "--pods"}, input[0]) || at[input[1]] == "" {
			return nil, fmt.Errorf("a run with %q, whose file did not come with it", input)
		}
		if !goesOn || input[0] != "--start" {
			args = append(args, input[0], at[input[1]])
		}
	}
	if goesOn {
		return append(args, "--resume"), nil
	}
	config := w.Config
	if w.Command == "" {
		var j learn.Job
		if err := json.Unmarshal(w.Config, &j); err != nil {
			return nil, err
		}
		for _, path := range filesIn(&j) {
			*path = at[*path]
		}
		if config, err = json.Marshal(j); err != nil {
			return nil, err
		}
	}
	return append(args, "--config", in("config.yaml")), os.WriteFile(in("config.yaml"), config, 0o600)
}

// own gives a network the configuration of the run with the names of files that it was given, not those of this machine.
func (w wholeRun) own(path string) error {
	if w.Command != "" {
		return nil
	}
	c, err := checkpoint.Load(path)
	if err != nil {
		return err
	}
	c.Manifest.Config = w.Config
	return c.Save(path)
}

// read takes a file, or the files of a folder, if there are any.
func (r *wholeResult) read(name string) error {
	err := filepath.WalkDir(filepath.Join(r.Dir, name), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		within, err := filepath.Rel(r.Dir, path)
		if err == nil {
			r.Files[filepath.ToSlash(within)], err = os.ReadFile(path)
		}
		return err
	})
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// accept writes what a worker's run wrote, and prints what it printed.
func accept(c *ucli.Context, data []byte, f runFiles) error {
	var r wholeResult
	if err := remote.Decode(data, &r); err != nil {
		return err
	}
	in := func(name string) string { return filepath.Join(r.Dir, name) }
	names := strings.NewReplacer(in(wholeOut), f.out, in(wholeState), f.state, in(wholeEvents), f.events)
	for name, data := range r.Files {
		path, err := f.place(name)
		if err != nil {
			return err
		}
		if filepath.Base(name) == "manifest.json" {
			data = []byte(names.Replace(string(data)))
		}
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, data, 0o644); err != nil {
			return err
		}
	}
	fmt.Fprint(c.App.ErrWriter, names.Replace(r.Errs))
	fmt.Fprint(c.App.Writer, names.Replace(r.Out))
	return nil
}

// place returns where a file of a run's result belongs. A worker may write nothing but a network and curves.
func (f runFiles) place(name string) (string, error) {
	events, isEvents := strings.CutPrefix(name, wholeEvents+"/")
	switch {
	case name == wholeOut:
		return f.out, nil
	case name == checkpoint.TypicalPath(wholeOut):
		return checkpoint.TypicalPath(f.out), nil
	case isEvents && filepath.IsLocal(events):
		return filepath.Join(f.events, events), nil
	}
	return "", fmt.Errorf("a worker's result has the file %q, which no run writes", name)
}

func lastLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return lines[len(lines)-1]
}
