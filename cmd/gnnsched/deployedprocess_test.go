//go:build !race

package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"gnnsched/internal/cli"
	"gnnsched/internal/cluster/kube"
	"gnnsched/internal/exit"
	"gnnsched/internal/fatal"
)

// deployed is a scheduler that runs as its Deployment says, in this process.
type deployed struct {
	site      *site
	namespace string // of the work
	scheduler string // name that pods give
	lease     string
	log       string // file
	port      string
	pod       corev1.PodSpec
}

// start runs the scheduler of the namespace's Deployment with the rights of its service account, until the test ends.
func (s *site) start(t *testing.T, namespace string) *deployed {
	t.Helper()
	d := fatal.Value(s.client.AppsV1().Deployments(namespace).Get(t.Context(), "gnnsched", metav1.GetOptions{}))(t)
	out := &deployed{site: s, pod: d.Spec.Template.Spec, port: freePort(t), log: filepath.Join(s.folder(t), "rungnn.log")}
	args := []string{"gnnsched"}
	for _, a := range out.pod.Containers[0].Args {
		name, value, _ := strings.Cut(a, "=")
		switch name {
		case "--scheduler-name":
			out.scheduler = value
		case "--leader-elect-resource-name":
			out.lease = value
		case "--bind-address":
			if value != "0.0.0.0" { // kubectl port-forward talks to the pod's loopback, and probes to its address
				t.Errorf("the scheduler listens on %s", value)
			}
			continue
		case "--port", "--log-dir":
			continue // replaced below
		}
		args = append(args, a)
	}
	args = append(args, "--bind-address=127.0.0.1", "--port="+out.port, "--log-dir="+filepath.Dir(out.log),
		"--kubeconfig="+s.kubeconfig(t, namespace, out.pod.ServiceAccountName), "--deadline=1m")
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan int, 1)
	go func() { ended <- cli.RunContext(ctx, app("gnnsched"), args) }()
	t.Cleanup(func() {
		cancel()
		if code := <-ended; code != exit.OK {
			t.Errorf("the scheduler ended with code %d", code)
		}
	})
	return out
}

// folder makes a folder for a log, which late goroutines of the scheduler may write to when the test has ended.
func (s *site) folder(t *testing.T) string {
	t.Helper()
	name := fatal.Value(os.MkdirTemp("", "gnnsched-log-"))(t)
	t.Cleanup(func() { _ = os.RemoveAll(name) })
	return name
}

func freePort(t *testing.T) string {
	t.Helper()
	l := fatal.Value(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer l.Close()
	_, port, err := net.SplitHostPort(l.Addr().String())
	fatal.If(t, err)
	return port
}

// get requests a path of the scheduler and returns the answer. It sends the token unless it is empty.
func (d *deployed) get(ctx context.Context, path, token string) (body string, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://127.0.0.1:"+d.port+path, nil)
	if err != nil {
		return "", err
	}
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	// The certificate is self-signed, and the connection does not leave loopback.
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
	defer transport.CloseIdleConnections()
	answer, err := (&http.Client{Transport: transport}).Do(r)
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: status %d: %s", path, answer.StatusCode, text)
	}
	return string(text), err
}

// refused returns the first line of the log with a right that is missing.
func (d *deployed) refused() error {
	text, err := os.ReadFile(d.log)
	if err != nil {
		return nil //nolint:nilerr // not written yet
	}
	for line := range strings.Lines(string(text)) {
		if strings.Contains(strings.ToLower(line), "forbidden") || strings.Contains(line, "May not ") ||
			strings.Contains(line, "cannot write leases") {
			return errors.New(strings.TrimSpace(line))
		}
	}
	return nil
}

// errRefused reports a missing right.
var errRefused = errors.New("a right is missing")

// until waits for a condition, and no longer than until a right turns out to be missing.
func (d *deployed) until(ctx context.Context, condition func() error) error {
	deadline := time.Now().Add(deployedPatience)
	for {
		if err := d.refused(); err != nil {
			return errors.Join(errRefused, err)
		}
		err := condition()
		if err == nil || time.Now().After(deadline) {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// work creates the pods of testdata/deployed-work.yaml and checks that the scheduler places them.
func (d *deployed) work(t *testing.T, namespace string) error {
	t.Helper()
	ctx := t.Context()
	d.namespace = namespace
	t.Cleanup(func() { // makes room
		for _, name := range []string{"gpu", "low", "high"} {
			if err := d.site.client.CoreV1().Pods(namespace).Delete(context.Background(), name,
				metav1.DeleteOptions{GracePeriodSeconds: new(int64)}); err != nil && !apierrors.IsNotFound(err) {
				t.Error(err)
			}
		}
	})
	probe := d.pod.Containers[0].ReadinessProbe.HTTPGet
	if err := d.until(ctx, func() error { _, err := d.get(ctx, probe.Path, ""); return err }); err != nil {
		return err
	}
	if _, err := d.get(ctx, d.pod.Containers[0].LivenessProbe.HTTPGet.Path, ""); err != nil {
		return err
	}
	if _, err := d.site.client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}},
		metav1.CreateOptions{}); err != nil {
		return err
	}
	text, err := os.ReadFile("testdata/deployed-work.yaml")
	if err != nil {
		return err
	}
	text = bytes.ReplaceAll(bytes.ReplaceAll(text, []byte("SCHEDULER"), []byte(d.scheduler)), []byte("NAMESPACE"), []byte(namespace))
	if err := d.site.apply(ctx, text, namespace); err != nil {
		return err
	}
	if err := d.until(ctx, func() error { return d.placed(ctx, 11) }); err != nil {
		return err
	}
	return errors.Join(d.preempts(ctx), d.measures(ctx), d.leads(ctx), d.explains(t), d.refused())
}

// explains asks for a decision as docs/how-to/explain.md does, through the port that kubectl port-forward would open: once with the token
// of the account that the page creates, once with an account without rights.
func (d *deployed) explains(t *testing.T) error {
	t.Helper()
	ctx, account := t.Context(), "decisions-"+d.namespace
	if _, err := d.site.client.CoreV1().ServiceAccounts("kube-system").Create(ctx,
		&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: account}}, metav1.CreateOptions{}); err != nil {
		return err
	}
	ask := func() (code int, out string) {
		token := fatal.Value(d.site.client.CoreV1().ServiceAccounts("kube-system").CreateToken(ctx, account, &authenticationv1.TokenRequest{},
			metav1.CreateOptions{}))(t)
		file := filepath.Join(t.TempDir(), "token")
		fatal.If(t, os.WriteFile(file, []byte(token.Status.Token), 0o600))
		var text bytes.Buffer
		a := app("gnnsched")
		a.Writer, a.ErrWriter = &text, &text
		code = cli.RunContext(ctx, a, []string{
			"gnnsched", "explain", "--server=https://127.0.0.1:" + d.port, "--token-file=" + file, "-n", d.namespace, "pod/gpu",
		})
		return code, text.String()
	}
	if code, out := ask(); code != exit.Kubeconfig || !strings.Contains(out, "refuses the token") {
		return fmt.Errorf("without a right: code %d: %s", code, out)
	}
	role := &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: account},
		Rules:      []rbacv1.PolicyRule{{Verbs: []string{"get"}, NonResourceURLs: []string{"/debug/decisions"}}},
	}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: role.ObjectMeta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: account},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: "kube-system", Name: account}},
	}
	_, err := d.site.client.RbacV1().ClusterRoles().Create(ctx, role, metav1.CreateOptions{})
	if err == nil {
		_, err = d.site.client.RbacV1().ClusterRoleBindings().Create(ctx, binding, metav1.CreateOptions{})
	}
	if err != nil {
		return err
	}
	return d.until(ctx, func() error { // the scheduler asks the API server about a token every few seconds
		if code, out := ask(); code != exit.OK || !strings.Contains(out, "shared-0 was the only feasible node") {
			return fmt.Errorf("code %d: %s", code, out)
		}
		return nil
	})
}

// placed checks that as many pods have a node, and that GPU pods have a device.
func (d *deployed) placed(ctx context.Context, want int) error {
	list, err := d.site.client.CoreV1().Pods(d.namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	var waiting []string
	spread := map[string]bool{}
	n := 0
	for _, p := range list.Items {
		switch {
		case p.Spec.NodeName == "":
			waiting = append(waiting, p.Name)
			continue
		case p.Name == "gpu" && kube.Devices(p.Annotations).Len() != 1, p.Name == "volume" && p.Spec.NodeName != "plain-1",
			p.Name == "device" && p.Spec.NodeName != "plain-0",
			p.Name == "extended" && (p.Spec.NodeName != "plain-0" || p.Status.ExtendedResourceClaimStatus == nil):
			return fmt.Errorf("%s is on %s with %v", p.Name, p.Spec.NodeName, p.Annotations)
		case p.Labels["app"] == "spread-"+d.namespace:
			spread[p.Spec.NodeName] = true
		}
		n++
	}
	if n != want || len(spread) != 3 {
		return fmt.Errorf("%d pods have a node, want %d; spread is on %v; waiting: %v", n, want, spread, waiting)
	}
	return nil
}

var devicesTaken = regexp.MustCompile(`gnnsched_claim_choices_total\{choice="taken",profile="([^"]*)"\} 2\n`)

// chose checks that the policy chose the devices of both pods with claims, and that they got them.
func (d *deployed) chose(ctx context.Context) error {
	text, err := d.get(ctx, "/metrics", d.site.cluster.REST().BearerToken)
	if found := devicesTaken.FindStringSubmatch(text); err == nil && (found == nil || found[1] != d.scheduler) {
		err = fmt.Errorf("the policy did not choose the devices of two pods: %v",
			regexp.MustCompile(`gnnsched_claim_choices_total.*`).FindAllString(text, -1))
	}
	return err
}

// preempts checks that a pod of a higher priority takes the place of another.
func (d *deployed) preempts(ctx context.Context) error {
	pods := d.site.client.CoreV1().Pods(d.namespace)
	high, err := pods.Get(ctx, "low", metav1.GetOptions{})
	if err != nil {
		return err
	}
	high.ObjectMeta = metav1.ObjectMeta{Name: "high"}
	high.Spec.NodeName, high.Spec.Priority, high.Spec.PriorityClassName = "", nil, "high"
	high.Status = corev1.PodStatus{}
	if _, err := pods.Create(ctx, high, metav1.CreateOptions{}); err != nil {
		return err
	}
	return d.until(ctx, func() error {
		p, err := pods.Get(ctx, "high", metav1.GetOptions{})
		if err == nil && p.Spec.NodeName == "" {
			err = errors.New("the pod of high priority waits")
		}
		return err
	})
}

var nodesMeasured = regexp.MustCompile(`gnnsched_usage_nodes\{[^}]*state="measured"[^}]*\} [1-9]`)

// measures checks that the scheduler measures usage if it was told to, tells it to an authorized reader, and to no other.
func (d *deployed) measures(ctx context.Context) error {
	if _, err := d.get(ctx, "/metrics", ""); err == nil {
		return errors.New("everybody may read the metrics")
	}
	if !slices.Contains(d.pod.Containers[0].Args, "--usage=metrics.k8s.io") {
		return nil
	}
	return d.until(ctx, func() error {
		text, err := d.get(ctx, "/metrics", d.site.cluster.REST().BearerToken)
		if err == nil && !nodesMeasured.MatchString(text) {
			err = errors.New("no node is measured")
		}
		return err
	})
}

// leads checks that the scheduler holds the lease, and that pods have events.
func (d *deployed) leads(ctx context.Context) error {
	l, err := d.site.client.CoordinationV1().Leases(metav1.NamespaceSystem).Get(ctx, d.lease, metav1.GetOptions{})
	if err != nil {
		return err
	}
	if l.Spec.HolderIdentity == nil || *l.Spec.HolderIdentity == "" {
		return fmt.Errorf("nobody holds the lease %s", d.lease)
	}
	return d.until(ctx, func() error {
		events, err := d.site.client.EventsV1().Events(d.namespace).List(ctx, metav1.ListOptions{})
		if err == nil && len(events.Items) < 10 {
			err = fmt.Errorf("%d events", len(events.Items))
		}
		return err
	})
}
