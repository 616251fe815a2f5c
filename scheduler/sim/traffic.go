package sim

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"

	"gnnsched/internal/choice"
	"gnnsched/internal/cluster"
	"gnnsched/internal/exit"
	"gnnsched/scheduler/objective"
	"gnnsched/workload"
)

// Traffic says what pods send each other, and what network the nodes have. A service is a shape. In YAML:
//
//	traffic:
//	  apps: 8
//	  racks: 4
//	  flows:
//	  - {from: web, to: api, rate: 2e6}
//	  - {from: api, to: db, rate: 8e6}
//	  network:
//	    node: {latency: 0.1, bandwidth: 1.25e9}
//	    rack: {latency: 0.3, bandwidth: 2.5e9}
//	    zone: {latency: 1, price: 0.01, bandwidth: 1e9}
//	    between: [{zones: [a, c], latency: 4, price: 0.02}]
type Traffic struct {
	// Apps is the number of applications. The deployments of a service are dealt to them in turn, and only services of
	// one application talk to each other. Default: 1.
	Apps IntRange `json:"apps,omitzero"`
	// Racks is the number of racks in each zone. The nodes of a zone are dealt to them in turn. Default: 1.
	Racks   IntRange      `json:"racks,omitzero"`
	Flows   []Flow        `json:"flows"`         // who talks to whom, within an application
	Network cluster.Links `json:"network"`       // latencies in ms, prices of a gigabyte, bandwidths in bytes a second; 0: no limit
	Vary    Variation     `json:"vary,omitzero"` // factors that each episode draws
}

// Flow is the traffic of each pod of one service with each deployment of another service, or of its own, in its
// application. The replicas of that deployment get equal parts.
type Flow struct {
	// From and To are shapes.
	From string  `json:"from"`
	To   string  `json:"to"`
	Rate float64 `json:"rate"` // bytes a second, both directions together
}

// The bounds of Traffic.
const (
	maxApps  = 10_000
	maxRacks = 1000  // of a zone
	maxRate  = 1e12  // bytes a second
	maxFlows = 1_000 // entries of the matrix
)

// validateTraffic checks the traffic of the configuration.
func (c Config) validateTraffic(bad *exit.Faults) {
	if c.Traffic == nil {
		for _, w := range c.Objective {
			bad.If(objective.Talks(w.Term), "objective: %s is about traffic, but the scenario has none; give traffic", w.Term.Name())
		}
		return
	}
	t := c.Traffic
	t.Apps.validate("traffic.apps", 0, maxApps, bad)
	t.Racks.validate("traffic.racks", 0, maxRacks, bad)
	t.Vary.validate(t.Network, bad)
	bad.If(c.Trace != nil || c.OpenB != nil || c.Requests != nil, "traffic: only pods of shapes talk; leave trace, openb and requests out")
	bad.If(c.Initial > 0, "traffic: the pods of initial talk to nobody; leave initial out")
	bad.If(len(t.Flows) == 0 || len(t.Flows) > maxFlows, "traffic.flows: there are %d, want 1 to %d", len(t.Flows), maxFlows)
	for i, f := range t.Flows {
		at := fmt.Sprintf("traffic.flows[%d]", i)
		for _, end := range []struct{ field, name string }{{"from", f.From}, {"to", f.To}} {
			bad.If(!slices.ContainsFunc(c.Shapes, func(s workload.Shape) bool { return s.Name == end.name }),
				"%s.%s: %w", at, end.field, choice.Unknown("shape", end.name,
					choice.Names(c.Shapes, func(s workload.Shape) string { return s.Name })))
		}
		bad.If(!(f.Rate >= 1 && f.Rate <= maxRate), "%s.rate: %v is not 1 to %g bytes a second", at, f.Rate, maxRate)
		bad.If(slices.ContainsFunc(t.Flows[:i], func(x Flow) bool { return x.From == f.From && x.To == f.To }),
			"%s: an entry before has the same from and to; add up the rates", at)
	}
	bad.In("traffic.network: ", t.Network.Validate(c.zoneNames()))
}

// zoneNames returns the names of the zones that nodes may be in. It is never nil.
func (c Config) zoneNames() []string {
	names := []string{}
	for _, s := range c.Sizes {
		names = append(names, s.Zone)
	}
	for _, p := range c.Pools {
		names = append(names, p.Zone)
	}
	names = slices.DeleteFunc(names, func(z string) bool { return z == "" })
	for i := range max(min(c.Zones.Max, maxNodes), 0) {
		names = append(names, zoneName(i))
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// trafficState plays the traffic of an episode.
type trafficState struct {
	quiet
	network  cluster.Links // of the episode
	traffic  *cluster.Traffic
	links    float64     // with a limit
	partners [][]partner // by service: the services that it talks to
	service  []int32     // by deployment: its service; -1 if it talks to nobody
	group    []int32     // by deployment: its service and application
	running  [][]member  // by group
	totals   cluster.Flows
	over     float64 // link-time over the bandwidth
	time     float64
}

// partner is a service that another one talks to. The rates are of a pod of the other service.
type partner struct {
	service int32
	to      float64 // that it exchanges with each deployment of the partner
	from    float64 // that each pod of the partner exchanges with the deployment of the other service
}

// member is a running pod.
type member struct {
	deployment, row int32
}

func newTrafficState(e *Env) *trafficState {
	c := e.cfg.Traffic.draw(e.seed, e.snapshot.Nodes)
	c.deal(e.snapshot.Nodes)
	t := &trafficState{network: c.Network}
	numbers := numbering[string]{}
	for _, f := range c.Flows {
		from, to := numbers.of(f.From), numbers.of(f.To)
		for len(t.partners) < len(numbers) {
			t.partners = append(t.partners, nil)
		}
		t.link(from, to).to += f.Rate
		t.link(to, from).from += f.Rate
	}
	apps := max(c.Apps.Min, 1)
	dealt := make([]int, len(numbers))
	for i := range e.arrivals.deployments {
		service, talks := numbers[e.arrivals.deployments[i].kind]
		if !talks {
			t.service, t.group = append(t.service, -1), append(t.group, -1)
			continue
		}
		t.service = append(t.service, service)
		t.group = append(t.group, t.groupOf(service, dealt[service]%apps))
		dealt[service]++
	}
	t.running = make([][]member, len(numbers)*apps)
	return t
}

// link returns what a service exchanges with another one.
func (t *trafficState) link(a, b int32) *partner {
	i := slices.IndexFunc(t.partners[a], func(p partner) bool { return p.service == b })
	if i < 0 {
		i = len(t.partners[a])
		t.partners[a] = append(t.partners[a], partner{service: b})
	}
	return &t.partners[a][i]
}

// groupOf returns the group of a service in an application.
func (t *trafficState) groupOf(service int32, app int) int32 {
	return int32(app*len(t.partners)) + service
}

// deal deals the nodes of each zone to its racks.
func (c *Traffic) deal(nodes []*cluster.Node) {
	seen := map[string]int{}
	for _, n := range nodes {
		n.Rack = "rack-" + strconv.Itoa(seen[n.Zone]%max(c.Racks.Min, 1))
		seen[n.Zone]++
	}
}

func (t *trafficState) track(e *Env) {
	t.traffic = cluster.NewTraffic(cluster.NewNetwork(t.network, e.snapshot.Nodes))
	t.links = float64(max(t.traffic.Links(), 1))
	for _, n := range e.snapshot.Nodes {
		n.Traffic = t.traffic
	}
	for i := range t.running {
		t.running[i] = t.running[i][:0]
	}
	e.snapshot.Peers = nil
	for pod, row := range e.on {
		if row >= 0 {
			e.snapshot.Peers = t.peers(e, int32(pod), e.snapshot.Peers[:0])
			t.placed(e, int32(pod), row)
		}
	}
}

// peers appends to buffer what a pod exchanges with the running pods, by ascending row.
func (t *trafficState) peers(e *Env, pod int32, buffer []cluster.Peer) []cluster.Peer {
	d := e.arrivals.pods[pod]
	service := t.service[d]
	if service < 0 {
		return buffer
	}
	replicas, app := float64(e.deployment(pod).replicas), t.group[d]-service
	for _, p := range t.partners[service] {
		for _, m := range t.running[app+p.service] {
			rate := math.Round(p.to/float64(e.arrivals.deployments[m.deployment].replicas) + p.from/replicas)
			buffer = cluster.AddPeer(buffer, cluster.Peer{Row: m.row, Pods: 1, Rate: rate})
		}
	}
	return buffer
}

// beyond appends to buffer the running pods two steps away from a pod in the matrix, by ascending row (cluster.Snapshot.Beyond).
// It does not matter whether a service between them runs.
func (t *trafficState) beyond(e *Env, pod int32, buffer []cluster.Peer) []cluster.Peer {
	d := e.arrivals.pods[pod]
	service := t.service[d]
	if service < 0 {
		return buffer
	}
	app := t.group[d] - service
	for k, p := range t.partners[service] {
		var pods int
		for _, q := range t.partners[p.service] {
			if !t.talk(service, q.service) {
				pods += len(t.running[app+q.service])
			}
		}
		for _, q := range t.partners[p.service] {
			if t.talk(service, q.service) {
				continue
			}
			count := int32(1)
			if slices.ContainsFunc(t.partners[service][:k], func(before partner) bool { return t.talk(before.service, q.service) }) {
				count = 0 // counted already
			}
			for _, m := range t.running[app+q.service] {
				buffer = cluster.AddPeer(buffer, cluster.Peer{Row: m.row, Pods: count, Rate: (p.to + p.from) / float64(pods)})
			}
		}
	}
	return buffer
}

// talk reports whether two services exchange data.
func (t *trafficState) talk(a, b int32) bool {
	return slices.ContainsFunc(t.partners[a], func(p partner) bool { return p.service == b })
}

// pends writes the peers of the pending pod into the snapshot.
func (t *trafficState) pends(e *Env) {
	e.snapshot.Peers = t.peers(e, e.pending, e.snapshot.Peers[:0])
	e.snapshot.Beyond = t.beyond(e, e.pending, e.snapshot.Beyond[:0])
}

// placed starts the pod whose peers are in the snapshot.
func (t *trafficState) placed(e *Env, pod, row int32) {
	t.traffic.Place(row, e.snapshot.Peers)
	if d := e.arrivals.pods[pod]; t.service[d] >= 0 {
		g := &t.running[t.group[d]]
		*g = append(*g, member{d, row})
	}
}

func (t *trafficState) left(e *Env, pod, row int32) {
	if t.service[e.arrivals.pods[pod]] < 0 {
		return
	}
	d := e.arrivals.pods[pod]
	g := &t.running[t.group[d]]
	i, last := slices.Index(*g, member{d, row}), len(*g)-1
	(*g)[i] = (*g)[last]
	*g = (*g)[:last]
	e.snapshot.Peers = t.peers(e, pod, e.snapshot.Peers[:0])
	t.traffic.Remove(row, e.snapshot.Peers)
}

func (t *trafficState) pass(e *Env, until float64) {
	f, time := &t.traffic.Flows, until-e.now
	t.totals.Rate += time * f.Rate
	t.totals.Distance += time * f.Distance
	t.totals.Latency += time * f.Latency
	t.totals.Price += time * f.Price
	t.totals.SameNode += time * f.SameNode
	t.totals.Zones += time * f.Zones
	t.totals.Excess += time * f.Excess
	t.over += time * float64(f.Over) / t.links
	t.time += time
}

func (t *trafficState) copyFor(e *Env, old []part) part {
	c := reused[trafficState](old)
	own, running := cmp.Or(c.traffic, &cluster.Traffic{}), slices.Grow(c.running[:0], len(t.running))[:len(t.running)]
	t.traffic.CopyTo(own)
	for i, g := range t.running {
		running[i] = append(running[i][:0], g...)
	}
	*c = *t
	c.traffic, c.running = own, running
	for _, n := range e.snapshot.Nodes {
		n.Traffic = own
	}
	return c
}

// TrafficOutcome describes what the pods of an episode exchanged, as means over the traffic of the time after the fill.
type TrafficOutcome struct {
	Distance  float64 `json:"distance"`  // of a byte, as a share of the farthest
	Latency   float64 `json:"latency"`   // milliseconds of a byte
	Price     float64 `json:"price"`     // of a gigabyte
	SameNode  float64 `json:"sameNode"`  // share of the bytes that need no link
	Zones     float64 `json:"zones"`     // share of the bytes that go between zones
	Excess    float64 `json:"excess"`    // traffic over the bandwidth of links / all traffic
	Overload  float64 `json:"overload"`  // share of link-time in which a link with a limit has more than its bandwidth
	BytesPerS float64 `json:"bytesPerS"` // that all pods exchange, mean over time
}

func (t *trafficState) report(_ *Env, out *Outcome) {
	sums, over, time := t.totals, t.over, t.time
	if time == 0 {
		sums, over, time = t.traffic.Flows, float64(t.traffic.Over)/t.links, 1
	}
	all := max(sums.Rate, 1e-9)
	out.Traffic = &TrafficOutcome{
		Distance: sums.MeanDistance(), Latency: sums.Latency / all, Price: sums.Price / all, SameNode: sums.SameNode / all,
		Zones: sums.Zones / all, Excess: sums.ExcessShare(), Overload: over / time, BytesPerS: sums.Rate / time,
	}
}
