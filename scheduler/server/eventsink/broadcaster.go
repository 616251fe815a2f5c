package eventsink

import (
	"cmp"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes/scheme"
	eventsclient "k8s.io/client-go/kubernetes/typed/events/v1"
	"k8s.io/client-go/tools/events"
)

// Broadcaster is upstream's broadcaster of events with a sink.
type Broadcaster struct {
	events.EventBroadcasterAdapter // for the old recorder, which the leader election uses

	broadcaster events.EventBroadcaster
	sink        *sink
}

// NewBroadcaster returns a broadcaster whose recorders write through a client, except the old recorder, which
// remains that of old. It calls dropped for each event that it gives up, because 10,000 others wait already or
// the server could not be reached 12 times.
func NewBroadcaster(old events.EventBroadcasterAdapter, client eventsclient.EventsV1Interface, dropped func()) *Broadcaster {
	s := newSink(&events.EventSinkImpl{Interface: client}, dropped)
	return &Broadcaster{EventBroadcasterAdapter: old, broadcaster: events.NewBroadcaster(s), sink: s}
}

// StartRecordingToSink starts to write events. It ends with stop.
func (b *Broadcaster) StartRecordingToSink(stop <-chan struct{}) {
	b.EventBroadcasterAdapter.StartRecordingToSink(stop)
	b.broadcaster.StartRecordingToSink(stop)
	go b.sink.Run(wait.ContextForChannel(stop))
}

// NewRecorder returns a recorder of events for a scheduler, whose name they have as reporting controller.
func (b *Broadcaster) NewRecorder(scheduler string) events.EventRecorderLogger {
	return b.broadcaster.NewRecorder(scheme.Scheme, controller(scheduler))
}

// controller returns the scheduler's name, with dashes for what the API server refuses in a reporting controller: a pod may have
// any schedulerName, such as greedy:traffic+overload, but an event may not.
func controller(scheduler string) string {
	if len(validation.IsQualifiedName(scheduler)) == 0 {
		return scheduler
	}
	name := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '.', r == '_':
			return r
		}
		return '-'
	}, scheduler)
	name = strings.Trim(name[:min(len(name), validation.LabelValueMaxLength)], "-._")
	return cmp.Or(name, "gnnsched")
}

// Shutdown ends the broadcaster and its recorders.
func (b *Broadcaster) Shutdown() {
	b.EventBroadcasterAdapter.Shutdown()
	b.broadcaster.Shutdown()
}
