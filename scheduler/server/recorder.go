package server

import (
	"cmp"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/tools/events"
)

// broadcaster is upstream's broadcaster of events, for schedulers of any name.
type broadcaster struct{ events.EventBroadcasterAdapter }

// NewRecorder returns a recorder of events for a scheduler, whose name they have as reporting controller.
func (b broadcaster) NewRecorder(scheduler string) events.EventRecorderLogger {
	return b.EventBroadcasterAdapter.NewRecorder(controller(scheduler))
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
