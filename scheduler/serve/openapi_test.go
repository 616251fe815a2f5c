package serve

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers/gorillamux"

	"gnnsched/internal/fatal"
)

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
