package server

import (
	"net/http"
	"slices"

	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"
)

// openPaths are the paths that everybody may read.
var openPaths = []string{"/healthz", "/livez", "/readyz"}

// tokenUnlessHealth wraps the endpoint's authenticator, which takes a caller without a token for the
// anonymous user, so that it does so at openPaths only. Elsewhere such a caller gets status 401.
// Upstream leaves anonymous callers to the cluster's authorization, which allows everything on a
// simulated cluster.
//
// DelegatingAuthenticationOptions.Anonymous would do the same, but its ApplyTo ignores it.
func tokenUnlessHealth(next authenticator.Request) authenticator.Request {
	return authenticator.RequestFunc(func(r *http.Request) (*authenticator.Response, bool, error) {
		response, ok, err := next.AuthenticateRequest(r)
		if ok && response.User.GetName() == user.Anonymous && !slices.Contains(openPaths, r.URL.Path) {
			return nil, false, err
		}
		return response, ok, err
	})
}
