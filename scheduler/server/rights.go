package server

import (
	"bytes"
	"io"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/sets"
	apirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/klog/v2"
)

const (
	// tellRefused is the time from the first refusal until the log sums them up, and tellAgain that to the next summary.
	tellRefused = 2 * time.Second
	tellAgain   = time.Minute
	// refusalText bounds what is read of a refusal.
	refusalText = 4 << 10
)

// refusals is a transport that sums up, in one line of the log, which requests the API server refuses because the user lacks a right.
// Informers wait for such rights for ever, and log every try.
type refusals struct {
	next http.RoundTripper
	log  klog.Logger

	mu      sync.Mutex
	refused map[string]bool // such as "list pods", since the last summary
	told    bool            // whether there was one
}

func newRefusals(next http.RoundTripper, log klog.Logger) *refusals {
	return &refusals{next: next, log: log, refused: map[string]bool{}}
}

// WrappedRoundTripper implements net.RoundTripperWrapper.
func (t *refusals) WrappedRoundTripper() http.RoundTripper { return t.next }

// RoundTrip implements http.RoundTripper.
func (t *refusals) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := t.next.RoundTrip(r)
	if err != nil || answer.StatusCode != http.StatusForbidden {
		return answer, err
	}
	// Only the authorizer names the user. Admission, such as that for a quota, refuses otherwise.
	text, _ := io.ReadAll(io.LimitReader(answer.Body, refusalText)) // whoever reads the rest gets the error
	answer.Body = struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(text), answer.Body), answer.Body}
	if bytes.Contains(text, []byte(`User "`)) || bytes.Contains(text, []byte(`User \"`)) { // in protobuf, in JSON
		t.note(r)
	}
	return answer, nil
}

// note remembers a refused request.
func (t *refusals) note(r *http.Request) {
	info, err := resolver.NewRequestInfo(r)
	if err != nil || !info.IsResourceRequest {
		return
	}
	right := info.Verb + " " + info.Resource
	if info.Subresource != "" {
		right += "/" + info.Subresource
	}
	if info.APIGroup != "" {
		right += "." + info.APIGroup
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.refused) == 0 {
		wait := tellRefused
		if t.told {
			wait = tellAgain
		}
		time.AfterFunc(wait, t.tell)
	}
	t.refused[right] = true
}

// tell logs the refused requests.
func (t *refusals) tell() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.log.Error(nil, "The cluster refuses this user rights that the scheduler needs. Pods may wait until it has them: "+
		"`gnnsched doctor rungnn` lists them, the roles of `gnnsched deploy --print` give them", "refused", slices.Sorted(maps.Keys(t.refused)))
	clear(t.refused)
	t.told = true
}

// resolver says what a request is about.
var resolver = &apirequest.RequestInfoFactory{APIPrefixes: sets.NewString("api", "apis"), GrouplessAPIPrefixes: sets.NewString("api")}
