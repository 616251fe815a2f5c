package trace

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"gnnsched/internal/cluster"
	"gnnsched/workload"
	"gnnsched/workload/trace/openb"
	"gnnsched/workload/usage"
)

// The cells of arrivals and plans. An empty cell has the value 0.
type (
	podCount  int     // pods
	cpuCell   int64   // thousandths of a core
	memCell   int64   // bytes
	gpuCell   int64   // devices
	timeCell  float64 // seconds
	actionTag workload.Action
	usageCell struct{ *usage.Model }
)

// noAction marks a row for a round in which the recorded program did nothing.
const noAction = actionTag(-1)

// actionWords maps the words in an action column, in lower case.
var actionWords = map[string]actionTag{
	"": actionTag(workload.Add), "add": actionTag(workload.Add), "create": actionTag(workload.Add),
	"deploy": actionTag(workload.Add), "apply": actionTag(workload.Add),
	"delete": actionTag(workload.Delete), "remove": actionTag(workload.Delete), "undeploy": actionTag(workload.Delete),
	"reset": actionTag(workload.Reset), "clear": actionTag(workload.Reset),
	"cluster_reset": actionTag(workload.Reset), "cluster-reset": actionTag(workload.Reset),
	"nothing": noAction, "none": noAction, "noop": noAction, "skip": noAction,
}

func (a actionTag) MarshalText() ([]byte, error) { return []byte(workload.Action(a).String()), nil }

func (a *actionTag) UnmarshalText(b []byte) error {
	v, ok := actionWords[strings.ToLower(string(b))]
	if !ok {
		return fmt.Errorf("%q is not an action: use add, delete, reset or nothing", b)
	}
	*a = v
	return nil
}

func (p podCount) MarshalText() ([]byte, error) {
	if p == 0 {
		return nil, nil
	}
	return []byte(strconv.Itoa(int(p))), nil
}

func (p *podCount) UnmarshalText(b []byte) error {
	n, err := strconv.Atoi(openb.Whole(string(b)))
	if err != nil || n < 0 || n > workload.MaxReplicas {
		return fmt.Errorf("%q is not a number of pods from 1 to %d", b, workload.MaxReplicas)
	}
	*p = podCount(n)
	return nil
}

func (c cpuCell) MarshalText() ([]byte, error) {
	if c == 0 {
		return nil, nil
	}
	return []byte(cluster.FormatCPU(int64(c))), nil
}

func (c *cpuCell) UnmarshalText(b []byte) error {
	n, err := cluster.ParseCPU(string(b))
	*c = cpuCell(n)
	return err
}

func (m memCell) MarshalText() ([]byte, error) {
	if m == 0 {
		return nil, nil
	}
	return []byte(cluster.FormatMemory(int64(m))), nil
}

func (m *memCell) UnmarshalText(b []byte) error {
	n, err := cluster.ParseMemory(string(b))
	*m = memCell(n)
	return err
}

// MarshalText returns no text for 0.
func (c gpuCell) MarshalText() ([]byte, error) {
	if c == 0 {
		return nil, nil
	}
	return strconv.AppendInt(nil, int64(c), 10), nil
}

func (c *gpuCell) UnmarshalText(b []byte) error {
	n, err := strconv.ParseInt(string(b), 10, 64)
	if err != nil || n < 0 || n > workload.MaxGPUs {
		return fmt.Errorf("%q is not a number of GPUs from 0 to %d", b, workload.MaxGPUs)
	}
	*c = gpuCell(n)
	return nil
}

func (u *usageCell) UnmarshalText(b []byte) error {
	if len(b) == 0 {
		return nil
	}
	u.Model = &usage.Model{}
	return u.Model.UnmarshalJSON(b)
}

func (c *timeCell) UnmarshalText(b []byte) error {
	x, err := strconv.ParseFloat(string(b), 64)
	if err != nil || !(math.Abs(x) < 1e12) {
		return fmt.Errorf("%q is not a time in seconds", b)
	}
	*c = timeCell(x)
	return nil
}
