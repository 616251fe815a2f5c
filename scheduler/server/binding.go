package server

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/klog/v2"

	"gnnsched/internal/logging"
)

const (
	// bindAgain is the time between two tries of a binding.
	bindAgain = 500 * time.Millisecond
	// bindFailures is how often a binding is sent to a server that answers with status 500 or more.
	bindFailures = 3
	bindingPath  = "/binding"
)

// rebinding is a transport that learns what became of each binding. A binding may have been written although its answer is lost, because
// the server was killed or the connection broke, or although the answer is a status of 500 or more. A scheduler that takes it for failed
// gives the pod's room and devices to another pod before it sees the first one on the node. client-go repeats no such request. So
// rebinding sends a binding again until there is another answer. The second one of the same pod to the same node is refused if the first
// one was written: that is success too.
type rebinding struct{ next http.RoundTripper }

// WrappedRoundTripper implements net.RoundTripperWrapper.
func (t rebinding) WrappedRoundTripper() http.RoundTripper { return t.next }

// RoundTrip implements http.RoundTripper.
func (t rebinding) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method != http.MethodPost || !strings.HasSuffix(r.URL.Path, bindingPath) || r.GetBody == nil {
		return t.next.RoundTrip(r)
	}
	for attempt, failures := 1, 0; ; attempt++ {
		response, err := t.next.RoundTrip(r)
		fails := err == nil && response.StatusCode >= http.StatusInternalServerError
		if fails {
			failures++
		}
		switch {
		case r.Context().Err() != nil, fails && failures == bindFailures:
			return response, err
		case err == nil && !fails:
			if attempt > 1 && response.StatusCode == http.StatusConflict {
				return t.settle(r, response)
			}
			return response, nil
		case fails:
			response.Body.Close()
		}
		select {
		case <-r.Context().Done():
			return nil, errors.Join(r.Context().Err(), err)
		case <-time.After(bindAgain):
		}
		r = r.Clone(r.Context())
		if r.Body, err = r.GetBody(); err != nil {
			return nil, err
		}
	}
}

// settle replaces the refusal of a binding that was sent before by success if the pod is bound as the
// request demands.
func (t rebinding) settle(r *http.Request, refusal *http.Response) (*http.Response, error) {
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
func (t rebinding) podOf(r *http.Request) (*corev1.Pod, error) {
	url := *r.URL
	url.Path, url.RawPath, url.RawQuery = strings.TrimSuffix(url.Path, bindingPath), "", ""
	get, err := http.NewRequestWithContext(r.Context(), http.MethodGet, url.String(), nil)
	if err != nil {
		return nil, err
	}
	get.Header = r.Header.Clone()
	get.Header.Del("Content-Type")
	get.Header.Set("Accept", "application/json")
	answer, err := t.next.RoundTrip(get)
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

const (
	catchUpWithin = 30 * time.Second
	catchUpPause  = 50 * time.Millisecond
	catchUpPage   = 500 // pods in one answer
	// runningOnNodes selects the pods that a scheduler keeps in its cache.
	runningOnNodes = "spec.nodeName!=,status.phase!=Succeeded,status.phase!=Failed"
)

// catchUp waits until the scheduler's caches have all pods that are bound and all claims that are allocated. The watches of a standby
// may be behind when the standby gets the lease, above all after an outage. Without the last bindings and allocations of the
// previous leader it would give their room and their devices to other pods.
func (i *instance) catchUp(ctx context.Context, client kubernetes.Interface) {
	within, cancel := context.WithTimeout(ctx, catchUpWithin)
	defer cancel()
	log, began := klog.FromContext(ctx).WithName(logging.ProjectLogger), time.Now()
	for pause := catchUpPause; ; pause = min(2*pause, time.Second) {
		missing, err := i.missing(within, client)
		if err == nil && missing == 0 {
			missing, err = i.missingClaims(within, client)
		}
		switch {
		case err == nil && missing == 0, ctx.Err() != nil:
			if waited := time.Since(began); waited > time.Second {
				log.Info("Scheduling begins late: a watch was behind", "waited", waited.Round(time.Millisecond))
			}
			return
		case within.Err() != nil:
			log.Error(err, "Scheduling begins although a watch is behind", "missing", missing)
			return
		}
		select {
		case <-within.Done():
		case <-time.After(pause):
		}
	}
}

// missing returns how many bound pods the scheduler's cache lacks. The list is the API server's latest state,
// not that of its cache.
func (i *instance) missing(ctx context.Context, client kubernetes.Interface) (n int, err error) {
	options := metav1.ListOptions{FieldSelector: runningOnNodes, Limit: catchUpPage}
	for {
		list, err := client.CoreV1().Pods(metav1.NamespaceAll).List(ctx, options)
		if err != nil {
			return 0, err
		}
		for j := range list.Items {
			if _, err := i.sched.Cache.GetPod(&list.Items[j]); err != nil {
				n++
			}
		}
		if options.Continue = list.Continue; options.Continue == "" {
			return n, nil
		}
	}
}

// missingClaims returns how many allocated claims the informer lacks or has without an allocation; 0 if no plugin reads claims.
func (i *instance) missingClaims(ctx context.Context, client kubernetes.Interface) (n int, err error) {
	claims := i.informers.Resource().V1().ResourceClaims()
	if !claims.Informer().HasSynced() {
		return 0, nil
	}
	options := metav1.ListOptions{Limit: catchUpPage}
	for {
		list, err := client.ResourceV1().ResourceClaims(metav1.NamespaceAll).List(ctx, options)
		if err != nil {
			return 0, err
		}
		for _, c := range list.Items {
			known, err := claims.Lister().ResourceClaims(c.Namespace).Get(c.Name)
			if c.Status.Allocation != nil && (err != nil || known.Status.Allocation == nil) {
				n++
			}
		}
		if options.Continue = list.Continue; options.Continue == "" {
			return n, nil
		}
	}
}
