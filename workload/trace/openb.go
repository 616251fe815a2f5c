package trace

import (
	"io"

	"gnnsched/workload/trace/openb"
)

// openbFormat is a pod list of the openb trace. It also takes node lists, because openb.ReadPods has the better error message for them.
var openbFormat = &Format{
	Name: "openb", About: "a pod list of the openb trace", header: openb.PodColumns(),
	omits:   []*property{limits, labels, nodeSelector, tolerations, used},
	matches: func(columns []string) bool { return openb.IsPodList(columns) || openb.IsNodeList(columns) },
	read: func(r io.Reader, file string) (File, error) {
		pods, err := openb.ReadPods(r, file)
		return File{Arrivals: openb.Trace(pods), Pods: pods}, err
	},
}
