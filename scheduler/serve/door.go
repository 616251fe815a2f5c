package serve

import (
	"errors"
	"fmt"
	"net/http"

	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/request/bearertoken"
	"k8s.io/apiserver/pkg/authentication/request/union"
	"k8s.io/apiserver/pkg/authentication/request/x509"
	"k8s.io/apiserver/pkg/authentication/token/tokenfile"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"

	"gnnsched/internal/exit"
)

// door lets those in who have a client certificate or a token.
type door struct {
	config Config
	who    authenticator.Request
}

// newDoor reads the tokens. ca is nil if client certificates are not taken.
func newDoor(c Config, ca *dynamiccertificates.DynamicFileCAContent) (*door, error) {
	var ways []authenticator.Request
	if ca != nil {
		ways = append(ways, x509.NewDynamic(ca.VerifyOptions, x509.CommonNameUserConversion))
	}
	if c.TokenFile != "" {
		tokens, err := tokenfile.NewCSV(c.TokenFile)
		if err != nil {
			return nil, exit.New(exit.Usage, fmt.Errorf("read the tokens: %w", err), "a line of --token-auth-file is: token,user,uid")
		}
		ways = append(ways, bearertoken.New(tokens))
	}
	return &door{config: c, who: union.New(ways...)}, nil
}

var (
	errNoCredentials = errors.New("the request has neither a valid client certificate nor a valid bearer token")
	errNotAllowed    = errors.New("the caller's name is not among the allowed ones")
)

// guard answers 401 to callers that cannot be verified, and 403 to names that are not allowed.
func (d *door) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		caller, ok, err := d.who.AuthenticateRequest(r)
		switch {
		case err != nil || !ok: // the answer does not tell the exact fault
			w.Header().Set("WWW-Authenticate", "Bearer")
			refuse(w, "door", &fault{http.StatusUnauthorized, "unauthorized", errNoCredentials})
		case !d.config.allowed(caller.User.GetName()):
			refuse(w, "door", &fault{http.StatusForbidden, "forbidden", errNotAllowed})
		default:
			next.ServeHTTP(w, r)
		}
	})
}
