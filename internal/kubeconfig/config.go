// Package kubeconfig finds the cluster that a command talks to, by kubectl's rules, and makes clients
// for it. Its errors carry exit codes and hints.
package kubeconfig

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"gnnsched/internal/exit"
	"gnnsched/internal/files"
)

// SimulatedDir returns the default folder of kwokcluster's simulated cluster:
// $XDG_DATA_HOME/gnnsched/kwok, or ~/.local/share/gnnsched/kwok if that variable is not set.
func SimulatedDir() string {
	base := os.Getenv("XDG_DATA_HOME")
	if base == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			home = os.TempDir()
		}
		base = filepath.Join(home, ".local", "share")
	}
	return filepath.Join(base, "gnnsched", "kwok")
}

// SimulatedKubeconfig returns the path of the kubeconfig that kwokcluster writes into dir.
func SimulatedKubeconfig(dir string) string { return filepath.Join(dir, "kubeconfig") }

// Target names a cluster as kubectl does. The zero value stands for $KUBECONFIG if it is set, else for
// the simulated cluster in SimulatedDir if there is one, else for ~/.kube/config.
type Target struct {
	Kubeconfig string // file; empty: by the rule above
	Context    string // context in the file; empty: its current one
}

// Fallback returns the name of the context in ~/.kube/config if the rule chooses that file because
// there is no simulated cluster, and neither the target nor $KUBECONFIG names one. Otherwise it
// returns "".
func (t Target) Fallback() string {
	if t != (Target{}) || os.Getenv(clientcmd.RecommendedConfigPathEnvVar) != "" || fileExists(SimulatedKubeconfig(SimulatedDir())) {
		return ""
	}
	return t.Name()
}

// loader returns the loader of the kubeconfig, with the file and context of the target. It returns an error if a file is too long for a
// kubeconfig.
func (t Target) loader() (clientcmd.ClientConfig, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = t.Kubeconfig
	if t.Kubeconfig == "" && os.Getenv(clientcmd.RecommendedConfigPathEnvVar) == "" {
		if sim := SimulatedKubeconfig(SimulatedDir()); fileExists(sim) {
			rules.ExplicitPath = sim
		}
	}
	if err := files.Check(files.Text, rules.GetLoadingPrecedence()...); err != nil {
		return nil, exit.New(exit.Kubeconfig, fmt.Errorf("read the kubeconfig: %w", err), "check the file, or name another with --kubeconfig")
	}
	return clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{CurrentContext: t.Context}), nil
}

// Name returns the name of the target's context, or "" if there is none.
func (t Target) Name() string {
	if t.Context != "" {
		return t.Context
	}
	loader, err := t.loader()
	if err != nil {
		return ""
	}
	raw, err := loader.RawConfig()
	if err != nil {
		return ""
	}
	return raw.CurrentContext
}

// The next steps without a cluster. The simulated one is for those who named none.
const (
	simulatedHint = "start a simulated cluster with `kwokcluster up`, or name one with --kubeconfig and --context"
	fileHint      = "name a kubeconfig that has a cluster with --kubeconfig"
)

// UnlimitedQPS is a client's limit of requests a second that no client reaches: the API server
// protects itself. The burst is twice as much.
const UnlimitedQPS = 5000

// REST returns the client configuration of the target. Its errors have exit code 4.
func (t Target) REST() (*rest.Config, error) {
	loader, err := t.loader()
	if err != nil {
		return nil, err
	}
	c, err := loader.ClientConfig()
	env := os.Getenv(clientcmd.RecommendedConfigPathEnvVar)
	switch {
	case err == nil:
		c.QPS, c.Burst = UnlimitedQPS, 2*UnlimitedQPS
		c.UserAgent = "gnnsched"
		return c, nil
	case clientcmd.IsEmptyConfig(err) && t.Kubeconfig != "":
		return nil, exit.New(exit.Kubeconfig, fmt.Errorf("the kubeconfig %s names no cluster", t.Kubeconfig), fileHint)
	case clientcmd.IsEmptyConfig(err) && env == SimulatedKubeconfig(SimulatedDir()):
		return nil, exit.New(exit.Kubeconfig, fmt.Errorf("no kubeconfig: $KUBECONFIG is %s, which %s", env, whyEmpty(env)), simulatedHint)
	case clientcmd.IsEmptyConfig(err) && env != "":
		return nil, exit.New(exit.Kubeconfig, fmt.Errorf("no kubeconfig: $KUBECONFIG is %s, which %s", env, whyEmpty(env)),
			"unset KUBECONFIG, or "+fileHint)
	case clientcmd.IsEmptyConfig(err):
		err = errors.New("no kubeconfig: none in $KUBECONFIG, from the simulated cluster, or in ~/.kube/config")
		return nil, exit.New(exit.Kubeconfig, err, simulatedHint)
	case errors.Is(err, os.ErrNotExist):
		return nil, exit.New(exit.Kubeconfig, fmt.Errorf("no kubeconfig: %w", err), fileHint)
	case clientcmd.IsContextNotFound(err):
		return nil, exit.New(exit.Kubeconfig, err, "list the contexts with `kubectl config get-contexts`")
	}
	return nil, exit.New(exit.Kubeconfig, fmt.Errorf("read the kubeconfig: %w", err), "check the file, or name another with --kubeconfig")
}

// whyEmpty explains why the files of a $KUBECONFIG yield no cluster. kwokcluster down --purge, for example, deletes the file that a shell
// still names.
func whyEmpty(env string) string {
	if slices.ContainsFunc(filepath.SplitList(env), fileExists) {
		return "names no cluster"
	}
	return "does not exist"
}

// File makes a kubeconfig file with the target as its only context, for code of this process that takes
// a file but no context. It holds credentials, so it is in memory where the system allows it (see
// files.InMemory). The caller must call remove.
func (t Target) File() (path string, remove func(), err error) {
	loader, err := t.loader()
	if err != nil {
		return "", nil, err
	}
	raw, err := loader.RawConfig()
	if err != nil {
		return "", nil, exit.New(exit.Kubeconfig, fmt.Errorf("read the kubeconfig: %w", err), "check the file, or name another with --kubeconfig")
	}
	if len(raw.Clusters) == 0 {
		if in, err := rest.InClusterConfig(); err == nil {
			raw = inCluster(in)
		}
	}
	raw.CurrentContext = cmp.Or(t.Context, raw.CurrentContext)
	if err := clientcmdapi.MinifyConfig(&raw); err != nil {
		return "", nil, exit.New(exit.Kubeconfig, err, "list the contexts with `kubectl config get-contexts`")
	}
	b, err := clientcmd.Write(raw)
	if err != nil {
		return "", nil, fmt.Errorf("write a kubeconfig: %w", err)
	}
	if path, remove, err = files.InMemory("kubeconfig", b); err != nil {
		return "", nil, fmt.Errorf("write a kubeconfig: %w", err)
	}
	return path, remove, nil
}

// inCluster returns a kubeconfig for the service account of this process's pod. It names the token's file, because the token changes.
func inCluster(c *rest.Config) clientcmdapi.Config {
	const name = "in-cluster"
	k := clientcmdapi.NewConfig()
	k.Clusters[name] = &clientcmdapi.Cluster{Server: c.Host, CertificateAuthority: c.CAFile}
	k.AuthInfos[name] = &clientcmdapi.AuthInfo{TokenFile: c.BearerTokenFile}
	k.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name}
	k.CurrentContext = name
	return *k
}

// patience limits how long Connect waits for an answer, and for an API server that answers with status 500 because it is starting.
var patience = 10 * time.Second

// Connect returns a client for the target and its configuration. It waits up to ten seconds for an answer,
// and while the API server answers that it is not ready. Without an answer, the error has exit code 3, or 4 if the kubeconfig does not fit
// the cluster.
func (t Target) Connect(ctx context.Context) (*kubernetes.Clientset, *rest.Config, error) {
	c, err := t.REST()
	if err != nil {
		return nil, nil, err
	}
	cs, err := typed(c)
	if err != nil {
		return nil, nil, err
	}
	probe, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var answer []byte
	// the last answer says what was wrong
	_ = wait.PollUntilContextCancel(probe, patience/5, true, func(context.Context) (done bool, _ error) {
		a, e := cs.Discovery().RESTClient().Get().AbsPath("/readyz").Do(probe).Raw()
		var answered apierrors.APIStatus
		if err == nil || e == nil || errors.As(e, &answered) {
			answer, err = a, e
		}
		return !apierrors.IsInternalError(err), nil
	})
	if err != nil && ctx.Err() != nil {
		return nil, nil, ctx.Err()
	}
	if err := unready(c, answer, err, time.Now()); err != nil {
		return nil, nil, err
	}
	return cs, c, nil
}

// typed returns a client of a configuration that speaks protobuf.
func typed(c *rest.Config) (*kubernetes.Clientset, error) {
	c = rest.CopyConfig(c)
	c.ContentType = "application/vnd.kubernetes.protobuf"
	c.AcceptContentTypes = "application/vnd.kubernetes.protobuf,application/json"
	cs, err := kubernetes.NewForConfig(c)
	if err != nil {
		return nil, exit.New(exit.Kubeconfig, fmt.Errorf("make a client: %w", err), "check the kubeconfig")
	}
	return cs, nil
}

func fileExists(p string) bool {
	_, err := os.Stat(p)
	return err == nil
}
