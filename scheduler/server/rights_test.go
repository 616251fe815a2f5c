package server

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"

	"gnnsched/internal/fatal"
)

// The log sums up within seconds which rights the user lacks, once a minute while requests are refused. A refusal by admission names no
// user, and is no lack of a right. Whoever asked gets the whole answer.
func TestRefusalsAreSummedUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told []string
		refuse := ""
		x := newRefusals(round(func(r *http.Request) (*http.Response, error) {
			status := http.StatusForbidden
			if refuse == "" {
				status = http.StatusOK
			}
			return &http.Response{StatusCode: status, Body: io.NopCloser(strings.NewReader(refuse))}, nil
		}), funcr.New(func(_, text string) { told = append(told, text) }, funcr.Options{}))
		ask := func(method, path string) {
			t.Helper()
			r := fatal.Value(http.NewRequestWithContext(t.Context(), method, "https://cluster"+path, nil))(t)
			answer := fatal.Value(x.RoundTrip(r))(t)
			if text, err := io.ReadAll(answer.Body); err != nil || string(text) != refuse {
				t.Errorf("%s: %q, %v", path, text, err)
			}
		}
		heard := func(summaries int, want ...string) {
			t.Helper()
			synctest.Wait()
			if len(told) != summaries {
				t.Fatalf("%d summaries, want %d: %q", len(told), summaries, told)
			}
			for _, w := range want {
				if !strings.Contains(told[summaries-1], w) {
					t.Errorf("%s lacks %s", told[summaries-1], w)
				}
			}
		}
		ask(http.MethodGet, "/api/v1/pods?limit=500")
		refuse = `pods "web" is forbidden: exceeded quota: few`
		ask(http.MethodPost, "/api/v1/namespaces/shop/pods")
		time.Sleep(time.Hour)
		heard(0)
		refuse = `pods is forbidden: User "nobody" cannot list resource "pods"` + strings.Repeat(".", 2*refusalText)
		for range 3 {
			ask(http.MethodGet, "/api/v1/pods?limit=500")
		}
		ask(http.MethodPost, "/api/v1/namespaces/shop/pods/web/binding")
		ask(http.MethodGet, "/apis/resource.k8s.io/v1/deviceclasses?watch=true")
		time.Sleep(tellRefused)
		heard(1, `"create pods/binding" "list pods" "watch deviceclasses.resource.k8s.io"`, "gnnsched doctor rungnn")
		for range 130 { // informers try again
			ask(http.MethodGet, "/api/v1/pods?limit=500")
			time.Sleep(time.Second)
		}
		heard(3, `["list pods"]`)
	})
}

// round is a transport.
type round func(*http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (f round) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
