package contender_test

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"gnnsched/internal/exit"
	"gnnsched/scheduler/eval/contender"
	"gnnsched/scheduler/server"
)

// weights is a file of linear weights.
var weights = filepath.Join("..", "..", "policy", "linear", "linear.json")

func TestListNamesEveryPolicyOnce(t *testing.T) {
	all, err := contender.List(nil, []string{"mine=" + weights})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, x := range all {
		names = append(names, x.Name)
	}
	if d := cmp.Diff(append(contender.Names(), "mine"), names); d != "" {
		t.Error(d)
	}
	for _, c := range []struct {
		names, files []string
		want         string
		code         int
		hint         string
	}{
		{[]string{"random", "random"}, []string{"mine=" + weights}, `two policies are called "random"`, exit.Usage, "name each policy once"},
		{[]string{"random"}, []string{weights, "linear=" + weights}, `two policies are called "linear"`, exit.Usage, "--checkpoint NAME=FILE"},
		{[]string{"optimum"}, nil, "no policy is called", exit.Usage, "--checkpoint"},
		{nil, []string{"none.safetensors"}, "none.safetensors", exit.Checkpoint, "check the path"},
	} {
		_, err := contender.List(c.names, c.files)
		var e *exit.Error
		if !errors.As(err, &e) || e.Code != c.code || !strings.Contains(err.Error(), c.want) || !strings.Contains(e.Hint, c.hint) {
			t.Errorf("%v, %v: %+v", c.names, c.files, e)
		}
	}
}

func TestWithProfiles(t *testing.T) {
	files := []string{"mine=" + weights}
	all, err := contender.List([]string{contender.Kubernetes, "best-fit", "gnn"}, files)
	if err != nil {
		t.Fatal(err)
	}
	with, err := contender.WithProfiles(all, files)
	if err != nil {
		t.Fatal(err)
	}
	path, err := filepath.Abs(weights)
	if err != nil {
		t.Fatal(err)
	}
	want := []server.Profile{
		{SchedulerName: "kube-scheduler", Variant: server.DefaultProfile},
		{SchedulerName: "best-fit", Policy: "best-fit"},
		{SchedulerName: "gnn", Variant: "gnn"},
		{SchedulerName: "mine", Policy: "linear:" + path},
	}
	for i, x := range with {
		if d := cmp.Diff(want[i], x.Profile); d != "" {
			t.Errorf("%s: %s", x.Name, d)
		}
	}
}
