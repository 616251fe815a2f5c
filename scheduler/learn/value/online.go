//go:build torch

package value

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math/rand/v2"
	"runtime"

	"gnnsched/gnn/checkpoint"
	"gnnsched/gnn/feature"
	"gnnsched/gnn/torch"
	"gnnsched/scheduler/experience"
)

// Online continues the training of a network on the graph of kinds with the steps of running schedulers. The fields are
// set before Learn, which is called once.
type Online struct {
	Config   Config // of OnlineConfig, maybe changed
	Remember int    // latest snapshots, from which updates draw; at least Config.BatchSnapshots
	Guard    Guard  // judges every network before the schedulers get it
	State    string // state file, from which a trainer after this one continues; empty for none

	Save     func(*checkpoint.Checkpoint) error // called with every network that passes; makes the schedulers load it
	Progress func(Progress)                     // called after every judgement, and now and then; may be nil
	Note     func(string)                       // called with other lines for the log; may be nil

	start   *checkpoint.Checkpoint
	kept    *checkpoint.Checkpoint // the network that the schedulers have
	source  *rand.PCG              // of the learner's random numbers
	learner *learner
	encoder kindEncoder
	memory  []snapshot
	actors  map[string]*stream
	recent  []experience.Step // the latest, for the guard
	figures figures

	count    Progress
	judged   int // updates when the network was last judged
	refused  int // networks in a row that the guard refused since the learner last was at one that passed
	stored   int // steps when the state was last stored
	reported int // steps at the last report
}

// Progress is how far online learning is. The counts are of this process.
type Progress struct {
	Steps, Updates int
	Lost           int     // steps that are missing in the stream
	Passed         int     // networks that the guard let pass
	KeptBack       int     // networks that it refused
	Score          float64 // of the last network on the guard's episodes, less is better; 0 without episodes
	Limit          float64 // over which the guard would have refused it; 0 without episodes
	Loss           float64 // mean since the last report, like the next two
	Norm           float64 // of the gradient
	Cost           float64 // what waited when pods were placed, in percent of the cluster
}

const (
	// recentStates is how many of the latest states a network must score with finite numbers.
	recentStates = 32
	// stateEvery is the number of steps after which the state is stored again: a trainer that is killed forgets no more than these.
	stateEvery = 1024
	// judgeEvery is the number of updates between two judgements of the network.
	judgeEvery = 64
	// maxActors is the number of actors after which all are forgotten. A scheduler that starts again in another pod has another name.
	maxActors = 256

	tagCost = "online/cost"
	// learnerStream separates a learner's random numbers from the others that its seed gives.
	learnerStream = 0x6f6e6c696e65
)

// Learn learns from the source until it ends, starting from the weights of c. If the source ends
// with an error, Learn still judges and saves the network.
func (t *Online) Learn(r experience.Source, c *checkpoint.Checkpoint) error {
	runtime.LockOSThread() // as in Trainer.Train
	defer runtime.UnlockOSThread()
	if err := t.begin(c); err != nil {
		return err
	}
	defer func() { t.learner.Drop() }()
	for {
		s, err := r.Next()
		if err == io.EOF { //nolint:errorlint // the bare one is the good end
			return t.end()
		}
		if err != nil {
			return errors.Join(err, t.end())
		}
		if err := t.take(s); err != nil {
			return err // the weights may be wrong; the network saved before them is not
		}
	}
}

// begin makes the learner, with the memory of an earlier one if there is a state.
func (t *Online) begin(c *checkpoint.Checkpoint) (err error) {
	t.start, t.kept, t.actors, t.encoder = c, c, map[string]*stream{}, newKindEncoder(t.Config)
	if err := t.newLearner(); err != nil {
		return err
	}
	if err = t.resume(); err == nil && t.Guard.Exam != nil {
		err = t.Guard.begin(c)
	}
	if err == nil {
		err = t.learner.Keep()
	}
	if err != nil {
		t.learner.Drop()
	}
	return err
}

// newLearner makes a learner without memory.
func (t *Online) newLearner() (err error) {
	t.source, t.memory = rand.NewPCG(t.Config.Seed, learnerStream), nil
	t.learner, err = newLearner(t.Config, t.start)
	return err
}

// take learns from one step.
func (t *Online) take(s experience.Step) error {
	a := t.actors[s.Actor]
	if a == nil {
		if len(t.actors) >= maxActors {
			clear(t.actors)
		}
		a = &stream{sums: map[uint64]float64{}}
		t.actors[s.Actor] = a
	} else if s.SameLife(a.last) && s.Number > a.last.Number {
		t.count.Lost += int(s.Number - a.last.Number - 1)
	}
	t.count.Steps++
	t.figures.Add(tagCost, s.Waits())
	if t.recent = append(t.recent, s); len(t.recent) > recentStates {
		t.recent = t.recent[1:]
	}
	ready := a.take(s, t.Config, t.encoder)
	t.memory = append(t.memory, ready...)
	if over := len(t.memory) - t.Remember; over > 0 {
		t.memory = t.memory[over:]
	}
	if len(t.memory) >= t.Config.BatchSnapshots {
		for range ready {
			if err := t.update(); err != nil {
				return err
			}
		}
	}
	if t.count.Updates-t.judged >= judgeEvery {
		return t.judge()
	}
	if t.count.Steps-t.reported >= stateEvery { // shows that a learner without updates is alive
		t.report()
	}
	return nil
}

// update takes one step of the optimiser on snapshots drawn from the memory.
func (t *Online) update() error {
	rng := rand.New(t.source)
	batch := make([]*snapshot, t.Config.BatchSnapshots)
	for k := range batch {
		batch[k] = &t.memory[rng.IntN(len(t.memory))]
	}
	l, err := t.learner.update(rng, batch, t.Config.LearningRate, t.Config.Averaging, false)
	if err != nil {
		return err
	}
	t.count.Updates++
	t.figures.Add(tagValueLoss, l.value)
	t.figures.Add(tagNorm, l.norm)
	return nil
}

// stream is the latest steps of an actor: how much each kind has waited at all of them, and the snapshots whose horizon is not over.
type stream struct {
	last  experience.Step
	steps int
	sums  map[uint64]float64 // by kind, in percent of the cluster times steps
	open  []open
}

// open is a snapshot that waits for its targets.
type open struct {
	snapshot
	keys       []uint64  // of its kinds
	sums       []float64 // of each of them when it was taken
	since, due int       // steps
}

// The horizon counts at least and at most so many steps: what waits after a few says little, and a longer one makes learning late.
const leastHorizon, mostHorizon = 20, 2000

// take adds a step. It returns the snapshots whose horizon is over, with their targets: what the pods of each kind have waited for on
// average since. The horizon is a part of the pods that run, as that in the simulator is of those that a cluster holds.
func (a *stream) take(s experience.Step, c Config, e kindEncoder) (ready []snapshot) {
	a.last, a.steps = s, a.steps+1
	for _, k := range s.Kinds {
		a.sums[k.Key] += k.Waits
	}
	for len(a.open) > 0 && a.open[0].due <= a.steps {
		o := a.open[0]
		a.open = a.open[1:]
		for i, key := range o.keys {
			o.Targets = append(o.Targets, targetOf((a.sums[key]-o.sums[i])/float64(o.due-o.since)))
		}
		ready = append(ready, o.snapshot)
	}
	if a.steps%c.SnapshotEvery == 0 {
		a.forget()
		o := open{snapshot: e.snapshot(seenOf(s), s.Cluster), since: a.steps}
		o.due = a.steps + min(max(int(c.Horizon*s.Cluster.Running), leastHorizon), mostHorizon)
		if n := len(a.open); n > 0 {
			o.due = max(o.due, a.open[n-1].due) // in order
		}
		for _, k := range s.Kinds {
			o.keys, o.sums = append(o.keys, k.Key), append(o.sums, a.sums[k.Key])
		}
		a.open = append(a.open, o)
	}
	return ready
}

// forget drops the sums of kinds that the last step does not have, and no snapshot waits for.
func (a *stream) forget() {
	if len(a.sums) <= 4*len(a.last.Kinds) {
		return
	}
	needed := map[uint64]bool{}
	for _, k := range a.last.Kinds {
		needed[k.Key] = true
	}
	for _, o := range a.open {
		for _, key := range o.keys {
			needed[key] = true
		}
	}
	maps.DeleteFunc(a.sums, func(key uint64, _ float64) bool { return !needed[key] })
}

// seenOf returns what a network may read of a step's kinds.
func seenOf(s experience.Step) []feature.Kind {
	out := make([]feature.Kind, len(s.Kinds))
	for i, k := range s.Kinds {
		out[i] = k.Seen
	}
	return out
}

// end judges and saves what the latest steps have taught.
func (t *Online) end() error {
	if t.count.Updates > t.judged {
		if err := t.judge(); err != nil {
			return err
		}
	}
	if t.refused > 0 { // the next trainer begins with the network that passed, and this state must be that network's
		if err := t.learner.Revert(); err != nil {
			return err
		}
	}
	if t.count.Steps > t.reported {
		t.report()
	}
	if t.count.Steps == 0 {
		return nil
	}
	return t.store()
}

// judge saves the network if the guard lets it pass. If not, learning goes on from it for a while, since a network on its
// way to a better one is often worse for some updates; then the learner reverts to the last one that passed.
func (t *Online) judge() error {
	t.judged = t.count.Updates
	c, err := t.learner.Checkpoint()
	if err != nil {
		return err
	}
	c.Manifest.Training = t.training()
	score, fault, err := t.Guard.judge(c, t.kept, t.recent)
	if err != nil {
		return fmt.Errorf("judge the network: %w", err)
	}
	t.count.Score, t.count.Limit = score, t.Guard.most
	if fault != nil {
		err = t.refuse(fault)
	} else if err = t.learner.Keep(); err == nil {
		t.kept, t.refused = c, 0
		t.count.Passed++
		err = t.Save(c)
		if err == nil && t.count.Steps-t.stored >= stateEvery {
			err = t.store()
		}
	}
	t.report()
	return err
}

// refuse notes that the guard refused the network because of fault, and reverts if it has refused enough of them.
func (t *Online) refuse(fault error) error {
	t.count.KeptBack++
	t.refused++
	line := fmt.Sprintf("the scheduler does not get the network after %d placements: %v", t.count.Steps, fault)
	if !t.Guard.gone(t.refused, fault) {
		t.note(fmt.Sprintf("%s; learning goes on from it (refusal %d of %d)", line, t.refused, t.Guard.Patience))
		return nil
	}
	t.note(line + "; learning goes back to the last one that passed")
	t.refused = 0
	return t.learner.Revert()
}

// training returns the training figures of a network's manifest: those of its earlier training,
// with the counts of all online learning so far.
func (t *Online) training() map[string]float64 {
	earlier := t.start.Manifest.Training
	training := map[string]float64{}
	maps.Copy(training, earlier)
	training["onlineSteps"] = earlier["onlineSteps"] + float64(t.count.Steps)
	training["onlineUpdates"] = earlier["onlineUpdates"] + float64(t.count.Updates)
	training[checkpoint.OriginFigure] = t.start.Origin()
	return training
}

func (t *Online) note(line string) {
	if t.Note != nil {
		t.Note(line)
	}
}

// report calls Progress.
func (t *Online) report() {
	p := t.count
	t.reported = p.Steps
	t.figures.Report(p.Steps, nil)
	p.Loss, p.Norm, p.Cost = t.figures.Last(tagValueLoss), t.figures.Last(tagNorm), t.figures.Last(tagCost)
	if t.Progress != nil {
		t.Progress(p)
	}
}

// onlineState is what a state file holds, from which the next trainer continues. The field names are those of the file. The weights are the
// checkpoint's, and lie here too, as those that learn are ahead of those that play.
type onlineState struct {
	Architecture checkpoint.Architecture
	Origin       float64 // of the networks that the memory is about
	Source       []byte  // of the random numbers
	Guard        standing
	Learner      torch.TraineeState
	Memory       []snapshot
}

// store writes the state file, if there is to be one.
func (t *Online) store() (err error) {
	if t.State == "" {
		return nil
	}
	t.stored = t.count.Steps
	s := onlineState{Architecture: t.start.Manifest.Architecture, Origin: t.start.Origin(), Guard: t.Guard.standing, Memory: t.memory}
	if s.Learner, err = t.learner.Export(); err == nil {
		s.Source, err = t.source.MarshalBinary()
	}
	if err == nil {
		err = writeFile(t.State, s)
	}
	if err != nil {
		return fmt.Errorf("save the online trainer's state: %w", err)
	}
	return nil
}

// resume continues from the state file. A file that does not exist, is damaged or is about another
// network is no error: without the memory, learning is only slower.
func (t *Online) resume() error {
	if t.State == "" {
		return nil
	}
	var s onlineState
	err := readFile(t.State, &s)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil && (!s.Architecture.Equal(t.start.Manifest.Architecture) || s.Origin != t.start.Origin()) {
		err = errors.New("it is of another network's learning")
	}
	if err == nil && len(s.Memory) > 0 {
		err = t.Config.check(s.Memory)
	}
	if err == nil {
		err = t.learner.Import(s.Learner)
	}
	if err == nil {
		err = t.source.UnmarshalBinary(s.Source)
	}
	if err != nil {
		t.note(fmt.Sprintf("the state in %s cannot be used, so the memory starts empty: %v", t.State, err))
		t.learner.Drop() // it may have taken over a part
		return t.newLearner()
	}
	t.Guard.standing, t.memory = s.Guard, s.Memory
	t.note(fmt.Sprintf("continues from %s, with %d snapshots", t.State, len(t.memory)))
	return nil
}
