package kubeconfig

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"
	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"gnnsched/internal/exit"
)

// TLSSettings holds, for hints, the names of the settings that determine the way to the server. An empty name means that there is no such
// setting.
type TLSSettings struct {
	Address           string // the server's URL
	Authority         string // the certificates that sign the server's certificate
	ServerName        string // the name that the server's certificate must have
	ClientCertificate string // the certificate that the client shows
	proxy             string // the proxy's URL
}

// Fault is the reason why a request failed.
type Fault struct {
	Misfit bool   // the settings do not fit what answers; trying again does not help
	Hint   string // the next step
}

// kind is one way in which a request fails.
type kind struct {
	is     func(error) bool
	misfit bool
	hint   func(TLSSettings, error) string
}

// kinds are tried in this order: a proxy fails in the ways of a server, too.
var kinds = []kind{
	{proxyFailed, false, func(s TLSSettings, _ error) string {
		return "the proxy is the fault: check " + cmp.Or(s.proxy, "$HTTPS_PROXY") +
			", or list the server in $NO_PROXY if it is reached without a proxy"
	}},
	{expired, false, func(TLSSettings, error) string {
		return "compare this machine's clock with the certificate's dates; if the clock is right, the server needs a new certificate"
	}},
	{is[x509.UnknownAuthorityError], true, func(s TLSSettings, _ error) string {
		return "the server's certificate is of another authority: put that authority's certificate into " + s.Authority +
			"; a proxy that inspects TLS shows certificates of its own authority"
	}},
	{is[x509.HostnameError], true, func(s TLSSettings, _ error) string {
		return "write one of the certificate's names into " + cmp.Or(s.ServerName, s.Address)
	}},
	{untrusted, true, func(s TLSSettings, _ error) string {
		return "the server needs another certificate, or " + s.Authority + " another authority"
	}},
	{plainServer, true, func(s TLSSettings, _ error) string {
		return "no TLS is spoken at this port: check the port in " + s.Address + ", or begin it with http://"
	}},
	{tlsServer, true, func(s TLSSettings, _ error) string {
		return "TLS is spoken at this port: begin " + s.Address + " with https://"
	}},
	{alerted, true, func(s TLSSettings, _ error) string {
		return "the server ended the TLS handshake: check " + cmp.Or(s.ClientCertificate, s.Address) + ", which it may not accept or may lack"
	}},
	{is[*net.DNSError], false, func(s TLSSettings, _ error) string {
		return "check the name in " + s.Address + "; some names are known only in a VPN"
	}},
	{refused, false, func(s TLSSettings, _ error) string {
		return "nothing listens there: check that the server is up, and host and port in " + s.Address
	}},
	{cut, false, func(s TLSSettings, _ error) string {
		return "the connection was closed without an answer: check that the server behind a load balancer or tunnel is up, and the port in " +
			s.Address
	}},
	{unreachable, false, func(s TLSSettings, _ error) string {
		return "check host and port in " + s.Address + ", and whether a VPN or a firewall is in the way"
	}},
}

// Explain returns the fault that the error of a request names. It returns false if the error is about something else, for example an
// answer of the server itself.
func (s TLSSettings) Explain(err error) (Fault, bool) {
	if err == nil || errors.Is(err, context.Canceled) {
		return Fault{}, false
	}
	for _, k := range kinds {
		if k.is(err) {
			return Fault{k.misfit, k.hint(s, err)}, true
		}
	}
	return Fault{}, false
}

// is reports whether there is an error of a type in the chain.
func is[T error](err error) bool {
	var found T
	return errors.As(err, &found)
}

// operation returns the network operation that failed, such as "dial"; "" if none did.
func operation(err error) string {
	var op *net.OpError
	if !errors.As(err, &op) {
		return ""
	}
	return op.Op
}

// proxyFailed recognises a proxy that cannot be reached or that refuses to connect. For a refusal net/http's error is only the text of
// the proxy's status.
func proxyFailed(err error) bool {
	if op := operation(err); op == "proxyconnect" || strings.HasPrefix(op, "socks") {
		return true
	}
	var request *url.Error
	return errors.As(err, &request) && slices.Contains(refusals, request.Err.Error())
}

// refusals are the texts of statuses with which proxies refuse to connect.
var refusals = []string{
	http.StatusText(http.StatusProxyAuthRequired), http.StatusText(http.StatusBadRequest), http.StatusText(http.StatusForbidden),
	http.StatusText(http.StatusNotFound),
	http.StatusText(http.StatusMethodNotAllowed), http.StatusText(http.StatusInternalServerError), http.StatusText(http.StatusNotImplemented),
	http.StatusText(http.StatusBadGateway), http.StatusText(http.StatusServiceUnavailable), http.StatusText(http.StatusGatewayTimeout),
}

func expired(err error) bool {
	var invalid x509.CertificateInvalidError
	return errors.As(err, &invalid) && invalid.Reason == x509.Expired
}

// untrusted recognises all other reasons why a certificate is not accepted.
func untrusted(err error) bool {
	return is[*tls.CertificateVerificationError](err) || is[x509.CertificateInvalidError](err) || is[x509.SystemRootsError](err)
}

func plainServer(err error) bool {
	return errors.Is(err, http.ErrSchemeMismatch) || is[tls.RecordHeaderError](err)
}

// tlsServer recognises what Go's servers and nginx answer to HTTP without TLS.
func tlsServer(err error) bool {
	text := err.Error()
	return strings.Contains(text, "HTTP request to an HTTPS server") || strings.Contains(text, "HTTP request was sent to HTTPS port")
}

// alerted recognises a handshake that one side ended because certificates, names or versions do not fit.
func alerted(err error) bool {
	var request *url.Error
	return operation(err) == "remote error" || errors.As(err, &request) && strings.HasPrefix(request.Err.Error(), "tls: ")
}

func refused(err error) bool { return errors.Is(err, syscall.ECONNREFUSED) }

// cut recognises the end of a connection. It requires a url.Error, because other ends may be a file's.
func cut(err error) bool {
	return is[*url.Error](err) && (errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET) ||
		errors.Is(err, syscall.EPIPE))
}

func unreachable(err error) bool {
	return operation(err) == "dial" || strings.Contains(err.Error(), "TLS handshake timeout")
}

// Require returns an error of exit code 4 if the user may not do something that the rules allow in all namespaces.
func Require(ctx context.Context, c kubernetes.Interface, hint string, rules ...rbacv1.PolicyRule) error {
	missing, _, err := Lacking(ctx, c, "", rules...)
	if err != nil || len(missing) == 0 {
		return Explain(err)
	}
	return exit.New(exit.Kubeconfig, fmt.Errorf("the cluster does not let this user %s", strings.Join(missing, ", ")), hint)
}

// Lacking asks the API server which rights of the rules its user lacks in a namespace (all if it is empty), such as
// "list replicasets.apps". asked is the number of rights in the rules.
func Lacking(
	ctx context.Context, c kubernetes.Interface, namespace string, rules ...rbacv1.PolicyRule,
) (missing []string, asked int, err error) {
	all := rightsIn(namespace, rules)
	denied := make([]bool, len(all))
	questions, ctx := errgroup.WithContext(ctx)
	questions.SetLimit(16)
	for i, r := range all {
		questions.Go(func() error {
			review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &r}}
			answer, err := c.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
			if err == nil {
				denied[i] = !answer.Status.Allowed
			}
			return err
		})
	}
	if err := questions.Wait(); err != nil {
		return nil, len(all), fmt.Errorf("ask for this user's rights: %w", err)
	}
	for i, r := range all {
		if denied[i] {
			missing = append(missing, describe(r))
		}
	}
	return missing, len(all), nil
}

// rightsIn returns one right for each verb, resource and object that the rules name.
func rightsIn(namespace string, rules []rbacv1.PolicyRule) (out []authorizationv1.ResourceAttributes) {
	for _, r := range rules {
		names := r.ResourceNames
		if len(names) == 0 {
			names = []string{""}
		}
		for _, group := range r.APIGroups {
			for _, path := range r.Resources {
				resource, sub, _ := strings.Cut(path, "/")
				for _, verb := range r.Verbs {
					for _, name := range names {
						out = append(out, authorizationv1.ResourceAttributes{
							Verb: verb, Group: group, Resource: resource, Subresource: sub, Namespace: namespace, Name: name,
						})
					}
				}
			}
		}
	}
	return out
}

func describe(r authorizationv1.ResourceAttributes) string {
	s := r.Verb + " " + r.Resource
	for _, part := range []struct{ before, text string }{{"/", r.Subresource}, {".", r.Group}, {"/", r.Name}} {
		if part.text != "" {
			s += part.before + part.text
		}
	}
	return s
}

// settings names the fields of a kubeconfig that determine the way to the API server.
var settings = TLSSettings{
	Address: "`server` of the kubeconfig's cluster", Authority: "`certificate-authority-data` of the kubeconfig's cluster",
	ServerName:        "`server` or `tls-server-name` of the kubeconfig's cluster",
	ClientCertificate: "`client-certificate-data` of the kubeconfig's user",
	proxy:             "`proxy-url` of the kubeconfig's cluster and $HTTPS_PROXY",
}

// Refused gives the answer of an API server that it does not know the user, or that the user lacks a right, the exit code
// exit.Kubeconfig. Errors that have a code keep it, and so do refusals by admission, such as those for a quota.
func Refused(err error) error {
	var known *exit.Error
	if err == nil || errors.As(err, &known) ||
		!apierrors.IsUnauthorized(err) && !(apierrors.IsForbidden(err) && strings.Contains(err.Error(), `User "`)) {
		return err
	}
	return exit.New(exit.Kubeconfig, err, "an administrator can give the kubeconfig's user this right; "+
		"--kubeconfig and --context name another user, and `gnnsched doctor` lists the rights of each command")
}

// Explain adds an exit code and the next step to an error of a request to the API server: exit.Kubeconfig if the kubeconfig does not fit
// the cluster, exit.Unreachable without an answer. It returns other errors unchanged: nil, errors with an exit code, errors of a cancelled
// context, and answers of the API server. It names the simulated cluster only if the request went to it or to this machine.
func Explain(err error) error {
	var known *exit.Error
	var request *url.Error // every failed HTTP request ends in one
	var status apierrors.APIStatus
	fault, explained := settings.Explain(err)
	switch {
	case err == nil, errors.As(err, &known), errors.Is(err, context.Canceled):
		return err
	case errors.As(err, &status):
		// Of all faults, an answer can only be that to HTTP where TLS is spoken.
		if fault, explained = settings.Explain(unexpected(status)); !explained {
			return err
		}
	case strings.Contains(err.Error(), "getting credentials: "):
		return exit.New(exit.Kubeconfig, err, "the kubeconfig's user gets credentials from a program, which failed: "+
			"run `kubectl get nodes` with the same context, and see what it lacks")
	case !errors.As(err, &request) && !explained:
		return err
	}
	if fault.Misfit {
		return exit.New(exit.Kubeconfig, err, fault.Hint+"; or fetch the kubeconfig again")
	}
	hint := fault.Hint
	if !explained {
		hint = "it did not answer in time: check host and port in " + settings.Address + ", and whether a VPN or a firewall is in the way"
	}
	if request != nil && simulated(request.URL) {
		hint = "is it up? `kwokcluster status` tells for the simulated cluster, and `kwokcluster up` starts it; " +
			"--kubeconfig and --context name another cluster"
	}
	return exit.New(exit.Unreachable, err, hint)
}

// unexpected returns an error with the text of an answer that does not come from an API server; else nil.
func unexpected(s apierrors.APIStatus) error {
	d := s.Status().Details
	if d == nil {
		return nil
	}
	for _, cause := range d.Causes {
		if cause.Type == metav1.CauseTypeUnexpectedServerResponse {
			return errors.New(cause.Message)
		}
	}
	return nil
}

// simulated reports whether an address is on this machine or belongs to the simulated cluster.
func simulated(address string) bool {
	u, err := url.Parse(address)
	if err != nil {
		return false
	}
	if ip := net.ParseIP(u.Hostname()); u.Hostname() == "localhost" || ip != nil && ip.IsLoopback() {
		return true
	}
	file, err := clientcmd.LoadFromFile(SimulatedKubeconfig(SimulatedDir()))
	if err != nil {
		return false
	}
	for _, c := range file.Clusters {
		if server, err := url.Parse(c.Server); err == nil && server.Host == u.Host {
			return true
		}
	}
	return false
}

// unready returns the error of the first request, to /readyz, and of its answer; nil if the API server is ready.
func unready(c *rest.Config, answer []byte, err error, now time.Time) error {
	if err == nil {
		if !bytes.HasPrefix(bytes.TrimSpace(answer), []byte("<")) {
			return nil
		}
		return exit.New(exit.Kubeconfig, fmt.Errorf("a web page answers at %s, not an API server", c.Host),
			"check "+settings.Address+"; a proxy may answer in the cluster's place")
	}
	var known *exit.Error
	if errors.As(Explain(err), &known) {
		what := "the cluster at %s does not answer: %w"
		if known.Code == exit.Kubeconfig {
			what = "the kubeconfig does not fit the cluster at %s: %w"
		}
		return exit.New(known.Code, fmt.Errorf(what, c.Host, err), known.Hint)
	}
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return exit.New(exit.Unreachable, fmt.Errorf("the cluster at %s does not answer: %w", c.Host, err), "check "+settings.Address)
	}
	switch code := status.Status().Code; code {
	case http.StatusUnauthorized, http.StatusForbidden:
		if code == http.StatusForbidden && !strings.Contains(err.Error(), "system:anonymous") {
			return nil // it knows the user, who may not ask whether it is ready
		}
		hint := "check the user of the context in the kubeconfig"
		if end := clientEnd(c); !end.IsZero() && end.Before(now) {
			hint = "the client certificate in the kubeconfig expired at " + end.UTC().Format(time.RFC3339) + ": fetch a new kubeconfig"
		}
		return exit.New(exit.Kubeconfig, fmt.Errorf("the cluster at %s refuses the credentials: %w", c.Host, err), hint)
	case http.StatusBadRequest, http.StatusNotFound:
		return exit.New(exit.Kubeconfig, fmt.Errorf("no API server answers at %s: %w", c.Host, err),
			"check host, port and path in "+settings.Address)
	case http.StatusProxyAuthRequired:
		return exit.New(exit.Kubeconfig, fmt.Errorf("a proxy answers for %s: %w", c.Host, err), "write user and password into "+settings.proxy)
	case http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return exit.New(exit.Unreachable, fmt.Errorf("a proxy or load balancer answers at %s, but no API server: %w", c.Host, err),
			"check that the API server behind it is up")
	}
	return exit.New(exit.Unreachable, fmt.Errorf("the cluster at %s is not ready: %w", c.Host, err),
		"wait until its API server is ready; `kubectl get --raw /readyz?verbose` lists what it waits for")
}

// clientEnd returns when the client's certificate expires; the zero time if there is none.
func clientEnd(c *rest.Config) time.Time {
	c = rest.CopyConfig(c)
	if err := rest.LoadTLSFiles(c); err != nil {
		return time.Time{}
	}
	block, _ := pem.Decode(c.CertData)
	if block == nil {
		return time.Time{}
	}
	certificate, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return time.Time{}
	}
	return certificate.NotAfter
}
