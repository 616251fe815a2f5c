package kube

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"gnnsched/internal/exit"
)

// TrafficAnnotation is a pod's annotation with its traffic to other workloads of its namespace, such as "api=3e6,db=1e6"; see Traffic.
const TrafficAnnotation = "gnnsched.io/traffic"

// MaxTraffic is the longest TrafficAnnotation that is read, in bytes.
const MaxTraffic = 4 << 10

// The other bounds of a TrafficAnnotation.
const (
	maxFlows       = 64
	maxTrafficRate = 1e12 // bytes a second, of all entries together
)

// Flow is the traffic of one pod with all pods of a workload together.
type Flow struct {
	To   string  // name of the workload, without its kind
	Rate float64 // bytes a second, both directions together
}

// Traffic parses the text of a TrafficAnnotation: for each workload its name, = and at least 1 byte a second, separated by
// commas. All together have at most 1e12 bytes a second. Errors are short and free of control characters.
func Traffic(text string) (flows []Flow, err error) {
	if len(text) > MaxTraffic {
		return nil, fmt.Errorf("annotation %s has %d bytes, more than %d", TrafficAnnotation, len(text), MaxTraffic)
	}
	if strings.Count(text, ",") >= maxFlows {
		return nil, fmt.Errorf("annotation %s has more than %d entries", TrafficAnnotation, maxFlows)
	}
	seen, all := map[string]bool{}, 0.0
	for entry := range strings.SplitSeq(text, ",") {
		f, err := flow(strings.TrimSpace(entry))
		if err == nil && seen[f.To] {
			err = errors.New("the workload is named twice")
		}
		if all += f.Rate; err == nil && all > maxTrafficRate {
			err = fmt.Errorf("all up to here have more than %g bytes a second", maxTrafficRate)
		}
		if err != nil {
			return nil, fmt.Errorf("annotation %s: entry %s: %w", TrafficAnnotation, exit.Quote(entry), err)
		}
		seen[f.To] = true
		flows = append(flows, f)
	}
	return flows, nil
}

// flow parses one entry.
func flow(entry string) (Flow, error) {
	name, rate, ok := strings.Cut(entry, "=")
	if !ok {
		return Flow{}, errors.New("want NAME=RATE, such as api=3e6")
	}
	if len(validation.IsDNS1123Subdomain(name)) > 0 {
		return Flow{}, errors.New("no workload can have this name")
	}
	x, err := strconv.ParseFloat(rate, 64)
	if err != nil || !(x >= 1 && x <= maxTrafficRate) { // also refuses NaN
		return Flow{}, fmt.Errorf("the rate is not 1 to %g bytes a second", maxTrafficRate)
	}
	return Flow{name, x}, nil
}
