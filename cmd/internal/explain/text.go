package explain

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/dustin/go-humanize/english"

	"gnnsched/gnn/infer"
	"gnnsched/internal/cluster"
	"gnnsched/internal/table"
	"gnnsched/scheduler/decision"
	"gnnsched/scheduler/policy"
	"gnnsched/scheduler/policy/linear"
)

// comparison explains why the score of one node is higher than another's.
type comparison struct {
	chosen, other decision.Candidate
	// parts add up to the difference of the scores. Linear policies: exactly, except for rounding. Networks: as
	// infer.Network.Attribute.
	parts []infer.Attribution // the largest first
	flip  *flip               // nil if none was found
	// changes is true if the values of features are the placement's changes of them.
	changes bool
}

// flip is a change of one feature of the other node that makes its score as high as the chosen one's.
type flip struct {
	name     string
	from, to float64
}

// errNoReading is the error of a comparison with nodes for which the record has only the scores.
var errNoReading = errors.New("the record does not say what the policy read of both nodes")

// compare compares two candidates of a record. net is the network with the record's fingerprint; nil if it is not at hand.
func compare(chosen, other decision.Candidate, net *infer.Network) (*comparison, error) {
	c := &comparison{chosen: chosen, other: other}
	if chosen.Read == nil || other.Read == nil || chosen.Read.Kind != other.Read.Kind {
		return nil, errNoReading
	}
	var err error
	switch chosen.Read.Kind {
	case policy.LinearReading:
		err = c.linear()
	case policy.NetworkReading:
		if net == nil || net.ValuesNodes() {
			return nil, errors.New("the network with the record's fingerprint is not at hand; name its file with --checkpoint")
		}
		err = c.network(net)
	case policy.ValueReading:
		err = c.value(net)
	default:
		err = fmt.Errorf("readings of kind %.20q are not known", chosen.Read.Kind)
	}
	if err != nil {
		return nil, err
	}
	slices.SortStableFunc(c.parts, func(a, b infer.Attribution) int { return cmp.Compare(math.Abs(b.Part), math.Abs(a.Part)) })
	return c, nil
}

// margin returns the chosen node's score minus the other's.
func (c *comparison) margin() float64 { return float64(c.chosen.Score) - float64(c.other.Score) }

// agrees checks that a score computed from a reading is the recorded one.
func agrees(c decision.Candidate, score float64) error {
	if math.Abs(score-float64(c.Score)) > 1e-3*(1+math.Abs(float64(c.Score))) {
		return fmt.Errorf("what was read of %s gives the score %.4g, but %.4g is recorded: the weights are others, or the policy explored",
			c.Node, score, c.Score)
	}
	return nil
}

// costName names the logarithm of what a placement costs pods to come, which follows the features of linear in a reading of price.
const costName = "cost"

// linear divides the difference by the features of a linear policy.
func (c *comparison) linear() error {
	a, b := c.chosen.Read, c.other.Read
	names := linear.Features
	if len(a.Features) == len(names)+1 {
		names = append(slices.Clone(names), costName)
	}
	n := len(names)
	if len(a.Features) != n || len(b.Features) != n || len(a.Weights) != n {
		return fmt.Errorf("the record has other features than this version's %d", n)
	}
	var ours, theirs float64
	for j, w := range a.Weights {
		x, y := float64(a.Features[j]), float64(b.Features[j])
		ours, theirs = ours+float64(w)*x, theirs+float64(w)*y
		c.parts = append(c.parts, infer.Attribution{Name: names[j], From: y, To: x, Part: float64(w) * (x - y)})
		if j >= len(linear.Features) {
			continue // its cost is no feature that could differ by itself
		}
		if to, can := linear.Reached(j, y, y+c.margin()/float64(w)); w != 0 && can {
			c.consider(flip{names[j], y, to})
		}
	}
	return errors.Join(agrees(c.chosen, ours), agrees(c.other, theirs))
}

// consider keeps a flip if it changes its feature less than the present one.
func (c *comparison) consider(f flip) {
	if c.flip == nil || math.Abs(f.to-f.from) < math.Abs(c.flip.to-c.flip.from) {
		c.flip = &f
	}
}

// network divides the difference by the features that a network read.
func (c *comparison) network(net *infer.Network) (err error) {
	for _, candidate := range []decision.Candidate{c.chosen, c.other} {
		score, err := net.ScoreOf(candidate.Read.Features)
		if err != nil {
			return err
		}
		if err := agrees(candidate, score); err != nil {
			return err
		}
	}
	if c.parts, err = net.Attribute(c.other.Read.Features, c.chosen.Read.Features); err != nil {
		return err
	}
	goal, err := net.ScoreOf(c.chosen.Read.Features)
	if err != nil {
		return err
	}
	domains := net.Domains()
	for j, name := range net.Names() {
		if d, found := turn(net, c.other.Read.Features, j, goal, domains[j].Has); found {
			from := float64(c.other.Read.Features[j])
			c.consider(flip{name, from, from + d})
		}
	}
	return nil
}

// farthest is the largest change of a feature that turn tries. Features are of order one, and bounded by 4.
const farthest = 4

// turn returns the smallest change of feature j, on a grid of steps that grow by a tenth and to 0 and 1, with which a reading's score
// reaches the goal. possible reports whether the feature can have the new value.
func turn(net *infer.Network, reading []float32, j int, goal float64, possible func(float64) bool) (change float64, found bool) {
	x, from := slices.Clone(reading), float64(reading[j])
	steps := []float64{math.Abs(from), math.Abs(1 - from)}
	for d := 0.001; d <= farthest; d *= 1.1 {
		steps = append(steps, d)
	}
	slices.Sort(steps)
	for _, d := range steps {
		for _, signed := range []float64{d, -d} {
			if d == 0 || !possible(from+signed) {
				continue
			}
			x[j] = float32(from + signed)
			if score, err := net.ScoreOf(x); err == nil && score >= goal {
				return signed, true
			}
		}
	}
	return 0, false
}

// value compares a value network's values, and divides the difference by features if the network is at hand and the record has its
// features.
func (c *comparison) value(net *infer.Network) error {
	for _, candidate := range []decision.Candidate{c.chosen, c.other} {
		x := candidate.Read.Features
		if len(x) < 2 {
			return errors.New("the record has no values before and after the placement")
		}
		if err := agrees(candidate, float64(x[0])-float64(x[1])); err != nil {
			return err
		}
	}
	a, b := c.chosen.Read.Features, c.other.Read.Features
	c.consider(flip{"v(after)", float64(b[1]), float64(b[1]) - c.margin()})
	if net != nil && net.ValuesNodes() && len(a) > 2 && len(b) > 2 {
		return c.steps(net)
	}
	c.parts = []infer.Attribution{
		{Name: "v(before)", From: float64(b[0]), To: float64(a[0]), Part: float64(a[0]) - float64(b[0])},
		{Name: "v(after)", From: float64(b[1]), To: float64(a[1]), Part: float64(b[1]) - float64(a[1])},
	}
	return nil
}

// reserveAndPower is the part of a value that does not come from the network.
const reserveAndPower = "reserve and power"

// steps divides the difference by the placement's changes on the two nodes. A feature's values are its changes. Each changed device of
// either node has a part of its own.
func (c *comparison) steps(net *infer.Network) error {
	by := map[string]*infer.Attribution{}
	var order []string
	add := func(name string, change, part float64, chosen bool) {
		p := by[name]
		if p == nil {
			p = &infer.Attribution{Name: name}
			by[name], order = p, append(order, name)
		}
		if chosen {
			p.To, p.Part = change, p.Part+part
		} else {
			p.From, p.Part = change, p.Part-part
		}
	}
	for _, candidate := range []decision.Candidate{c.chosen, c.other} {
		x, chosen := candidate.Read.Features, candidate.Node == c.chosen.Node
		parts, err := net.AttributeStep(x[2:])
		if err != nil {
			return err
		}
		score, err := net.StepScore(x[2:])
		if err != nil {
			return err
		}
		for _, p := range parts {
			name := p.Name
			if strings.HasPrefix(name, "device ") {
				if p.From == p.To {
					continue
				}
				name += " of " + candidate.Node
			}
			add(name, p.To-p.From, p.Part, chosen)
		}
		if rest := float64(x[0]) - float64(x[1]) - score; math.Abs(rest) > 1e-4*(1+math.Abs(score)) { // else it is rounding
			add(reserveAndPower, 0, rest, chosen)
		}
	}
	for _, name := range order {
		c.parts = append(c.parts, *by[name])
	}
	c.changes = true
	return nil
}

// write writes why the pod of a record got its node, or none. For a decision in the shadow it writes where the pod would go.
func write(w io.Writer, r decision.Record, net *infer.Network) error {
	var b strings.Builder
	fmt.Fprintf(&b, "Pod %s/%s, %s, scheduler %s%s.\n", r.Namespace, r.Pod, r.Time.UTC().Format("2006-01-02 15:04:05 UTC"),
		r.Profile, inShadow(r))
	if r.Node == "" {
		fmt.Fprintf(&b, "It %s no node: %s.\n", tense(r, "found", "would find"), strings.TrimSuffix(r.Failure, "."))
		if r.Nominated != "" {
			fmt.Fprintf(&b, "Preemption makes room for it on %s.\n", r.Nominated)
		}
	} else {
		choice(&b, r)
	}
	refused(&b, r)
	candidates(&b, r)
	if chosen, known := r.Find(r.Node); known {
		differences(&b, r, chosen, net)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// tense returns what to say of a decision, or would if it was made in the shadow of another scheduler.
func tense(r decision.Record, did, would string) string {
	if r.Outcome == decision.Shadow {
		return would
	}
	return did
}

// inShadow says of a decision in the shadow that it placed nothing.
func inShadow(r decision.Record) string {
	switch {
	case r.Outcome != decision.Shadow:
		return ""
	case r.Really == "" && r.Node == "":
		return " in the shadow: it places nothing. The pod really got no node either"
	case r.Really == "":
		return " in the shadow: it places nothing. The pod would go to " + r.Node + ", and really got no node"
	case r.Node == "":
		return " in the shadow: it places nothing. The pod is really on " + r.Really
	case r.Node == r.Really:
		return " in the shadow: it places nothing. The pod would go to " + r.Node + ", where it really is"
	}
	return " in the shadow: it places nothing. The pod would go to " + r.Node + ", and is really on " + r.Really
}

// choice writes what was chosen, and how clearly.
func choice(b *strings.Builder, r decision.Record) {
	if len(r.Best) == 0 {
		fmt.Fprintf(b, "%s %s the only feasible node, so nothing %s scored.\n", r.Node, tense(r, "was", "would be"), tense(r, "was", "would be"))
	} else {
		fmt.Fprintf(b, "%s %s %s among %d feasible nodes in %.0f µs.\n", by(r), tense(r, "chose", "would choose"), r.Node, r.Feasible, r.Latency)
	}
	if r.Preferred < r.Feasible {
		fmt.Fprintf(b, "What manifests prefer left %d of them.\n", r.Preferred)
	}
	switch {
	case r.RunnerUp == "":
	case r.Margin == nil:
		fmt.Fprintf(b, "The chosen node is not among the best that are recorded: scores were equal, blended, or the scheduler explored.\n")
	case *r.Margin < 0 && spreads(r):
		fmt.Fprintf(b, "The policy scores %s %.4g higher; the default spreading of replicas outweighs that.\n", r.RunnerUp, -*r.Margin)
	case *r.Margin < 0:
		fmt.Fprintf(b, "Its score is %.4g below that of %s: other scores were blended in, or the scheduler explored.\n", -*r.Margin, r.RunnerUp)
	default:
		fmt.Fprintf(b, "The runner-up is %s, %.4g behind.\n", r.RunnerUp, *r.Margin)
	}
	switch d := r.Default; {
	case d == nil && (r.Fallback != "" || r.Group == "rest"):
	case d == nil:
		b.WriteString("The default profile was not asked.\n")
	case d.Node == r.Node:
		fmt.Fprintf(b, "The default profile would have chosen it too%s.\n", ties(d.Ties))
	default:
		fmt.Fprintf(b, "The default profile would have chosen %s%s.\n", d.Node, ties(d.Ties))
	}
	devices(b, r)
	if r.Outcome != decision.Bound && r.Outcome != decision.Shadow {
		b.WriteString("The scheduler had not heard that the pod was bound.\n")
	}
}

// spreads reports whether replicas would be spread worse with the runner-up than with the chosen node.
func spreads(r decision.Record) bool {
	chosen, known := r.Find(r.Node)
	up, others := r.Find(r.RunnerUp)
	return known && others && chosen.Spread > up.Spread
}

// devices writes which devices the pod got, and which GPUs it would have got on the runner-up.
func devices(b *strings.Builder, r decision.Record) {
	if len(r.Claimed) == 0 && len(r.Devices) > 0 && r.Outcome == decision.Bound {
		fmt.Fprintf(b, "The pod has the GPU devices %s.\n", strings.Trim(fmt.Sprint(r.Devices), "[]"))
	}
	if chosen, known := r.Find(r.Node); known && len(chosen.Cards) > 0 {
		fmt.Fprintf(b, "Of the GPUs of %s the policy %s %s.\n", r.Node, tense(r, "chose", "would choose"),
			english.WordSeries(chosen.Cards, "and"))
	}
	if up, known := r.Find(r.RunnerUp); known && len(up.Cards) > 0 {
		fmt.Fprintf(b, "Of those of %s it %s %s.\n", up.Node, tense(r, "would have chosen", "would choose"),
			english.WordSeries(up.Cards, "and"))
	}
	if len(r.Claimed) == 0 {
		return
	}
	verb := "gave the pod"
	if r.Outcome != decision.Bound {
		verb = "would have given the pod"
	}
	fmt.Fprintf(b, "Its claims %s\n", verb)
	t := table.Of("DEVICE", "SHARE", "REQUEST", "CLAIM")
	for _, d := range r.Claimed {
		t.Add(d.Driver+"/"+d.Pool+"/"+d.Name, shareText(d.Milli), d.Request, cmp.Or(d.Claim, "of its extended resources"))
	}
	t.Columns(b)
}

// shareText writes thousandths of a GPU.
func shareText(milli int64) string {
	if milli <= 0 {
		return "-"
	}
	return strconv.FormatFloat(float64(milli)/cluster.DeviceMilli, 'f', -1, 64)
}

func by(r decision.Record) string {
	if r.Group == "rest" {
		return "The default profile's scoring, which decides for the rest of the share,"
	}
	if r.Fallback != "" {
		return fmt.Sprintf("Upstream's scoring, because %s failed (%s),", cmp.Or(r.Policy, "the network"), r.Fallback)
	}
	if r.Fingerprint != "" {
		return fmt.Sprintf("Network %s (weights %s)", r.Policy, r.Fingerprint)
	}
	return "Policy " + r.Policy
}

func ties(n int) string {
	switch n {
	case 0, 1:
		return ""
	case 2:
		return ", or another node that it scores the same"
	}
	return fmt.Sprintf(", or one of %d others that it scores the same", n-1)
}

// refused writes why nodes were refused.
func refused(b *strings.Builder, r decision.Record) {
	if len(r.Refused) == 0 {
		return
	}
	b.WriteString("\n")
	t := table.Of("REFUSED", "PLUGIN", "REASON")
	for _, f := range r.Refused {
		t.Add(f.Nodes, f.Plugin, f.Reason)
	}
	t.Columns(b)
}

// candidates writes the best nodes.
func candidates(b *strings.Builder, r decision.Record) {
	if len(r.Best) == 0 {
		return
	}
	b.WriteString("\n")
	t := table.Of("NODE", "SCORE", "")
	for _, c := range r.Best {
		mark := ""
		if c.Node == r.Node {
			mark = tense(r, "chosen", "would be chosen")
		} else if c.Node == r.RunnerUp {
			mark = "runner-up"
		}
		if r.Default != nil && r.Default.Node == c.Node {
			mark = strings.TrimPrefix(mark+", default's choice", ", ")
		}
		if r.Really == c.Node {
			mark = strings.TrimPrefix(mark+", really", ", ")
		}
		t.Add(c.Node, fmt.Sprintf("%.5g", c.Score), mark)
	}
	t.Columns(b)
}

// differences writes the comparisons with the runner-up and with the default's choice.
func differences(b *strings.Builder, r decision.Record, chosen decision.Candidate, net *infer.Network) {
	var others []string
	if r.RunnerUp != "" {
		others = append(others, r.RunnerUp)
	}
	if d := r.Default; d != nil && d.Node != r.Node && d.Node != r.RunnerUp {
		others = append(others, d.Node)
	}
	if _, known := r.Find(r.Really); known && r.Really != r.Node && !slices.Contains(others, r.Really) {
		others = append(others, r.Really)
	}
	for _, name := range others {
		fmt.Fprintf(b, "\nWhy %s and not %s: ", r.Node, name)
		other, known := r.Find(name)
		if !known {
			b.WriteString("what manifests prefer kept that node from the policy.\n")
			continue
		}
		c, err := compare(chosen, other, net)
		if err != nil {
			fmt.Fprintf(b, "%v.\n", err)
			continue
		}
		c.write(b)
		if slices.ContainsFunc(c.parts, func(p infer.Attribution) bool { return p.Name == costName && p.Part > 0 }) {
			keptFor(b, other)
		}
	}
}

// comingPods is of how many pods to come keptFor tells the share.
const comingPods = 40

// keptFor writes for which kind of pods a node is kept most.
func keptFor(b *strings.Builder, c decision.Candidate) {
	if c.Read == nil || len(c.Read.KeptFor) == 0 {
		return
	}
	k := c.Read.KeptFor[0]
	fmt.Fprintf(b, "%s is kept for pods with %s: if pods arrive as before, %.0f of the next %d, and there is room for %.0f. "+
		"This pod would take %.2g of it.\n", c.Node, k.Kind, comingPods*k.Share, comingPods, k.Room, k.Takes)
}

// shown is the number of features in a table. The others share its last row.
const shown = 8

func (c *comparison) write(b *strings.Builder) {
	if c.margin() == 0 && len(c.parts) > 0 && c.parts[0].Part == 0 {
		b.WriteString("the policy read the same of both and gave both the same score. The scheduler takes one of them.\n")
		return
	}
	fmt.Fprintf(b, "the scores differ by %.4g, of which\n", c.margin())
	if c.changes {
		b.WriteString("(under the nodes: by how much the placement changes the feature there)\n")
	}
	t := table.Of("FEATURE", c.chosen.Node, c.other.Node, "PART")
	rest, count := 0.0, 0
	for i, p := range c.parts {
		switch {
		case i >= shown && p.Part != 0:
			rest, count = rest+p.Part, count+1
		case p.Part == 0 && !strings.HasPrefix(p.Name, "v("):
		case p.Name == "zone" || p.Name == "groups" || p.Name == reserveAndPower:
			t.Add(p.Name, "", "", fmt.Sprintf("%+.4g", p.Part))
		default:
			t.Add(inWords(p.Name), valueText(p.To), valueText(p.From), fmt.Sprintf("%+.4g", p.Part))
		}
	}
	if count > 0 {
		t.Add(fmt.Sprintf("%d others", count), "", "", fmt.Sprintf("%+.4g", rest))
	}
	t.Columns(b)
	if c.margin() <= 0 {
		return
	}
	if c.flip == nil || math.IsInf(c.flip.to, 0) {
		fmt.Fprintf(b, "No possible change of one feature of %s, up to ±%d, would have given it the pod.\n", c.other.Node, farthest)
		return
	}
	fmt.Fprintf(b, "%s would have got the pod if only this feature had differed: %s %s instead of %s.\n",
		c.other.Node, inWords(c.flip.name), valueText(c.flip.to), valueText(c.flip.from))
}

// words says what features of linear policies mean, shorter than linear.Docs.
var words = map[string]string{
	"balance": "load gets more even", "used": "how full the node gets", "skew": "CPU and memory get more even",
	"share": "the pod's part of the node", "over": "nearer to the mean load", "match": "large pod, large node",
	"room": "room lost for large pods", "empty": "the node is empty", "size": "size of the node",
	costName: "what the pod takes from pods to come, logarithm",
}

// inWords returns a feature's meaning, with its name in docs/reference/features.md, or the name alone.
func inWords(name string) string {
	if text := words[name]; text != "" {
		return fmt.Sprintf("%s (%s)", text, name)
	}
	return name
}

// valueText writes a value of a feature. 0 has no sign, though a sum or product may be -0.
func valueText(x float64) string { return fmt.Sprintf("%.4g", x+0) }
