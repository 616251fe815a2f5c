package web

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"mime"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"time"

	"k8s.io/utils/clock"

	"gnnsched/internal/cluster"
	"gnnsched/scheduler/eval"
	"gnnsched/scheduler/policy"
	"gnnsched/scheduler/sim"
)

// line is a line of a run's output. One of its fields is set.
type line struct {
	Start *runStart `json:"start,omitempty"`
	Step  *runStep  `json:"step,omitempty"`
	End   *runEnd   `json:"end,omitempty"`
}

// runStart has the nodes. Later lines name them by their place in it.
type runStart struct {
	Nodes []runNode `json:"nodes"`
}

// runNode is a node of the simulated cluster.
type runNode struct {
	Name   string `json:"name"`
	Zone   string `json:"zone"`
	CPU    int64  `json:"cpu"`    // millicores
	Memory int64  `json:"memory"` // bytes
	GPU    int64  `json:"gpu"`    // thousandths of devices
}

// runStep is a decision.
type runStep struct {
	Pod    string `json:"pod"`
	Number int    `json:"number"` // of the arrival, from 0
	CPU    int64  `json:"cpu"`
	Memory int64  `json:"memory"`
	GPU    int64  `json:"gpu"`

	// Changed has the nodes whose requests changed since the last decision: node, CPU, memory and GPU.
	Changed [][4]int64 `json:"changed"`
	Waiting int        `json:"waiting"` // pods that fit nowhere now

	Rows        []int32    `json:"rows"`        // the nodes on which the pod fits
	Scores      []*float32 `json:"scores"`      // of them; null where preferences exclude one
	OtherScores []*float32 `json:"otherScores"` // the other policy's in the same state
	Node        int32      `json:"node"`        // the chosen one
	Other       int32      `json:"other"`       // the other policy's choice in the same state
	RunnerUp    int32      `json:"runnerUp"`    // the best that was not chosen; -1 for none
	Margin      float64    `json:"margin"`      // score minus the runner-up's

	Cost      float64  `json:"cost"`      // of the objective after the decision
	OtherCost *float64 `json:"otherCost"` // after the same number of decisions of the other policy in its own cluster; null if it had fewer
}

// runEnd is the end of a run.
type runEnd struct {
	Changed [][4]int64 `json:"changed"`
	Policy  runResult  `json:"policy"`
	Other   runResult  `json:"other"`         // of the other policy in its own cluster
	Cut     string     `json:"cut,omitempty"` // why the run ended before all pods had arrived; empty if it did not
}

// runResult is the part of a sim.Outcome that the page shows.
type runResult struct {
	Name        string  `json:"name"`
	Cost        float64 `json:"cost"`
	Imbalance   float64 `json:"imbalance"`
	NodesInUse  int     `json:"nodesInUse"`
	Arrived     int     `json:"arrived"`
	Unscheduled int     `json:"unscheduled"`
	Waited      int     `json:"waited"`
}

// maxTime is the time that a run may take.
const maxTime = 20 * time.Second

// player plays a policy in its own cluster.
type player struct {
	contender eval.Contender
	env       *sim.Env
	decide    eval.Decide
}

// newPlayer returns a player at the beginning of the request's episode.
func (r runRequest) newPlayer(config sim.Config, name string) (*player, error) {
	c, err := r.contender(name)
	if err != nil {
		return nil, err
	}
	p := &player{contender: c}
	if p.env, err = sim.New(config); err != nil {
		return nil, err
	}
	if err := p.env.Reset(r.Seed); err != nil {
		return nil, fmt.Errorf("the cluster has no room for the load: %w", err)
	}
	p.decide = p.decider(r.Seed)
	return p, nil
}

// decider returns the policy's decisions, of a policy of its own.
func (p *player) decider(seed uint64) eval.Decide {
	return eval.Deciding(p.contender.New(policy.Setting{
		Seed: seed, Typical: p.env.Typical(), Running: p.env.TypicalRunning(),
	}), p.contender.Ties(seed))
}

// run is a run of a request.
type run struct {
	own, other *player
	opinion    eval.Decide         // the other policy's in own's cluster
	known      []cluster.Resources // requests of the nodes as the lines before say
}

// Validate returns an error if the request is invalid.
func (r runRequest) Validate() error {
	config, err := r.config()
	if err != nil {
		return err
	}
	for _, name := range []string{r.Policy, r.Other} {
		if _, err := r.contender(name); err != nil {
			return err
		}
	}
	return config.Validate()
}

// runSandbox plays the request and calls emit with each line, until the episode, ctx, or the run's time ends. It returns the first
// error, also from emit.
func runSandbox(ctx context.Context, c clock.Clock, r runRequest, emit func(line) error) error {
	cut, pace := "", newPace(c)
	x, err := r.begin(ctx, pace)
	if err != nil {
		return err
	}
	if err := emit(line{Start: x.start()}); err != nil {
		return err
	}
	for n := 0; !x.own.env.Done(); n++ {
		if n == maxDecisions {
			cut = fmt.Sprintf("after %d decisions", maxDecisions)
			break
		}
		if pace.clock.Since(pace.begun) > maxTime {
			cut = fmt.Sprintf("after %v", maxTime)
			break
		}
		step, err := x.step()
		if err != nil {
			return err
		}
		if err := emit(line{Step: step}); err != nil {
			return err
		}
		if err := pace.rest(ctx); err != nil {
			return err
		}
	}
	return emit(line{End: &runEnd{Changed: x.changed(), Policy: x.own.result(), Other: x.other.result(), Cut: cut}})
}

// begin makes the policies with their clusters, at the pace of the run.
func (r runRequest) begin(ctx context.Context, p *pace) (*run, error) {
	config, err := r.config()
	if err != nil {
		return nil, err
	}
	x := &run{}
	if x.own, err = r.newPlayer(config, r.Policy); err == nil {
		err = p.rest(ctx)
	}
	if err != nil {
		return nil, err
	}
	if x.other, err = r.newPlayer(config, r.Other); err != nil {
		return nil, err
	}
	x.opinion = x.other.decider(r.Seed)
	return x, p.rest(ctx)
}

func (x *run) start() *runStart {
	s := &runStart{}
	for _, n := range x.own.env.Snapshot().Nodes {
		s.Nodes = append(s.Nodes, runNode{n.Name, n.Zone, n.Allocatable.MilliCPU, n.Allocatable.Memory, n.Allocatable.TotalGPUMilli()})
	}
	x.known = make([]cluster.Resources, len(s.Nodes))
	return s
}

// changed returns the nodes whose requests changed since the last call.
func (x *run) changed() [][4]int64 {
	out := [][4]int64{}
	for i, n := range x.own.env.Snapshot().Nodes {
		if n.Requested != x.known[i] {
			x.known[i] = n.Requested
			out = append(out, [4]int64{int64(i), n.Requested.MilliCPU, n.Requested.Memory, n.Requested.TotalGPUMilli()})
		}
	}
	return out
}

// step makes a decision in both clusters.
func (x *run) step() (*runStep, error) {
	env := x.own.env
	pod, rows := env.Pending(), slices.Clone(env.Candidates())
	s := &runStep{
		Pod: pod.Name, Number: env.Next(), CPU: pod.Requests.MilliCPU, Memory: pod.Requests.Memory, GPU: pod.Requests.TotalGPUMilli(),
		Changed: x.changed(), Waiting: len(env.Waiting()), Rows: rows,
	}
	opinion, err := x.opinion(env)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", x.other.contender.Name, err)
	}
	choice, err := x.own.decide(env)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", x.own.contender.Name, err)
	}
	s.Node, s.Other = rows[choice.Candidate], rows[opinion.Candidate]
	s.Scores, s.OtherScores = finite(choice.Scores), finite(opinion.Scores)
	s.RunnerUp, s.Margin = runnerUp(rows, choice)
	env.StepOn(choice.Candidate, choice.Devices)
	s.Cost = env.Cost()
	if other := x.other.env; !other.Done() {
		theirs, err := x.other.decide(other)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", x.other.contender.Name, err)
		}
		other.StepOn(theirs.Candidate, theirs.Devices)
		s.OtherCost = new(other.Cost())
	}
	return s, nil
}

// finite returns the scores, nil where preferences exclude a node.
func finite(scores []float32) []*float32 {
	out := make([]*float32, len(scores))
	for i, v := range scores {
		if !math.IsInf(float64(v), 0) && !math.IsNaN(float64(v)) {
			out[i] = &v
		}
	}
	return out
}

// runnerUp returns the best node that was not chosen, and its distance in score.
func runnerUp(rows []int32, c eval.Choice) (row int32, margin float64) {
	best := -1
	for i, v := range c.Scores {
		if i != c.Candidate && !math.IsInf(float64(v), -1) && (best < 0 || v > c.Scores[best]) {
			best = i
		}
	}
	if best < 0 {
		return -1, 0
	}
	return rows[best], float64(c.Scores[c.Candidate]) - float64(c.Scores[best])
}

func (p *player) result() runResult {
	o := p.env.Outcome()
	return runResult{p.contender.Name, o.Cost, o.Imbalance, o.NodesInUse, o.Arrived, o.Unscheduled, o.Waited}
}

// pace lets a run work half of the time.
type pace struct {
	clock         clock.Clock
	begun, rested time.Time
}

// worked is the time that a run works before it rests equally long.
const worked = 5 * time.Millisecond

func newPace(c clock.Clock) *pace { return &pace{c, c.Now(), c.Now()} }

// rest waits as long as the run has worked since the last rest, if that was long enough. It returns ctx's error.
func (p *pace) rest(ctx context.Context) error {
	work := p.clock.Since(p.rested)
	if work < worked {
		return ctx.Err()
	}
	select {
	case <-p.clock.After(work):
		p.rested = p.clock.Now()
	case <-ctx.Done():
	}
	return ctx.Err()
}

const (
	// maxRequest bounds the bytes of a request to the sandbox.
	maxRequest = 64 << 10
	// sandboxWait limits how long a request waits for the previous run, which ends soon after its client has left.
	sandboxWait = 2 * time.Second
	// chunk is the number of bytes of output that are sent together.
	chunk = 32 << 10
)

// sandboxOptions answers with the values that a sandbox request may have.
func (s *server) sandboxOptions(w http.ResponseWriter, _ *http.Request) { respond(w, sandboxOptions()) }

// scenario answers with a request as a scenario file of gnnsched eval.
func (s *server) scenario(w http.ResponseWriter, r *http.Request) {
	var request runRequest
	if status, err := readJSON(w, r, &request); err != nil {
		http.Error(w, err.Error(), status)
		return
	}
	text, err := request.Scenario()
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, _ = io.WriteString(w, text) // the client may have gone
}

// play answers with a run of the sandbox, a JSON object a line. There is one run at a time; it ends with its client.
func (s *server) play(w http.ResponseWriter, r *http.Request) {
	var request runRequest
	if status, err := readJSON(w, r, &request); err != nil {
		http.Error(w, err.Error(), status)
		return
	}
	select {
	case s.playing <- struct{}{}:
		defer func() { <-s.playing }()
	case <-r.Context().Done():
		return
	case <-s.config.Clock.After(sandboxWait):
		w.Header().Set("Retry-After", "5")
		http.Error(w, "the sandbox is in use", http.StatusTooManyRequests)
		return
	}
	if err := request.Validate(); err != nil { // it makes the policies, without rests, so there is one at a time as of the runs
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "application/x-ndjson")
	out := sink{w, http.NewResponseController(w), s.config.patience}
	var text bytes.Buffer
	err := runSandbox(r.Context(), s.config.Clock, request, func(line line) error {
		if err := json.NewEncoder(&text).Encode(line); err != nil {
			return err
		}
		if text.Len() < chunk && line.Start == nil && line.End == nil {
			return nil
		}
		defer text.Reset()
		return out.send(text.Bytes())
	})
	if err != nil && !errors.Is(err, context.Canceled) {
		_ = json.NewEncoder(w).Encode(map[string]string{"error": err.Error()}) // the client may have gone
	}
}

// readJSON reads a request's body. For a bad body it returns the status of the answer.
func readJSON(w http.ResponseWriter, r *http.Request, v any) (status int, err error) {
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		return http.StatusUnsupportedMediaType, errors.New("the body must be JSON, with Content-Type: application/json")
	}
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(headerTimeout)) // a recorder in a test has none
	d := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxRequest))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		return http.StatusBadRequest, inWords(err)
	}
	if _, err := d.Token(); err != io.EOF {
		return http.StatusBadRequest, errors.New("the body has more than one value")
	}
	_ = http.NewResponseController(w).SetReadDeadline(time.Time{})
	return 0, nil
}

// kinds are the names of JSON's values, by the kind of Go's type.
var kinds = map[reflect.Kind]string{
	reflect.Int: "a whole number", reflect.Uint64: "a whole number of at least 0", reflect.Float64: "a number", reflect.Bool: "true or false",
	reflect.String: "a text", reflect.Slice: "a list", reflect.Map: "an object", reflect.Struct: "an object",
}

// inWords returns the error of a body in the words of JSON and of the request's fields.
func inWords(err error) error {
	var kind *json.UnmarshalTypeError
	var large *http.MaxBytesError
	switch field, unknown := strings.CutPrefix(err.Error(), "json: unknown field "); {
	case errors.As(err, &kind):
		return fmt.Errorf("%s: want %s, got %s", cmp.Or(kind.Field, "the body"), kinds[kind.Type.Kind()], kind.Value)
	case errors.As(err, &large):
		return fmt.Errorf("the body has more than %d bytes", large.Limit)
	case unknown:
		return fmt.Errorf("no field is called %s", field)
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return errors.New("the body ends early: it is no JSON object")
	}
	return fmt.Errorf("the body is not JSON: %w", err)
}
