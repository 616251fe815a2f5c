package trace

import (
	"io"

	"gnnsched/workload/trace/openb"
)

// openbFormat is a pod list of the openb trace.
type openbFormat struct{}

func (openbFormat) Name() string { return "openb" }

func (openbFormat) About() string { return "a pod list of the openb trace" }

// Matches also accepts node lists, because Read has the better error message for them.
func (openbFormat) Matches(columns []string) bool {
	return openb.IsPodList(columns) || openb.IsNodeList(columns)
}

func (openbFormat) Header() []string { return openb.PodColumns() }

func (f openbFormat) Read(r io.Reader, file string) (File, error) {
	pods, err := openb.ReadPods(r, file)
	if err != nil {
		return File{}, err
	}
	return File{Format: f, Arrivals: openb.Trace(pods), Pods: pods}, nil
}

func (openbFormat) Omits() []Property {
	return []Property{Limits, Labels, NodeSelector, Tolerations, Usage}
}
