package history

import (
	"testing"

	"gnnsched/workload/record"
)

// A pod with a container that finished early stays until it is deleted.
func TestLeave(t *testing.T) {
	for _, c := range []struct {
		name  string
		pod   pod
		ended int64
		end   string
	}{
		{"seen last", pod{seen: 500}, 500, record.Deleted},
		{"never seen", pod{}, 600, record.Deleted},
		{"deletion after it was seen", pod{seen: 500, deletion: 550}, 550, record.Deleted},
		{"a container finished", pod{seen: 500, row: record.Pod{Ended: 100}}, 500, record.Deleted},
		{"succeeded", pod{seen: 500, row: record.Pod{Ended: 100, End: record.Succeeded}}, 100, record.Succeeded},
	} {
		if c.pod.leave(600); c.pod.row.Ended != c.ended || c.pod.row.End != c.end {
			t.Errorf("%s: %d, %s", c.name, c.pod.row.Ended, c.pod.row.End)
		}
	}
}
