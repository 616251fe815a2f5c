package remote

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"

	"gnnsched/internal/cluster"
	"gnnsched/internal/workers"
	"gnnsched/scheduler/sim"
	"gnnsched/workload/trace/openb"
)

// SendWorld puts a configuration of the simulator, with its files, into the queue. It returns the name by which Visit finds it, and those
// of all data that a unit needs for that.
func SendWorld(ctx context.Context, queue *workers.Queue, c sim.Config) (name string, blobs []string, err error) {
	at := c.Files()
	files := make([]*File, len(at))
	for i, path := range at {
		if *path == "" {
			continue
		}
		if files[i], err = SendFile(ctx, queue, *path); err != nil {
			return "", nil, err
		}
		blobs = append(blobs, slices.Collect(maps.Values(files[i].Blobs))...)
		*path = files[i].Name + files[i].Moment // its place is no part of the world
	}
	w, err := encodeWorld(c)
	if err != nil {
		return "", nil, err
	}
	w.Files = files
	data, err := json.Marshal(w)
	if err == nil {
		name, err = queue.Put(ctx, data)
	}
	return name, append(blobs, name), err
}

// Visit reads the configuration of a name, and calls use with it. Its files exist until use returns.
func Visit(name string, blob Blob, use func(c sim.Config) error) error {
	data, err := read(name, blob)
	if err != nil {
		return err
	}
	var w world
	if err := json.Unmarshal(data, &w); err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "gnnsched-world-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	c, err := w.config(func(f *File) (string, error) { return f.Write(dir, blob) })
	if err != nil {
		return err
	}
	return use(c)
}

// world is the configuration of a scenario, as data.
type world struct {
	Config json.RawMessage // sim.Config
	Files  []*File         // in the order of sim.Config.Files; nil for an empty path

	OpenBNodes []openb.Node `json:",omitempty"` // sim.OpenB.Nodes
	OpenBPods  []openb.Pod  `json:",omitempty"` // sim.OpenB.Pods
	Given      *sim.Given   `json:",omitempty"` // what all seeds share
}

// encodeWorld returns the configuration as data. Its files are to be added.
func encodeWorld(c sim.Config) (w world, err error) {
	w.Given = c.Given
	if o := c.OpenB; o != nil {
		w.OpenBNodes, w.OpenBPods = o.Nodes, o.Pods
	}
	w.Config, err = json.Marshal(c)
	return w, err
}

// config returns the configuration, with its files as path returns them.
func (w world) config(path func(f *File) (string, error)) (c sim.Config, err error) {
	if err := json.Unmarshal(w.Config, &c); err != nil {
		return c, err
	}
	at := c.Files()
	if len(at) != len(w.Files) {
		return c, fmt.Errorf("%d files for a configuration with %d", len(w.Files), len(at))
	}
	for i, f := range w.Files {
		if *at[i] = ""; f == nil {
			continue
		}
		if *at[i], err = path(f); err != nil {
			return c, err
		}
	}
	if c.OpenB != nil {
		c.OpenB.Nodes, c.OpenB.Pods = w.OpenBNodes, w.OpenBPods
	}
	if c.Given = w.Given; c.Given != nil {
		for _, n := range c.Given.Nodes {
			n.Version = cluster.NextVersion()
		}
	}
	return c, nil
}
