package doctor

import (
	"context"
	"errors"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/version"
	fakediscovery "k8s.io/client-go/discovery/fake"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"gnnsched/gnn/checkpoint"
	"gnnsched/internal/exit"
	"gnnsched/internal/golden"
	"gnnsched/workload/cleanup"
)

// healthy is a machine that has everything.
func healthy() machine {
	return machine{
		find: func(program string) (string, error) { return "/bin/" + program, nil },
		run: func(_ context.Context, program string, _ ...string) (string, error) {
			return program + " 1.0\nmore", nil
		},
		listen: func(string) error { return nil },
		free:   func(string) (uint64, error) { return 1 << 40, nil },
	}
}

// broken is a machine that lacks everything.
func broken() machine {
	return machine{
		find: func(program string) (string, error) {
			if program == "gnntrain" {
				return "/bin/gnntrain", nil
			}
			return "", errors.New("not found")
		},
		run: func(context.Context, string, ...string) (string, error) {
			return "libtorch.so: cannot open shared object file", errors.New("exit status 127")
		},
		listen: func(string) error { return errors.New("address already in use") },
		free:   func(string) (uint64, error) { return 1 << 20, nil },
	}
}

// cluster is an API server of a version that forbids what refused says.
func cluster(gitVersion string, usage bool, refused func(*authorizationv1.ResourceAttributes) bool) *fake.Clientset {
	c := fake.NewClientset()
	d := c.Discovery().(*fakediscovery.FakeDiscovery)
	d.FakedServerVersion = &version.Info{GitVersion: gitVersion}
	if usage {
		d.Resources = []*metav1.APIResourceList{{GroupVersion: "metrics.k8s.io/v1beta1"}}
	}
	c.PrependReactor("create", "selfsubjectaccessreviews", func(a clienttesting.Action) (bool, runtime.Object, error) {
		review := a.(clienttesting.CreateAction).GetObject().(*authorizationv1.SelfSubjectAccessReview)
		review.Status.Allowed = !refused(review.Spec.ResourceAttributes)
		return true, review, nil
	})
	return c
}

func TestReports(t *testing.T) {
	nobody := func(*authorizationv1.ResourceAttributes) bool { return false }
	counted := func(total, real int) func(context.Context) (cleanup.NodeCounts, error) {
		return func(context.Context) (cleanup.NodeCounts, error) {
			return cleanup.NodeCounts{Total: total, Real: real}, nil
		}
	}
	for _, c := range []struct {
		name    string
		only    []string
		machine machine
		cluster *fake.Clientset
		nodes   func(context.Context) (cleanup.NodeCounts, error)
		code    int
	}{
		{"healthy", nil, healthy(), cluster("v1.36.3", true, nobody), counted(11, 0), exit.OK},
		{"broken", nil, broken(), cluster("v1.33.1", false, func(r *authorizationv1.ResourceAttributes) bool {
			return r.Verb == "delete" || r.Subresource == "binding" || r.Resource == "leases"
		}), counted(5, 5), exit.Unreachable},
		{"hostile", []string{"usage"}, healthy(), cluster("v1.36\x1b[2J\nFAIL everything", true, nobody), func(context.Context) (cleanup.NodeCounts, error) {
			return cleanup.NodeCounts{}, errors.New("\x1b[31m" + strings.Repeat("x", 2000))
		}, exit.Unreachable},
		{"asked", []string{"compose", "gnntrain"}, broken(), nil, nil, exit.Usage},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Setenv("XDG_DATA_HOME", "/data")
			x := examination{machine: c.machine, only: c.only}
			if c.cluster != nil {
				x.onCluster(t.Context(), c.cluster, c.nodes)
			}
			x.weights("")
			x.local(t.Context())
			var out strings.Builder
			if err := write(&out, x.found); err != nil {
				t.Fatal(err)
			}
			golden.Check(t, c.name+".txt", out.String())
			if err := verdict(x.found); exit.Code(err) != c.code {
				t.Errorf("%v: code %d, want %d", err, exit.Code(err), c.code)
			}
		})
	}
}

func TestWeights(t *testing.T) {
	file := filepath.Join(t.TempDir(), "net.safetensors")
	c := checkpoint.Random(checkpoint.Architecture{Encoder: checkpoint.GNN, Head: checkpoint.DQN, Hidden: 8}, rand.New(rand.NewPCG(1, 1)))
	c.Manifest.Objective = "pack"
	if err := c.Save(file); err != nil {
		t.Fatal(err)
	}
	x := examination{only: []string{"ktop"}}
	x.weights(file)
	x.weights(filepath.Join(t.TempDir(), "none"))
	if len(x.found) != 2 || x.found[0].state != fine || !strings.Contains(x.found[0].detail, "pack") || x.found[1].state != failed || x.found[1].code != exit.Checkpoint {
		t.Errorf("found %+v", x.found)
	}
}

// The rights of the scheduler are those that the manifests give.
func TestSchedulerRights(t *testing.T) {
	all, err := schedulerRights()
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, r := range all {
		seen[r.namespace+" "+r.String()] = true
	}
	for _, want := range []string{" create pods/binding", " watch replicasets.apps", "kube-system update leases.coordination.k8s.io/gnnsched-gnn"} {
		if !seen[want] {
			t.Errorf("%q is not among %d rights", want, len(all))
		}
	}
}

// This machine's own answers.
func TestThisMachine(t *testing.T) {
	m := thisMachine()
	if _, err := m.find("no-such-program"); err == nil {
		t.Error("a program that is not there is found")
	}
	if n, err := m.free(filepath.Join(t.TempDir(), "not", "made", "yet")); err != nil || n == 0 {
		t.Errorf("%d bytes free, error %v", n, err)
	}
	if err := m.listen("127.0.0.1:0"); err != nil {
		t.Error(err)
	}
	if text, err := m.run(t.Context(), "echo", "a"); err != nil || text != "a" {
		t.Errorf("echo says %q, %v", text, err)
	}
}
