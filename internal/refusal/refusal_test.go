package refusal

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/go-logr/logr/funcr"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"gnnsched/internal/exit"
	"gnnsched/internal/refusal/refusaltest"
)

func TestRequests(t *testing.T) {
	for _, c := range []struct{ host, method, path, want string }{
		{"", "GET", "/api/v1/services?limit=500", "list services"},
		{"", "GET", "/api/v1/services?watch=true", "watch services"},
		{"", "GET", "/api/v1/namespaces", "list namespaces"},
		{"", "GET", "/api/v1/namespaces/a", "get namespaces"},
		{"", "GET", "/api/v1/namespaces/a/pods?watch=1", "watch pods"},
		{"", "GET", "/api/v1/namespaces/a/pods/b", "get pods"},
		{"", "GET", "/api/v1/namespaces/a/pods/b/log", "get pods/log"},
		{"", "GET", "/apis/apps/v1/replicasets", "list replicasets.apps"},
		{"", "GET", "/apis/apps/v1/namespaces/a/replicasets/b", "get replicasets.apps"},
		{"https://h/k8s/clusters/c-1", "GET", "/k8s/clusters/c-1/apis/apps/v1/replicasets", "list replicasets.apps"},
		{"https://h/k8s/api/cluster1", "GET", "/k8s/api/cluster1/api/v1/namespaces/a/pods/b", "get pods"},
		{"https://h/k8s/api/cluster1/", "GET", "/k8s/api/cluster1/apis/apps/v1/replicasets?watch=1", "watch replicasets.apps"},
		{"https://h/api", "GET", "/api/api/v1/nodes", "list nodes"},
		{"https://h/apis", "GET", "/apis/version", ""},
		{"https://h/k8s", "GET", "/k8s", ""},
		{"https://h/k8s", "GET", "/k8sother/api/v1/nodes", ""},
		{"https://h/k8s", "GET", "/api/v1/nodes", ""},
		{"h:6443", "GET", "/api/v1/nodes", "list nodes"},
		{"", "GET", "/", ""},
		{"", "GET", "/apis/apps/v1", ""},
		{"", "GET", "/apis", ""},
		{"", "GET", "/api", ""},
		{"", "GET", "/version", ""},
		{"", "POST", "/api/v1/namespaces/a/pods", ""},
	} {
		r, reads := requestOf(httptest.NewRequest(c.method, c.path, nil), baseOf(&rest.Config{Host: c.host}))
		if reads != (c.want != "") || reads && r.String() != c.want {
			t.Errorf("%s: %s %s: %v, %q; want %q", c.host, c.method, c.path, reads, r, c.want)
		}
	}
}

// client returns a client that the observer hears.
func client(t *testing.T, o *Observer, s *refusaltest.Server) kubernetes.Interface {
	t.Helper()
	c, err := kubernetes.NewForConfig(o.Config(&rest.Config{Host: s.URL}))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// A refusal is reported once until the request is granted. Its errors are dropped from logs meanwhile.
func TestObserver(t *testing.T) {
	var told, logged []string
	o := &Observer{
		Refused: func(r Request, never bool) { told = append(told, fmt.Sprintf("no %s %v", r, never)) },
		Granted: func(r Request) { told = append(told, "may "+r.String()) },
	}
	log := funcr.New(func(_, line string) { logged = append(logged, line) }, funcr.Options{})
	quiet := klog.FromContext(o.Quiet(klog.NewContext(t.Context(), log)))
	s := refusaltest.New(t, "list services")
	c := client(t, o, s)
	list := func() {
		_, err := c.CoreV1().Services("").List(t.Context(), metav1.ListOptions{})
		if err != nil {
			quiet.Error(fmt.Errorf("failed to list *v1.Service: %w", err), "Failed to watch")
		}
		if _, err := c.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{}); err != nil {
			t.Error(err)
		}
	}
	list()
	list()
	s.Forbid()
	list()
	list()
	s.Forbid("list services")
	list()
	want := []string{"no list services true", "may list services", "no list services false"}
	if !slices.Equal(told, want) || len(logged) > 0 {
		t.Errorf("told %q, want %q; logged %q", told, want, logged)
	}
	s.Forbid("list pods")
	_, err := c.CoreV1().Pods("").List(t.Context(), metav1.ListOptions{})
	s.Forbid()
	if _, err := c.CoreV1().Pods("").List(t.Context(), metav1.ListOptions{}); err != nil {
		t.Error(err)
	}
	quiet.Error(err, "An old error")
	quiet.Error(http.ErrServerClosed, "Another error")
	if len(logged) != 2 {
		t.Errorf("logged %q, want both errors that no refusal explains", logged)
	}
}

// A client reaches its server through a proxy whose path looks like one of the API.
func TestObserverBehindAProxy(t *testing.T) {
	var told []string
	o := &Observer{Refused: func(r Request, _ bool) { told = append(told, r.String()) }}
	s := refusaltest.New(t, "list services")
	proxy := httptest.NewServer(http.StripPrefix("/k8s/api/cluster1", s))
	defer proxy.Close()
	c, err := kubernetes.NewForConfig(o.Config(&rest.Config{Host: proxy.URL + "/k8s/api/cluster1"}))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{}); err != nil {
		t.Error(err)
	}
	if _, err := c.CoreV1().Services("").List(t.Context(), metav1.ListOptions{}); err == nil ||
		!slices.Equal(told, []string{"list services"}) {
		t.Errorf("error %v, told %q", err, told)
	}
}

// A reflector that watches without a list first lists when its watch is refused. That is a lost right.
func TestListAfterWatch(t *testing.T) {
	var tally Tally
	tally.Granted(Request{"watch", "", "pods"})
	if first, never := tally.Refused(Request{"list", "", "pods"}); !first || never {
		t.Errorf("first %v, never %v after a granted watch", first, never)
	}
	if first, never := tally.Refused(Request{"list", "", "nodes"}); !first || !never {
		t.Errorf("first %v, never %v without one", first, never)
	}
}

// A program ends if it requires a right that it never had. It goes on without other rights, and when it loses one.
func TestRequiring(t *testing.T) {
	rules := []rbacv1.PolicyRule{{APIGroups: []string{"apps"}, Resources: []string{"replicasets"}, Verbs: []string{"list"}}}
	for name, c := range map[string]struct {
		forbids []string
		first   bool // they are forbidden from the beginning
		ends    bool
		warned  string
	}{
		"required":        {forbids: []string{"list replicasets.apps"}, first: true, ends: true},
		"lost":            {forbids: []string{"list replicasets.apps"}, warned: "may not list replicasets.apps; it is tried again: see X"},
		"not required":    {forbids: []string{"list services"}, first: true, warned: "may not list services; it is tried again: see X"},
		"nothing refused": {},
	} {
		t.Run(name, func(t *testing.T) {
			var warned []string
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			o := Requiring(rules, "see X", cancel, func(s string) { warned = append(warned, s) })
			s := refusaltest.New(t)
			kube := client(t, o, s)
			for _, now := range []bool{true, false} {
				if now == c.first || !now {
					s.Forbid(c.forbids...)
				}
				for range 2 { // errors are the observer's matter
					_, _ = kube.CoreV1().Services("").List(t.Context(), metav1.ListOptions{})
					_, _ = kube.AppsV1().ReplicaSets("").List(t.Context(), metav1.ListOptions{})
				}
			}
			if strings.Join(warned, "\n") != c.warned {
				t.Errorf("warned %q, want %q", warned, c.warned)
			}
			err := o.Err()
			if c.ends != (err != nil) || c.ends != (ctx.Err() != nil) {
				t.Errorf("ends %v with %v", ctx.Err(), err)
			}
			if c.ends && (exit.Code(err) != exit.Kubeconfig || !strings.Contains(err.Error(), "does not let this user list replicasets.apps")) {
				t.Error(err)
			}
		})
	}
}
