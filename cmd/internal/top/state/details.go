package state

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"gnnsched/scheduler/decision"
	"gnnsched/scheduler/plugin/learningcurve"
	"gnnsched/scheduler/shadow"
)

// Ask selects the details that a screen shows. The zero value asks for none.
type Ask struct {
	Node      string // the pods on this node
	Pods      bool   // all pods
	Pod       PodAsk
	Decisions bool // of all asked schedulers
	Placed    bool
	Pending   bool
	Events    bool
	Learning  bool // of one scheduler
	Shadow    bool // one shadow scheduler's findings
	Server    int  // index of the scheduler for Learning and Shadow
}

// PodAsk selects a pod and the decision about it to explain. The zero value selects none.
type PodAsk struct {
	Namespace, Name string
	Decision        *decision.Record // nil for the newest one of any scheduler
}

// Details holds the part of the cluster that few screens show. Only the requested fields are set.
type Details struct {
	Node    string
	Pods    []ListedPod // the pods on Node, or all
	Pod     *PodDetails // nil unless Ask.Pod names one
	Cards   []Card
	Pending []PendingPod // all of them, the oldest first

	Decisions []Decision // the newest first
	Silent    []Silent   // the schedulers that told none, or no newer ones
	Placed    []Placed

	Events    []Event // the newest first
	EventsErr error

	Learning    learningcurve.Samples // no times: no profile of the scheduler learns
	LearningErr error                 // why there are none, or no newer ones

	Shadow    shadow.Live // no version: nothing is known
	ShadowErr error       // why nothing is known, or nothing newer
}

// Decision is a decision that a scheduler told, or a pod that the API says is bound.
type Decision struct {
	decision.Record
	Server  string // the scheduler that reported it; empty if there is only one
	Counted bool   // reported by no scheduler: the pod is bound, and Profile is its schedulerName
}

// Silent is a scheduler that does not answer.
type Silent struct {
	Server string // empty if there is only one
	Err    error
}

// Event is an event of the cluster about an object.
type Event struct {
	Time    time.Time `json:"time"` // of the last occurrence
	Type    string    `json:"type"` // Normal, Warning
	Reason  string    `json:"reason"`
	Object  string    `json:"object"` // kind and name
	From    string    `json:"from"`   // the reporter
	Message string    `json:"message"`
	Count   int       `json:"count"`
}

const (
	// eventsInterval is the shortest time between two lists of events, which the API server does not cache.
	eventsInterval = 5 * time.Second
	// mostEvents bounds the listed events. The API server sorts by name, so with more events the newest may be missing.
	mostEvents = 5000
)

// allEvents asks for all events.
func allEvents(client kubernetes.Interface) func(context.Context) ([]Event, error) {
	return func(ctx context.Context) ([]Event, error) {
		return listEvents(ctx, client, metav1.NamespaceAll, metav1.ListOptions{Limit: mostEvents})
	}
}

// listEvents lists events, the newest first.
func listEvents(ctx context.Context, client kubernetes.Interface, namespace string, o metav1.ListOptions) ([]Event, error) {
	list, err := client.CoreV1().Events(namespace).List(ctx, o)
	if err != nil {
		return nil, fmt.Errorf("list the events: %s", reason(err))
	}
	events := make([]Event, len(list.Items))
	for i := range list.Items {
		events[i] = eventOf(&list.Items[i])
	}
	slices.SortStableFunc(events, func(a, b Event) int { return cmp.Or(b.Time.Compare(a.Time), strings.Compare(a.Object, b.Object)) })
	return events, nil
}

// eventOf converts an event of either API: the older has a count and a last time, the newer a series.
func eventOf(e *v1.Event) Event {
	out := Event{
		Time: e.LastTimestamp.Time, Type: Printable(e.Type), Reason: Printable(e.Reason), Message: Printable(e.Message),
		Object: Printable(e.InvolvedObject.Kind + " " + e.InvolvedObject.Name),
		From:   Printable(cmp.Or(e.ReportingController, e.Source.Component)),
		Count:  max(int(e.Count), 1),
	}
	if ns := e.InvolvedObject.Namespace; ns != "" {
		out.Object = Printable(e.InvolvedObject.Kind + " " + ns + "/" + e.InvolvedObject.Name)
	}
	for _, t := range []time.Time{e.EventTime.Time, e.CreationTimestamp.Time} {
		if out.Time.IsZero() {
			out.Time = t
		}
	}
	if e.Series != nil {
		out.Time, out.Count = e.Series.LastObservedTime.Time, max(int(e.Series.Count), 1)
	}
	return out
}
