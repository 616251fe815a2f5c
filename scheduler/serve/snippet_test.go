package serve

import (
	"bytes"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers/gorillamux"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/validation"

	"gnnsched/internal/fatal"
	"gnnsched/internal/golden"
)

// Upstream decodes the printed configuration strictly and finds it valid, and one step of the extender's score outweighs all of upstream's
// score plugins.
func TestSnippet(t *testing.T) {
	const dir = "/etc/kubernetes/gnnsched/"
	e := Extender{
		URL: "https://127.0.0.1:10270", CAFile: dir + "ca.crt", CertFile: dir + "client.crt", KeyFile: dir + "client.key",
		Timeout: 750 * time.Millisecond,
	}
	text, err := e.YAML()
	fatal.If(t, err)
	page, err := os.ReadFile("../../docs/how-to/serve.md")
	fatal.If(t, err)
	if !strings.Contains(string(page), "```yaml\n"+string(text)+"```") {
		t.Errorf("docs/how-to/serve.md does not show what is printed:\n%s", text)
	}
	obj, _, err := scheme.Codecs.UniversalDecoder().Decode(text, nil, nil)
	fatal.If(t, err)
	c := obj.(*config.KubeSchedulerConfiguration)
	c.ClientConnection.Kubeconfig = "x"
	if err := validation.ValidateKubeSchedulerConfiguration(c); err != nil {
		t.Error(err)
	}
	x := c.Extenders[0]
	others := int64(0)
	for _, p := range c.Profiles[0].Plugins.MultiPoint.Enabled {
		others += 100 * int64(p.Weight)
	}
	if step := x.Weight * 100 / extenderv1.MaxExtenderPriority; others < 1000 || step <= others {
		t.Errorf("one step weighs %d, upstream's plugins %d", step, others)
	}
	if !x.Ignorable || !x.NodeCacheCapable || !x.EnableHTTPS || x.TLSConfig.Insecure || x.BindVerb != "" || x.PreemptVerb != "" {
		t.Errorf("%+v", x)
	}
}

func TestRBACText(t *testing.T) {
	text, err := Role{Name: RoleName, Namespace: "kube-system"}.RBAC()
	fatal.If(t, err)
	golden.Check(t, "rbac.yaml", string(text))
}

// The served document is valid OpenAPI, and describes exactly the served paths and their answers.
func TestOpenAPI(t *testing.T) {
	s := open(t, &canned{rank: falling}, credentials(t), nil)
	_, text := s.ask(t, http.MethodGet, "/openapi.json", "")
	doc, err := openapi3.NewLoader().LoadFromData([]byte(text))
	fatal.If(t, err)
	fatal.If(t, doc.Validate(t.Context()))
	served := map[string]bool{}
	for _, r := range s.routes() {
		served[r.path] = true
		item := doc.Paths.Find(r.path)
		if item == nil || item.GetOperation(r.method) == nil {
			t.Errorf("%s %s is not described", r.method, r.path)
			continue
		}
		if security := item.GetOperation(r.method).Security; r.open != (security != nil && len(*security) == 0) {
			t.Errorf("%s: it is open to everybody: %v; the document says otherwise", r.path, r.open)
		}
	}
	for path := range doc.Paths.Map() {
		if !served[path] {
			t.Errorf("%s is described and not served", path)
		}
	}
	doc.Servers = openapi3.Servers{{URL: "https://" + s.Address()}}
	router, err := gorillamux.NewRouter(doc)
	fatal.If(t, err)
	for _, c := range []struct{ method, path, body string }{
		{http.MethodPost, "/v1/suggestions", goodPod}, {http.MethodPost, "/v1/suggestions", `{"spec":{}}`},
		{http.MethodGet, "/v1/state", ""}, {http.MethodGet, "/openapi.json", ""},
		{http.MethodPost, filterPath, threeNodes}, {http.MethodPost, filterPath, wholeNodes},
		{http.MethodPost, prioritizePath, threeNodes}, {http.MethodPost, prioritizePath, `{"Pod":{}}`},
	} {
		request := s.request(t, c.method, c.path, c.body)
		route, params, err := router.FindRoute(request)
		if err != nil {
			t.Fatalf("%s: %v", c.path, err)
		}
		resp, err := s.client(t, true).Do(s.request(t, c.method, c.path, c.body))
		fatal.If(t, err)
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		fatal.If(t, err)
		in := &openapi3filter.RequestValidationInput{
			Request: request, PathParams: params, Route: route,
			Options: &openapi3filter.Options{AuthenticationFunc: openapi3filter.NoopAuthenticationFunc},
		}
		if err := openapi3filter.ValidateRequest(t.Context(), in); err != nil {
			t.Errorf("request to %s: %v", c.path, err)
		}
		out := &openapi3filter.ResponseValidationInput{
			RequestValidationInput: in, Status: resp.StatusCode, Header: resp.Header, Body: io.NopCloser(bytes.NewReader(body)),
		}
		if err := openapi3filter.ValidateResponse(t.Context(), out); err != nil {
			t.Errorf("answer of %s to %.60s: %v\n%s", c.path, c.body, err, strings.TrimSpace(string(body)))
		}
	}
}
