package testbed

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	"gnnsched/internal/exit"
	"gnnsched/internal/kubeconfig"
)

// Program is the path of the kwokcluster program. It launches clusters as child processes, since
// a scheduler that people deploy contains no API server.
type Program string

// FindProgram returns the program with a path. If the path is empty, it is kwokcluster in the folder of this program, else in PATH.
func FindProgram(path string) (Program, error) {
	if path != "" {
		return Program(path), nil
	}
	if self, err := os.Executable(); err == nil {
		beside := filepath.Join(filepath.Dir(self), "kwokcluster")
		if info, err := os.Stat(beside); err == nil && info.Mode().IsRegular() {
			return Program(beside), nil
		}
	}
	found, err := exec.LookPath("kwokcluster")
	if err != nil {
		return "", exit.New(exit.Usage, err, "build it with `make build`, or name it with --kwokcluster")
	}
	return Program(found), nil
}

// Launch implements Launcher.
func (p Program) Launch(ctx context.Context, nodes Nodes, folder, log string) (Cluster, error) {
	args, err := nodes.arguments(folder)
	if err != nil {
		return nil, err
	}
	started, err := start("the cluster", "build it with `make build`, or name it with --kwokcluster", log, string(p),
		append([]string{"up", "--dir", folder}, args...)...)
	if err != nil {
		return nil, err
	}
	c := &kwokcluster{process: started, dir: folder}
	if err := c.waitReady(ctx); err != nil {
		return nil, errors.Join(err, c.Stop())
	}
	return c, nil
}

// arguments are the flags of `kwokcluster up` for the nodes. Pools are written to a file beside
// folder.
func (n Nodes) arguments(folder string) ([]string, error) {
	count := strconv.Itoa(n.Count)
	switch {
	case n.Pools != nil:
		file := folder + "-pools.yaml"
		if err := os.WriteFile(file, n.Pools, 0o600); err != nil {
			return nil, fmt.Errorf("write the node pools: %w", err)
		}
		return []string{"--pools", file}, nil
	case n.Record != "":
		return []string{"--pools", n.Record}, nil
	case n.List != "":
		args := []string{"--nodes-file", n.List, "--nodes", count}
		if n.GPUs != "" {
			args = append(args, "--gpus", n.GPUs)
		}
		return args, nil
	}
	return []string{"--nodes", count}, nil
}

const readyWithin = 2 * time.Minute

// kwokcluster is a running kwokcluster. It implements Cluster.
type kwokcluster struct {
	*process
	dir string
}

// waitReady waits until the nodes are Ready.
func (c *kwokcluster) waitReady(ctx context.Context) error {
	return c.wait(ctx, func(ctx context.Context) bool {
		return exec.CommandContext(ctx, c.cmd.Path, "status", "--dir", c.dir).Run() == nil
	})
}

// Kubeconfig implements Cluster.
func (c *kwokcluster) Kubeconfig() string { return kubeconfig.SimulatedKubeconfig(c.dir) }
