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
)

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
