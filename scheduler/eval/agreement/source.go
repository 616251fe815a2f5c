package agreement

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"gnnsched/scheduler/eval/testbed"
	measured "gnnsched/scheduler/usage"
)

// asked is the time between two measurements of the schedulers.
const asked = 5 * time.Second

// window is the window of Prometheus' rates. It is shorter than the default queries' window, because scenarios with usage are played faster
// than their pods would live. It holds at least two samples of the cluster.
const window = 3 * samplesApart

// usageSource returns where the profiles find measured usage: Prometheus, if the configuration has it, else the cluster's own
// metrics.k8s.io; nil for scenarios without usage. Call stop at the end.
func (c Config) usageSource(ctx context.Context, b *testbed.Bed) (source *measured.Config, stop func(), err error) {
	if c.Scenario.Usage == nil {
		return nil, func() {}, nil
	}
	source = &measured.Config{Source: measured.MetricsAPISource, Interval: metav1.Duration{Duration: asked}}
	if c.Prometheus == "" {
		return source, func() {}, nil
	}
	source.Source, source.Queries = measured.PrometheusSource, measured.QueriesOver(window)
	limits := c.Scenario.Usage.Limits()
	source.NetworkCapacity, source.DiskCapacity = quantity(limits.Network), quantity(limits.Disk)
	source.Address, stop, err = b.StartPrometheus(ctx, c.Prometheus)
	return source, stop, err
}

// quantity returns bytes a second; zero stands for the default.
func quantity(x float64) resource.Quantity {
	return *resource.NewQuantity(int64(x), resource.DecimalSI)
}
