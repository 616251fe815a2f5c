package usage

import (
	"math"

	"k8s.io/utils/ptr"

	"gnnsched/internal/cluster"
)

const (
	// fitFrom is the time for which a node must have been measured, in seconds, before its samples count. Rates over two
	// minutes are too low until then.
	fitFrom = 120.0

	fitHalfLife = 6 * 3600.0 // seconds in which a sample loses half its weight
	fitSamples  = 20         // that a curve needs at least
	fitSpread   = 0.05       // standard deviation of the CPU in use, as a share, that a curve needs at least
	fitStep     = 0.02       // a curve must move by this share of the watts at full load to replace the present one

	// usualFull is a machine's possible power at full load, in watts, even if its model is lower. The default model depends on the hardware
	// threads only.
	usualFull = 500
)

// powerState is the source of a node's power model.
type powerState string

// The states. In all but the first, the node's annotation or the default model counts. The others are the reasons of degradation.
const (
	powerCalibrated powerState = "calibrated" // the machine's curve follows from measured watts
	powerGathering  powerState = "gathering"  // the samples are too few, or of too similar use, for a curve
	powerGPU        powerState = "gpu"        // the node has GPUs, whose part of the watts is not known
)

var powerStates = []powerState{
	powerCalibrated, powerGathering, powerGPU, powerState(usageAbsent), powerState(usageStale), powerState(usageInvalid),
	powerState(usageFailed),
}

// measured reports whether there are fresh watts.
func (s powerState) measured() bool { return s == powerCalibrated || s == powerGathering }

// powerHistory holds the measurements of a node's power. Its size is fixed.
type powerHistory struct {
	declared cluster.PowerModel // that fit and model go by
	fit      powerFit
	fitted   float64             // time of the last sample in fit
	since    float64             // start of the samples without a gap
	at       float64             // time of the last sample
	watts    float64             // of the last sample
	model    *cluster.PowerModel // in use; nil: the node's annotation or the default
	state    powerState
}

// powerOutcome is a measurement's effect on the power models.
type powerOutcome struct {
	Nodes    map[powerState]int
	Lost     map[powerState][]string // nodes whose watts were measured until now, by the new state
	Measured float64                 // watts of the nodes with fresh ones
	Modelled float64                 // the same nodes' power by the models in use
}

// observeWatts pairs the watts of nodes with the CPU that they use, and adjusts their curves. invalid returns the nodes
// with values that cannot be right.
func (s *store) observeWatts(m *measurement, now float64, known map[string]nodeInfo, out *outcome) (invalid map[string]bool) {
	watts, infos := map[string]float64{}, map[string]nodeInfo{}
	invalid = map[string]bool{}
	for _, x := range m.Watts {
		n, is := find(known, x.Names)
		switch model := n.machine(); {
		case !is:
			out.Unknown++
		case n.Allocatable.GPU > 0: // see judgePower
		case !(x.Value > 0 && x.Value <= absurd*max(model.Full, usualFull)): // also refuses NaN
			out.Rejected++
			invalid[n.Name] = true
		default:
			watts[n.Name], infos[n.Name] = max(watts[n.Name], x.Value), n
		}
	}
	for name, w := range watts {
		h := s.node(name)
		cpu, at := h.series[cluster.UsedCPU], h.measured[cluster.UsedCPU]
		if cpu == nil || at <= h.power.at || now-at > s.config.MaxAge.Seconds() {
			continue // it has no matching use
		}
		n := infos[name]
		if at-h.power.at > s.config.MaxAge.Seconds() {
			h.power.since = at
		}
		h.power.follow(n.machine())
		h.power.add(at, cpu.last()/float64(max(n.Allocatable.MilliCPU, 1)), w)
	}
	return invalid
}

// follow drops the curve if another model is declared than before: its samples were placed by the form of that one.
func (p *powerHistory) follow(declared cluster.PowerModel) {
	if !p.declared.Equal(&declared) {
		p.declared, p.fit, p.model = declared, powerFit{}, nil
	}
}

// add takes in a sample. used is the share of the CPU in use.
func (p *powerHistory) add(at, used, watts float64) {
	declared := p.declared
	asleep := declared.Sleep != nil && watts < (*declared.Sleep+declared.Idle)/2 // which is no point of the curve
	if !asleep && at-p.since >= fitFrom {
		p.fit.add(at-p.fitted, shape(&declared, used), watts)
		p.fitted = at
	}
	p.at, p.watts = at, watts
	idle, full, fits := p.fit.line()
	if !fits {
		p.model = nil
		return
	}
	if m := p.model; m == nil || max(math.Abs(m.Idle-idle), math.Abs(m.Full-full)) > fitStep*m.Full {
		p.model = withPoints(&declared, idle, full)
	}
}

// shape returns where between idle and full a machine is at a use, by the form of its declared curve.
func shape(m *cluster.PowerModel, used float64) float64 {
	if m.Full <= m.Idle {
		return max(min(used, 1), 0)
	}
	return (m.At(used) - m.Idle) / (m.Full - m.Idle)
}

// withPoints returns a model with the form of another between the given watts. It is nil if no machine can be like that.
func withPoints(form *cluster.PowerModel, idle, full float64) *cluster.PowerModel {
	m := &cluster.PowerModel{Idle: idle, Full: full}
	if form.Full > form.Idle {
		for _, x := range form.Curve {
			m.Curve = append(m.Curve, max(min(idle+(x-form.Idle)/(form.Full-form.Idle)*(full-idle), full), 0))
		}
	}
	if form.Sleep != nil {
		m.Sleep = new(min(*form.Sleep, idle))
	}
	if m.Validate() != nil {
		return nil
	}
	return m
}

// judgePower chooses the model by which a node's power counts, and notes it. otherwise is the reason if the source gave no usable watts;
// empty if it simply gave none.
func (s *store) judgePower(n nodeInfo, now float64, otherwise degradation, out *powerOutcome) {
	h := s.node(n.Name)
	p, before := &h.power, h.power.state
	p.follow(n.machine())
	switch fresh := p.at > 0 && now-p.at <= s.config.MaxAge.Seconds(); {
	case n.Allocatable.GPU > 0:
		p.state = powerGPU
	case fresh && p.model != nil:
		p.state = powerCalibrated
	case fresh:
		p.state = powerGathering
	case otherwise != "":
		p.state = powerState(otherwise)
	case p.at == 0:
		p.state = powerState(usageAbsent)
	default:
		p.state = powerState(usageStale)
	}
	out.Nodes[p.state]++
	switch {
	case p.state.measured():
		model := ptr.Deref(p.model, n.machine())
		out.Measured += p.watts
		out.Modelled += model.At(h.series[cluster.UsedCPU].last() / float64(max(n.Allocatable.MilliCPU, 1)))
	case before.measured():
		p.model = nil // the next good sample makes a new one
		out.Lost[p.state] = append(out.Lost[p.state], n.Name)
	}
}

// machine returns the power model of a node's machine without measurements.
func (n nodeInfo) machine() cluster.PowerModel {
	return cluster.MachinePower(&cluster.Node{Allocatable: n.Allocatable, Power: n.Power})
}

// powerFit is the line of least squares through watts over use, each sample weighted by its age.
type powerFit struct {
	samples          int
	weight           float64
	use, watts       float64 // means
	squares, product float64 // sums of the squared deviations of use, and of the products of both deviations
}

// add takes in a sample that came the given seconds after the last.
func (f *powerFit) add(after, use, watts float64) {
	keep := math.Exp2(-max(after, 0) / fitHalfLife)
	f.samples = min(f.samples+1, fitSamples)
	f.weight = keep*f.weight + 1
	du, dw := use-f.use, watts-f.watts
	f.use += du / f.weight
	f.watts += dw / f.weight
	f.squares = keep*f.squares + du*(use-f.use)
	f.product = keep*f.product + du*(watts-f.watts)
}

// line returns the watts at use 0 and 1. Idle is at least 0 and full at least idle: if the best line violates this, it returns the best
// line that does not. fits is false if the samples do not suffice.
func (f *powerFit) line() (idle, full float64, fits bool) {
	if f.samples < fitSamples || f.squares < fitSpread*fitSpread*f.weight {
		return 0, 0, false
	}
	slope := f.product / f.squares
	switch idle = f.watts - slope*f.use; {
	case slope < 0:
		return f.watts, f.watts, true
	case idle < 0: // through the origin
		return 0, (f.product + f.weight*f.use*f.watts) / (f.squares + f.weight*f.use*f.use), true
	}
	return idle, idle + slope, true
}
