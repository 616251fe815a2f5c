// Package top shows a cluster's nodes and pending pods and keeps the picture up to date. It
// connects the packages below it and serves ktop.
//
//	API server ──changes──▶ state ──a frame a tick──▶ view (a terminal), or a table, JSON or YAML
//
// [Run] draws until the reader quits; [Follow] prints at an interval; [Once] prints once.
package top

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/go-logr/logr"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/yaml"

	"gnnsched/cmd/internal/top/state"
	"gnnsched/cmd/internal/top/view"
	"gnnsched/internal/choice"
	"gnnsched/internal/cli"
	"gnnsched/internal/cluster"
	"gnnsched/internal/each"
	"gnnsched/internal/exit"
	"gnnsched/internal/logging"
	"gnnsched/internal/table"
	"gnnsched/scheduler/decision"
)

// DefaultInterval is the time between two redraws unless told otherwise.
const DefaultInterval = 2 * time.Second

// Config selects the cluster and the form of its view. Client is needed.
type Config struct {
	Client   kubernetes.Interface
	Title    string // names the cluster in the view
	Selector string // label selector of the nodes; empty means all
	// Namespace is the one whose pods are listed; "" for all.
	Namespace string
	Interval  time.Duration // between two frames; 0 means DefaultInterval
	Sort      state.Sort
	Servers   []state.Server // schedulers to ask for their decisions
	Log       logr.Logger    // client-go's messages; the zero value drops them

	// Explain says in sentences and tables why a pod got its node; nil if nothing is explained.
	Explain func(decision.Record) (string, error)

	in  io.Reader // keys; nil means the terminal
	Out io.Writer // screen or file; nil means stdout
	Env []string  // for NO_COLOR, TERM and the locale; nil means the process's
}

// Validate checks the configuration; its errors are usage errors. The client may still be
// missing.
func (c Config) Validate() error {
	if c.Interval != 0 && c.Interval < view.MinInterval {
		return exit.Usagef("the interval is %v: choose at least %v", c.Interval, view.MinInterval)
	}
	return c.source().Validate()
}

func (c Config) withDefaults() Config {
	c.Interval = cmp.Or(c.Interval, DefaultInterval)
	c.Out = cmp.Or[io.Writer](c.Out, os.Stdout)
	if c.Env == nil {
		c.Env = os.Environ()
	}
	return c
}

func (c Config) source() state.Config {
	return state.Config{Client: c.Client, Selector: c.Selector, Namespace: c.Namespace, Servers: c.Servers, Log: c.Log, Explain: c.Explain}
}

// Run draws the cluster on the terminal until the reader quits or ctx ends; it then returns nil. Run
// restores the terminal. If the cluster does not answer at the start, Run returns an error with exit code 3; if it stops answering later,
// the view shows it.
func Run(ctx context.Context, cfg Config) error {
	if err := cfg.Validate(); err != nil {
		return err
	}
	cfg = cfg.withDefaults()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	src, err := state.Start(ctx, cfg.source())
	if err != nil {
		return err
	}
	defer src.Stop()
	return draw(ctx, cfg, src.Frame, src.Details)
}

func draw(ctx context.Context, cfg Config, read func(int) state.Frame, details func(state.Ask) state.Details) error {
	servers := each.Map(cfg.Servers, func(s state.Server) string { return s.Name })
	m := view.New(view.Config{
		Title: cfg.Title, Interval: cfg.Interval, Sort: cfg.Sort, Look: lookOf(cfg.Env), Servers: servers,
		Read: read, Details: details, Done: ctx.Done(),
	})
	// 30 a second is smooth for text, and half the wake-ups of the default.
	opts := []tea.ProgramOption{
		tea.WithContext(ctx), tea.WithoutSignalHandler(), tea.WithFPS(30),
		tea.WithOutput(cfg.Out), tea.WithEnvironment(cfg.Env),
	}
	if cfg.in != nil {
		opts = append(opts, tea.WithInput(cfg.in))
	}
	if !IsScreen(cfg.Out) {
		opts = append(opts, tea.WithWindowSize(80, 24))
	}
	_, err := tea.NewProgram(m, opts...).Run()
	switch {
	case ctx.Err() != nil:
		return nil
	case err != nil:
		return fmt.Errorf("draw on the terminal: %w", err)
	}
	return nil
}

// Follow writes the cluster in the given format now and after every interval. It returns the
// error of ctx when ctx ends, or the first error of writing.
func Follow(ctx context.Context, cfg Config, format Format) error {
	if err := cfg.Validate(); err != nil {
		return err
	}
	cfg = cfg.withDefaults()
	src, err := state.Start(ctx, cfg.source())
	if err != nil {
		return err
	}
	defer src.Stop()
	tick := time.NewTicker(cfg.Interval)
	defer tick.Stop()
	for first := true; ; first = false {
		f := src.Frame(state.All)
		cfg.Sort.Apply(f.Nodes)
		if err := writeFrame(cfg.Out, format, &f, true, first); err != nil {
			return fmt.Errorf("write the cluster: %w", err)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Once writes the cluster once, in the given format.
func Once(ctx context.Context, cfg Config, format Format) error {
	if err := cfg.Validate(); err != nil {
		return err
	}
	cfg = cfg.withDefaults()
	f, err := state.List(ctx, cfg.source())
	if err != nil {
		return err
	}
	cfg.Sort.Apply(f.Nodes)
	if err := writeFrame(cfg.Out, format, &f, false, true); err != nil {
		return fmt.Errorf("write the cluster: %w", err)
	}
	return nil
}

// lookOf derives the terminal's abilities from the environment. A non-empty NO_COLOR turns colours off; a locale other than UTF-8 means
// ASCII.
func lookOf(env []string) view.Look {
	get := func(name string) string {
		for i := len(env) - 1; i >= 0; i-- { // the last one wins, as in os/exec
			if v, ok := strings.CutPrefix(env[i], name+"="); ok {
				return v
			}
		}
		return ""
	}
	return view.Look{Color: get("NO_COLOR") == "", Unicode: logging.UTF8(env)}
}

// IsScreen tells whether w is a terminal that the view can be drawn on.
func IsScreen(w io.Writer) bool {
	f, ok := w.(interface{ Fd() uintptr })
	return ok && cli.IsTerminal(f) && os.Getenv("TERM") != "dumb"
}

// writeTable writes a row for each node in the style of kubectl, a row of totals, and the
// figures of the whole cluster below.
func writeTable(w io.Writer, f *state.Frame, wide bool) error {
	head := []string{"NAME", "STATUS", "ROLES", "AGE", "VERSION", "CPU", "MEMORY", "GPU", "PODS"}
	if wide {
		head = append(head, "CPU-USED", "MEMORY-USED", "GPU-MODEL", "GPU-DEVICES", "ZONE", "INTERNAL-IP", "TAINTS")
	}
	rows := table.Of(head...)
	for i := range f.Nodes {
		rows = append(rows, nodeRow(f.Time, &f.Nodes[i], wide))
	}
	if err := append(rows, totalRow(&f.Totals)).Columns(w); err != nil {
		return err
	}
	return writeSummary(w, f)
}

func nodeRow(now time.Time, n *state.Node, wide bool) []string {
	row := []string{
		n.Name, n.Status, cmp.Or(strings.Join(n.Roles, ","), "<none>"), state.Age(now, n.Created), cmp.Or(n.Version, "<none>"),
		usage(n.CPU, state.Cores), usage(n.Memory, state.Bytes), devicesOf(n.GPU), count(n.Pods),
	}
	if wide {
		row = append(row, used(n)...)
		row = append(row, cmp.Or(n.GPUModel, "<none>"), cmp.Or(devicePercents(n.Devices), "<none>"), cmp.Or(n.Zone, "<none>"),
			cmp.Or(n.InternalIP, "<none>"), cmp.Or(strings.Join(n.Taints, ","), "<none>"))
	}
	return row
}

func totalRow(t *state.Totals) []string {
	return []string{
		"TOTAL", fmt.Sprintf("%d/%d ready", t.Ready, t.Nodes), "", "", "",
		usage(t.CPU, state.Cores), usage(t.Memory, state.Bytes), devicesOf(t.GPU), count(t.Pods),
	}
}

// used writes the CPU and the memory that a node uses, like "12.8 (20%)".
func used(n *state.Node) []string {
	if n.Used == nil {
		return []string{"<unknown>", "<unknown>"}
	}
	text := func(u state.Usage, amount int64, write func(int64) string) string {
		u.Requested = amount
		return write(amount) + " (" + state.Percent(u.Fraction()) + ")"
	}
	return []string{text(n.CPU, n.Used.CPU, state.Cores), text(n.Memory, n.Used.Memory, state.Bytes)}
}

// usage writes "12.8/64 (20%)".
func usage(u state.Usage, write func(int64) string) string {
	return write(u.Requested) + "/" + write(u.Allocatable) + " (" + state.Percent(u.Fraction()) + ")"
}

// count writes "3/8", or "-" for a resource that the node does not have.
func count(u state.Usage) string {
	if u.Requested == 0 && u.Allocatable == 0 {
		return "-"
	}
	return fmt.Sprintf("%d/%d", u.Requested, u.Allocatable)
}

// devicePercents writes the requested percentage of each device: "100,81,0".
func devicePercents(devices []int64) string {
	out := each.Map(devices, state.DevicePercent)
	return strings.Join(out, ",")
}

// devicesOf writes "3.5/8", or "-" for a node without GPUs.
func devicesOf(u state.Usage) string {
	if u == (state.Usage{}) {
		return "-"
	}
	return state.Devices(u.Requested) + "/" + state.Devices(u.Allocatable)
}

func writeSummary(w io.Writer, f *state.Frame) error {
	var b strings.Builder
	fmt.Fprintf(&b, "\nPending pods: %d\n", f.PendingCount)
	if t := &f.Totals; t.Workers < t.Nodes {
		fmt.Fprintf(&b, "Total:        amounts of the %d worker nodes, without the control plane\n", t.Workers)
	}
	fmt.Fprintf(&b, "CPU spread:   std %.3f, mean %.3f over %d worker nodes\n", f.CPUSpread.Std, f.CPUSpread.Mean, f.CPUSpread.Nodes)
	for _, s := range f.Schedulers {
		fmt.Fprintf(&b, "Scheduler:    %s: bound %d, pending %d, bound/s %s\n", s.Name, s.Bound, s.Pending, state.Rate(s.Rate))
	}
	if f.Lost != nil {
		fmt.Fprintf(&b, "Disconnected: since %s: %s\n", f.Lost.Since.Format(time.RFC3339), f.Lost.Reason)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// Format is an output format of ktop.
type Format string

// The formats.
const (
	Table Format = "table"
	Wide  Format = "wide"
	JSON  Format = "json"
	YAML  Format = "yaml"
)

// ParseFormat reads a format. Empty text means the table.
func ParseFormat(s string) (Format, error) {
	if s == "" {
		return Table, nil
	}
	if known := []string{string(Table), string(Wide), string(JSON), string(YAML)}; !slices.Contains(known, s) {
		return "", choice.Unknown("format", s, known)
	}
	return Format(s), nil
}

// writeFrame writes one frame. Nodes keep their order. A frame of a series is one line of JSON, a YAML document behind ---, or a table
// behind an empty line, which the first one lacks.
func writeFrame(w io.Writer, format Format, f *state.Frame, series, first bool) error {
	switch format {
	case JSON:
		enc := json.NewEncoder(w)
		enc.SetEscapeHTML(false)
		if !series {
			enc.SetIndent("", "  ")
		}
		return enc.Encode(documentOf(f))
	case YAML:
		return writeYAML(w, f, map[bool]string{true: "---\n"}[series])
	}
	if series && !first {
		if _, err := io.WriteString(w, "\n"); err != nil {
			return err
		}
	}
	return writeTable(w, f, format == Wide)
}

func writeYAML(w io.Writer, f *state.Frame, before string) error {
	b, err := yaml.Marshal(documentOf(f))
	if err != nil {
		return fmt.Errorf("write YAML: %w", err)
	}
	_, err = io.WriteString(w, before+string(b))
	return err
}

// The name and version of the schema below. Fields may be added to it, but never renamed or
// removed.
const (
	apiVersion = "gnnsched.io/v1"
	kind       = "ClusterTop"
)

// Document is a frame in JSON or YAML. Lists are never null. Times are RFC 3339. A fraction is requested / allocatable: 1 is full, more is
// overcommitted.
type Document struct {
	APIVersion   string        `json:"apiVersion"` // gnnsched.io/v1
	Kind         string        `json:"kind"`       // ClusterTop
	Time         time.Time     `json:"time"`
	Disconnected *disconnected `json:"disconnected,omitempty"` // absent while the API server answers
	Totals       totals        `json:"totals"`
	CPUSpread    spread        `json:"cpuSpread"`
	Schedulers   []scheduler   `json:"schedulers"`
	Nodes        []node        `json:"nodes"`   // in the order of --sort
	Pending      []pendingPod  `json:"pending"` // oldest first
}

// disconnected says since when the API server has not answered; the figures are as old.
type disconnected struct {
	Since  time.Time `json:"since"`
	Reason string    `json:"reason"`
}

// totals are sums: counts of all nodes, amounts of the workers, which are the nodes without a control-plane taint, or all nodes if there is
// no other.
type totals struct {
	Nodes    int         `json:"nodes"`
	Ready    int         `json:"ready"`
	Cordoned int         `json:"cordoned"`
	Workers  int         `json:"workers"`
	Pending  int         `json:"pendingPods"`
	CPU      cpuUsage    `json:"cpu"`
	Memory   memoryUsage `json:"memory"`
	GPU      deviceUsage `json:"gpu"`
	Pods     podUsage    `json:"pods"`
}

// cpuUsage is in millicores.
type cpuUsage struct {
	Requested   int64   `json:"requestedMillicores"`
	Used        *int64  `json:"usedMillicores,omitempty"` // absent: not measured
	Allocatable int64   `json:"allocatableMillicores"`
	Fraction    float64 `json:"fraction"`
}

// memoryUsage is in bytes.
type memoryUsage struct {
	Requested   int64   `json:"requestedBytes"`
	Used        *int64  `json:"usedBytes,omitempty"` // absent: not measured
	Allocatable int64   `json:"allocatableBytes"`
	Fraction    float64 `json:"fraction"`
}

// deviceUsage counts GPUs. Requested is rounded down; RequestedMilli has the shares.
type deviceUsage struct {
	Requested      int64   `json:"requested"`
	Allocatable    int64   `json:"allocatable"`
	RequestedMilli int64   `json:"requestedMilli"`
	Fraction       float64 `json:"fraction"`
}

// podUsage counts pods that have neither succeeded nor failed.
type podUsage struct {
	Count       int64   `json:"count"`
	Allocatable int64   `json:"allocatable"`
	Fraction    float64 `json:"fraction"`
}

// spread describes how the CPU fractions of the worker nodes differ; Std and Variance are of
// the population.
type spread struct {
	Nodes    int     `json:"nodes"`
	Mean     float64 `json:"mean"`
	Std      float64 `json:"std"`
	Variance float64 `json:"variance"`
	Min      float64 `json:"min"`
	Max      float64 `json:"max"`
}

// scheduler counts the pods that name one scheduler.
type scheduler struct {
	Name           string  `json:"name"`
	Bound          int     `json:"boundPods"`
	Pending        int     `json:"pendingPods"`
	BoundPerSecond float64 `json:"boundPerSecond"` // in the last ten seconds
}

// node is a node with its pods' requests. Unknown strings are empty.
type node struct {
	Name       string      `json:"name"`
	Status     string      `json:"status"`
	Ready      bool        `json:"ready"`
	Cordoned   bool        `json:"cordoned"`
	Worker     bool        `json:"worker"` // no control-plane taint
	Roles      []string    `json:"roles"`
	Created    time.Time   `json:"createdAt"`
	Version    string      `json:"version"`
	Zone       string      `json:"zone"`
	InternalIP string      `json:"internalIP"`
	Taints     []string    `json:"taints"` // as key=value:Effect
	CPU        cpuUsage    `json:"cpu"`
	Memory     memoryUsage `json:"memory"`
	GPU        deviceUsage `json:"gpu"`
	GPUModel   string      `json:"gpuModel"`
	GPUDevices []int64     `json:"gpuDevices"` // requested thousandths of each device
	Pods       podUsage    `json:"pods"`
}

// pendingPod is a pod that waits for a node. Reason and message are empty before the first attempt.
type pendingPod struct {
	Namespace string    `json:"namespace"`
	Name      string    `json:"name"`
	Scheduler string    `json:"scheduler"`
	Created   time.Time `json:"createdAt"`
	Reason    string    `json:"reason"`
	Message   string    `json:"message"`
	Needs     string    `json:"needs"` // node labels that it selects, as "disk=ssd"
}

// documentOf converts a frame. Nodes keep their order.
func documentOf(f *state.Frame) Document {
	t, s := &f.Totals, f.CPUSpread
	d := Document{
		APIVersion: apiVersion, Kind: kind, Time: f.Time.UTC(),
		Totals: totals{
			Nodes: t.Nodes, Ready: t.Ready, Cordoned: t.Cordoned, Workers: t.Workers, Pending: f.PendingCount,
			CPU: cpu(t.CPU, t.Used), Memory: memory(t.Memory, t.Used), GPU: devices(t.GPU), Pods: pods(t.Pods),
		},
		CPUSpread:  spread{Nodes: s.Nodes, Mean: s.Mean, Std: s.Std, Variance: s.Std * s.Std, Min: s.Min, Max: s.Max},
		Schedulers: []scheduler{}, Nodes: []node{}, Pending: []pendingPod{},
	}
	if f.Lost != nil {
		d.Disconnected = &disconnected{Since: f.Lost.Since.UTC(), Reason: f.Lost.Reason}
	}
	for _, s := range f.Schedulers {
		d.Schedulers = append(d.Schedulers, scheduler{Name: s.Name, Bound: s.Bound, Pending: s.Pending, BoundPerSecond: s.Rate})
	}
	for i := range f.Nodes {
		d.Nodes = append(d.Nodes, nodeOf(&f.Nodes[i]))
	}
	for _, p := range f.Pending {
		d.Pending = append(d.Pending, pendingPod{
			Namespace: p.Namespace, Name: p.Name, Scheduler: p.Scheduler,
			Created: p.Created.UTC(), Reason: p.Reason, Message: p.Message, Needs: p.Needs,
		})
	}
	return d
}

func nodeOf(n *state.Node) node {
	return node{
		Name: n.Name, Status: n.Status, Ready: n.Ready, Cordoned: n.Cordoned, Worker: n.Worker,
		Roles: append([]string{}, n.Roles...), Created: n.Created.UTC(), Version: n.Version, Zone: n.Zone,
		InternalIP: n.InternalIP, Taints: append([]string{}, n.Taints...),
		CPU: cpu(n.CPU, n.Used), Memory: memory(n.Memory, n.Used), GPU: devices(n.GPU), Pods: pods(n.Pods),
		GPUModel: n.GPUModel, GPUDevices: append([]int64{}, n.Devices...),
	}
}

func cpu(u state.Usage, used *state.Measured) cpuUsage {
	out := cpuUsage{Requested: u.Requested, Allocatable: u.Allocatable, Fraction: u.Fraction()}
	if used != nil {
		out.Used = &used.CPU
	}
	return out
}

func memory(u state.Usage, used *state.Measured) memoryUsage {
	out := memoryUsage{Requested: u.Requested, Allocatable: u.Allocatable, Fraction: u.Fraction()}
	if used != nil {
		out.Used = &used.Memory
	}
	return out
}

func devices(u state.Usage) deviceUsage {
	return deviceUsage{u.Requested / cluster.DeviceMilli, u.Allocatable / cluster.DeviceMilli, u.Requested, u.Fraction()}
}
func pods(u state.Usage) podUsage { return podUsage{u.Requested, u.Allocatable, u.Fraction()} }
