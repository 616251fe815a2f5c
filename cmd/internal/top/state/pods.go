package state

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"

	"gnnsched/internal/choice"
	"gnnsched/internal/cluster"
	"gnnsched/internal/cluster/kube"
	"gnnsched/scheduler/decision"
)

// ListedPod is a pod that holds resources or waits for a node, with its requests.
type ListedPod struct {
	Namespace string
	Name      string
	Status    string // in kubectl's words: Running, Pending, Terminating, CrashLoopBackOff
	Node      string // empty while it waits for one
	Workload  string // Kind/name; empty without a controller
	Scheduler string
	CPU       int64 // millicores
	Memory    int64 // bytes
	GPU       int64 // thousandths of devices
	Devices   cluster.DeviceSet
	Held      []Held // by claims; their thousandths are in GPU
	Created   time.Time
}

// PodDetails holds the details of one pod.
type PodDetails struct {
	ListedPod
	Found bool // the pod is in the cluster and has not finished
	// Waits is why a pod without a node waits.
	Waits  string
	Events []Event // about the pod, the newest first

	Decision    *decision.Record // that Explained explains; nil if none is known
	Explained   string           // in sentences and tables
	DecisionErr error            // why no decision is known, or why it is not explained
	EventsErr   error
}

func (p *podSum) createdAt() time.Time {
	if p.created == 0 {
		return time.Time{}
	}
	return time.Unix(p.created, 0)
}

// PodsOn returns the pods on a node, by namespace and name.
func (c *Cluster) PodsOn(node string) []ListedPod {
	return c.pick(func(_ podKey, p *podSum) bool { return p.node != nil && p.node.Name == node })
}

// Pods returns all pods, by namespace and name.
func (c *Cluster) Pods() []ListedPod {
	return c.pick(func(podKey, *podSum) bool { return true })
}

// Pod returns a pod, and why it waits if it has no node; found is false if there is no such pod, or if it has finished.
func (c *Cluster) Pod(namespace, name string) (pod ListedPod, waits string, found bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.devices.count()
	k := key(namespace, name)
	p, found := c.pods[k]
	if !found {
		return ListedPod{Namespace: namespace, Name: name}, "", false
	}
	if w, waiting := c.pending[k]; waiting {
		waits = (&PendingPod{Reason: w.reason.Value(), Message: w.message.Value(), Needs: w.needs.Value()}).Why()
	}
	return c.listed(k, &p), waits, true
}

// pick returns the pods for which keep is true, by namespace and name.
func (c *Cluster) pick(keep func(podKey, *podSum) bool) []ListedPod {
	var out []ListedPod
	c.mu.Lock()
	c.devices.count()
	for k, p := range c.pods {
		if c.shows(k) && keep(k, &p) {
			out = append(out, c.listed(k, &p))
		}
	}
	c.mu.Unlock()
	slices.SortFunc(out, func(a, b ListedPod) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), CompareNatural(a.Name, b.Name))
	})
	return out
}

// listed returns a pod as lists show it. The caller has counted the devices and holds the lock.
func (c *Cluster) listed(k podKey, p *podSum) ListedPod {
	pod := ListedPod{
		Namespace: k.namespace.Value(), Name: k.name, Status: p.status.Value(), Workload: p.workload.Value(), Scheduler: p.scheduler.name,
		CPU: p.cpu, Memory: p.memory, GPU: p.gpu, Devices: p.devices, Created: p.createdAt(),
		Held: c.devices.held(k.namespace, p.claims),
	}
	if p.node != nil {
		pod.Node = p.node.Name
	}
	for _, h := range pod.Held {
		pod.GPU += h.Milli
	}
	return pod
}

// Pod holds the values that the sums need. An API pod is some thirty times as large.
type Pod struct {
	Namespace string
	Name      string
	Node      string // empty while it is pending
	Status    string // in kubectl's words: Running, Pending, Terminating, CrashLoopBackOff
	Scheduler string
	Workload  string            // its controller, as Kind/name; empty without one
	CPU       int64             // effective request, millicores
	Memory    int64             // effective request, bytes
	GPU       int64             // effective request, thousandths of a device
	Devices   cluster.DeviceSet // the GPUs that the pod uses; empty if it does not say
	Claims    []string          // names of its ResourceClaims; nil for none
	Created   time.Time
	Done      bool      // Succeeded or Failed, so that it holds no resources
	Scheduled time.Time // when PodScheduled became true, to the second; else zero
	Reason    string    // from PodScheduled while it is false
	Message   string
	Needs     string // of a pending pod: the node labels that it selects; see cluster.Pod.Where
}

// podOf converts an API pod. It computes the effective request as kube-scheduler does, from
// containers, sidecars, init containers, overhead, pod-level resources and in-place resizes.
func podOf(p *v1.Pod) Pod {
	requests := kube.Requests(p)
	out := Pod{
		Namespace: p.Namespace, Name: p.Name, Node: p.Spec.NodeName, Status: Printable(statusOf(p)), Scheduler: Printable(p.Spec.SchedulerName),
		Workload: Printable(kube.Workload(p)),
		CPU:      requests.MilliCPU, Memory: requests.Memory,
		Created: p.CreationTimestamp.Time,
		Done:    kube.Finished(p),
	}
	gpu, _ := kube.RunningWith(p, requests) // if annotations contradict the resources, the resources count
	out.GPU, out.Devices = gpu.Requests.TotalGPUMilli(), gpu.Devices
	out.Claims = kube.ClaimNames(p)
	if p.Status.ExtendedResourceClaimStatus != nil { // a claim holds its GPUs
		out.GPU, out.Devices = 0, 0
	}
	if out.Node == "" {
		plain, _ := kube.Pod(p)
		out.Needs = Printable(plain.Where())
	}
	for i := range p.Status.Conditions {
		c := &p.Status.Conditions[i]
		if c.Type != v1.PodScheduled {
			continue
		}
		if c.Status == v1.ConditionTrue {
			out.Scheduled = c.LastTransitionTime.Time
		} else {
			out.Reason, out.Message = Printable(c.Reason), Printable(c.Message)
		}
	}
	return out
}

// statusOf returns a pod's status in kubectl's words: that it is being deleted, why a container of it does not run, or else its phase.
func statusOf(p *v1.Pod) string {
	if p.DeletionTimestamp != nil {
		return "Terminating"
	}
	for _, containers := range [][]v1.ContainerStatus{p.Status.InitContainerStatuses, p.Status.ContainerStatuses} {
		for i := range containers {
			s := &containers[i].State
			switch {
			case s.Waiting != nil && s.Waiting.Reason != "" && s.Waiting.Reason != "PodInitializing":
				return s.Waiting.Reason
			case s.Terminated != nil && s.Terminated.ExitCode != 0:
				return cmp.Or(s.Terminated.Reason, "Error")
			}
		}
	}
	return cmp.Or(p.Status.Reason, string(p.Status.Phase))
}

// Placed sums up the bound pods of one scheduler. It comes from the API, so it also covers schedulers that cannot be asked for their
// decisions, such as a stock kube-scheduler.
type Placed struct {
	Scheduler string
	Bound     int
	Nodes     int        // different nodes that the pods are on
	Most      int        // pods on the node with the most of them
	Last      []Decision // the pods that were bound last, the newest first; at most decision.AnswerSize
}

// Placed returns the bound pods of each scheduler, the one with the most pods first.
func (c *Cluster) Placed() []Placed {
	all := c.placements()
	out := make([]Placed, 0, len(all))
	for _, pods := range all {
		p := Placed{Scheduler: pods[0].Profile, Bound: len(pods)}
		on := map[string]int{}
		for i := range pods {
			on[pods[i].Node]++
			p.Most = max(p.Most, on[pods[i].Node])
		}
		p.Nodes = len(on)
		slices.SortFunc(pods, func(a, b placement) int {
			return cmp.Or(cmp.Compare(b.bound, a.bound), strings.Compare(a.Namespace, b.Namespace), CompareNatural(a.Name, b.Name))
		})
		for i := range pods[:min(len(pods), decision.AnswerSize)] {
			p.Last = append(p.Last, pods[i].decision())
		}
		out = append(out, p)
	}
	slices.SortFunc(out, func(a, b Placed) int {
		return cmp.Or(cmp.Compare(b.Bound, a.Bound), strings.Compare(a.Scheduler, b.Scheduler))
	})
	return out
}

// placement is a pod on a node.
type placement struct {
	Profile, Namespace, Name, Node string
	bound                          int64 // Unix time in nanoseconds; 0 if it is not known
}

func (p *placement) decision() Decision {
	d := Decision{Counted: true, Record: decision.Record{
		Profile: p.Profile, Namespace: p.Namespace, Pod: p.Name, Node: p.Node, Outcome: decision.Bound,
	}}
	if p.bound != 0 {
		d.Time = time.Unix(0, p.bound)
	}
	return d
}

// placements returns the bound pods by scheduler. It does no more, because it holds the lock.
func (c *Cluster) placements() map[*schedulerSum][]placement {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := map[*schedulerSum][]placement{}
	for k, p := range c.pods {
		if p.node != nil {
			all[p.scheduler] = append(all[p.scheduler], placement{p.scheduler.name, k.namespace.Value(), k.name, p.node.Name, p.bound})
		}
	}
	return all
}

// Why says on one line which node labels the pod needs, and why it waits. Of kube-scheduler's message it keeps the reasons, with the
// number of nodes that each excludes.
func (p *PendingPod) Why() string {
	if p.Needs != "" {
		return "needs " + p.Needs + ": " + p.reason()
	}
	return p.reason()
}

func (p *PendingPod) reason() string {
	switch {
	case p.Reason == "" && p.Message == "":
		return "no scheduler has tried it yet"
	case p.Message == "":
		return p.Reason
	}
	msg := Excluded(p.Message)
	if p.Reason == "Unschedulable" || p.Reason == "" {
		return msg
	}
	return p.Reason + ": " + msg
}

// Excluded keeps only the reasons of a kube-scheduler message, the most frequent first, because a narrow window cuts off the last ones.
// From a message about a binding it keeps the node. It returns other texts unchanged.
func Excluded(message string) string {
	message = strings.TrimPrefix(message, "(combined from similar events): ")
	if object, node, ok := strings.Cut(strings.TrimPrefix(message, "Successfully assigned "), " to "); ok &&
		strings.HasPrefix(message, "Successfully assigned ") && !strings.Contains(object, " ") {
		return "assigned to " + node // the event names the pod
	}
	all, text := exclusions(message)
	if all == nil {
		return text
	}
	slices.SortStableFunc(all, func(a, b exclusion) int { return cmp.Compare(b.nodes, a.nodes) })
	texts := make([]string, len(all))
	for i, x := range all {
		texts[i] = strconv.Itoa(x.nodes) + strings.ReplaceAll(" "+x.reason, " node(s)", "")
	}
	return strings.Join(texts, ", ")
}

// exclusion is a reason with the number of nodes that it excludes.
type exclusion struct {
	nodes  int
	reason string
}

// exclusions splits a kube-scheduler message, such as "0/13 nodes are available: 1 node(s) had a taint, 12 Insufficient cpu. preemption:
// …". For a text of another form it returns no exclusions and the part of the text to show.
func exclusions(message string) (all []exclusion, text string) {
	text, _, _ = strings.Cut(message, " preemption: ")
	_, rest, ok := strings.Cut(text, " nodes are available: ")
	if !ok {
		return nil, text
	}
	rest, _, _ = strings.Cut(rest, ". ") // the rest is not about nodes
	rest = strings.TrimSuffix(rest, ".")
	for part := range strings.SplitSeq(rest, ", ") {
		number, reason, _ := strings.Cut(part, " ")
		n, err := strconv.Atoi(number)
		if err != nil {
			return nil, strings.ReplaceAll(rest, " node(s)", "")
		}
		all = append(all, exclusion{n, reason})
	}
	return all, rest
}

// Cause is a reason why pods wait.
type Cause struct {
	Reason string `json:"reason"`          // in kube-scheduler's words
	Pods   int    `json:"pods"`            // that wait for it, among other reasons
	Nodes  int    `json:"nodes,omitempty"` // the most that it excludes for one of these pods; 0 if it is not about nodes
}

// CausesOf counts the pods that wait for each reason, the reason of most pods first.
func CausesOf(pods []PendingPod) []Cause {
	byReason := map[string]*Cause{}
	count := func(reason string, nodes int) {
		x := byReason[reason]
		if x == nil {
			x = &Cause{Reason: reason}
			byReason[reason] = x
		}
		x.Pods, x.Nodes = x.Pods+1, max(x.Nodes, nodes)
	}
	for i := range pods {
		all, _ := exclusions(pods[i].Message)
		if all == nil {
			count(pods[i].reason(), 0)
		}
		for k, x := range all {
			if !slices.ContainsFunc(all[:k], func(before exclusion) bool { return before.reason == x.reason }) {
				count(x.reason, x.nodes)
			}
		}
	}
	out := make([]Cause, 0, len(byReason))
	for _, x := range byReason {
		out = append(out, *x)
	}
	slices.SortFunc(out, func(a, b Cause) int {
		return cmp.Or(cmp.Compare(b.Pods, a.Pods), cmp.Compare(b.Nodes, a.Nodes), strings.Compare(a.Reason, b.Reason))
	})
	return out
}

// Column is a column of the node list, to sort by.
type Column string

// The columns, in the order in which the view shows them.
const (
	ByName    Column = "name"
	ByStatus  Column = "status"
	ByRole    Column = "role"
	ByAge     Column = "age"
	ByVersion Column = "version"
	ByPods    Column = "pods"
	ByCPU     Column = "cpu"
	ByMemory  Column = "memory"
	ByGPU     Column = "gpu"
)

// Columns lists every column.
func Columns() []Column {
	return []Column{ByName, ByStatus, ByRole, ByAge, ByVersion, ByPods, ByCPU, ByMemory, ByGPU}
}

// Sort is an order of nodes. The zero value sorts by name, ascending.
type Sort struct {
	Column Column
	Desc   bool
}

// By returns the usual order for a column: usage descending, so that the fullest node comes
// first, and everything else ascending.
func By(c Column) Sort {
	return Sort{Column: c, Desc: c == ByPods || c == ByCPU || c == ByMemory || c == ByGPU}
}

// ParseSort parses "column", "column:asc" or "column:desc". The empty text means by name.
func ParseSort(s string) (Sort, error) {
	name, dir, directed := strings.Cut(strings.ToLower(strings.TrimSpace(s)), ":")
	switch name {
	case "":
		if directed {
			return Sort{}, fmt.Errorf("sort %q names no column", s)
		}
		name = string(ByName)
	case "mem":
		name = string(ByMemory)
	case "roles":
		name = string(ByRole)
	}
	if !slices.Contains(Columns(), Column(name)) {
		return Sort{}, choice.Unknown("column", name, choice.Names(Columns(), choice.Text))
	}
	out := By(Column(name))
	switch {
	case dir == "asc":
		out.Desc = false
	case dir == "desc":
		out.Desc = true
	case directed:
		return Sort{}, fmt.Errorf("sort direction %q is not asc or desc", dir)
	}
	return out, nil
}

// Apply sorts nodes in place. Nodes that are equal in the column are sorted by name, in
// natural order and ascending, so that rows keep their places from one redraw to the next.
func (s Sort) Apply(nodes []Node) {
	col := cmp.Or(s.Column, ByName)
	slices.SortFunc(nodes, func(a, b Node) int {
		c := compare(col, &a, &b)
		if s.Desc {
			c = -c
		}
		if c == 0 && col != ByName {
			c = CompareNatural(a.Name, b.Name)
		}
		return c
	})
}

func compare(col Column, a, b *Node) int {
	switch col {
	case ByStatus: // trouble first
		return cmp.Or(cmp.Compare(health(a), health(b)), cmp.Compare(a.Status, b.Status))
	case ByRole:
		return slices.Compare(a.Roles, b.Roles)
	case ByAge: // the youngest first
		return b.Created.Compare(a.Created)
	case ByVersion:
		return CompareNatural(a.Version, b.Version)
	case ByPods:
		return cmp.Compare(a.Pods.Requested, b.Pods.Requested)
	case ByCPU:
		return cmp.Compare(a.CPU.Fraction(), b.CPU.Fraction())
	case ByMemory:
		return cmp.Compare(a.Memory.Fraction(), b.Memory.Fraction())
	case ByGPU:
		return cmp.Compare(a.GPU.Fraction(), b.GPU.Fraction())
	}
	return CompareNatural(a.Name, b.Name)
}

func health(n *Node) int {
	switch {
	case !n.Ready:
		return 0
	case n.Cordoned:
		return 1
	}
	return 2
}

// Select returns the rows of a list that contain a text, in upper or lower case, in the same order. texts returns what a row
// says. The empty text selects all rows.
func Select[T any](list []T, text string, texts func(*T) []string) []T {
	text = strings.ToLower(strings.TrimSpace(text))
	if text == "" {
		return slices.Clone(list)
	}
	out := make([]T, 0, len(list))
	for i := range list {
		if slices.ContainsFunc(texts(&list[i]), func(t string) bool { return strings.Contains(strings.ToLower(t), text) }) {
			out = append(out, list[i])
		}
	}
	return out
}

// Texts returns what the filter searches of a node.
func (n *Node) Texts() []string {
	return []string{n.Name, n.Status, n.Role(), n.Zone, n.Version, n.GPUModel}
}

// Texts returns what the filter searches of a pending pod.
func (p *PendingPod) Texts() []string {
	return []string{p.Namespace + "/" + p.Name, p.Workload, p.Scheduler, p.Reason, p.Message, p.Needs}
}

// Texts returns what the filter searches of a pod.
func (p *ListedPod) Texts() []string {
	return []string{p.Namespace + "/" + p.Name, p.Status, p.Node, p.Workload, p.Scheduler}
}
