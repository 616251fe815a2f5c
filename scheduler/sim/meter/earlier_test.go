package meter

import (
	"testing"

	"gnnsched/internal/cluster"
	"gnnsched/workload/usage"
)

// Earlier finds the mean and the extremes of models for which they are known.
func TestEarlier(t *testing.T) {
	m := &usage.Model{}
	m.Curves[usage.CPU] = usage.Day{Low: 1, High: 3, Period: day, Peak: 0}
	m.Curves[usage.Memory] = usage.Constant(1 << 30)
	u := Earlier(m, 0)
	near(t, "mean CPU", u.Measured[cluster.UsedCPU].Mean, 2000)
	near(t, "most CPU", u.Measured[cluster.UsedCPU].DayMax, 3000)
	near(t, "memory", u.Measured[cluster.UsedMemory].Mean, 1<<30)
	near(t, "deviation of memory", u.Measured[cluster.UsedMemory].Deviation, 0)
	near(t, "network", u.Measured[cluster.NetworkIn].Mean, 0)
	near(t, "most CPU with a limit", Earlier(m, 2500).Measured[cluster.UsedCPU].DayMax, 2500)
	job := &usage.Model{Work: 7200}
	job.Curves[usage.CPU] = &usage.Series{Step: jobAge, Scale: 1, Values: []float32{2, 9}}
	near(t, "CPU of a job's first hour", Earlier(job, 0).Measured[cluster.UsedCPU].Mean, 2000)
}
