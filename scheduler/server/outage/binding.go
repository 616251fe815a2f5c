package outage

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
)

// A binding may have been written although its answer is lost, because the server was killed or the
// connection broke, or although the answer is a status of 500 or more. A scheduler that takes it for failed
// gives the pod's room and devices to another pod before it sees the first one on the node. So a binding is
// sent again until there is another answer. The second one of the same pod to the same node is refused if
// the first one was written: that is success too.

const bindingPath = "/binding"

// isBinding reports whether a request binds a pod.
func isBinding(r *http.Request) bool {
	return r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, bindingPath)
}

// settle replaces the refusal of a binding that was sent before by success if the pod is bound as the
// request demands.
func (t *transport) settle(r *http.Request, refusal *http.Response) (*http.Response, error) {
	wanted, err := bindingIn(r)
	if err != nil {
		return refusal, nil //nolint:nilerr // the refusal is what the caller has to know
	}
	pod, err := t.podOf(r)
	if err != nil || pod.UID != wanted.UID || pod.Spec.NodeName != wanted.Target.Name {
		return refusal, nil //nolint:nilerr // as above
	}
	refusal.Body.Close()
	body, err := json.Marshal(metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusSuccess})
	if err != nil {
		return nil, err
	}
	return &http.Response{
		Status: http.StatusText(http.StatusCreated), StatusCode: http.StatusCreated, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(bytes.NewReader(body)),
		ContentLength: int64(len(body)), Request: r,
	}, nil
}

// bindingIn reads the binding from the body of a request.
func bindingIn(r *http.Request) (*corev1.Binding, error) {
	if r.GetBody == nil {
		return nil, errors.New("the body cannot be read again")
	}
	body, err := r.GetBody()
	if err != nil {
		return nil, err
	}
	defer body.Close()
	text, err := io.ReadAll(body)
	if err != nil {
		return nil, err
	}
	o, _, err := scheme.Codecs.UniversalDeserializer().Decode(text, nil, nil)
	if err != nil {
		return nil, err
	}
	b, is := o.(*corev1.Binding)
	if !is {
		return nil, fmt.Errorf("the body is a %T", o)
	}
	return b, nil
}

// podOf reads the pod that a binding is about.
func (t *transport) podOf(r *http.Request) (*corev1.Pod, error) {
	url := *r.URL
	url.Path, url.RawPath, url.RawQuery = strings.TrimSuffix(url.Path, bindingPath), "", ""
	get, err := http.NewRequestWithContext(r.Context(), http.MethodGet, url.String(), nil)
	if err != nil {
		return nil, err
	}
	get.Header = r.Header.Clone()
	get.Header.Del("Content-Type")
	get.Header.Set("Accept", "application/json")
	answer, err := t.RoundTrip(get)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return nil, errors.New(answer.Status)
	}
	p := &corev1.Pod{}
	return p, json.NewDecoder(answer.Body).Decode(p)
}
