package kubeconfig

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"gnnsched/internal/exit"
)

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
