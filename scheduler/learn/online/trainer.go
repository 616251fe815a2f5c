//go:build torch

package online

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math/rand/v2"
	"path"
	"runtime"

	"gnnsched/gnn/checkpoint"
	"gnnsched/scheduler/experience"
	"gnnsched/scheduler/learn/run"
)

// Trainer continues the training of a network with the steps of running schedulers. The fields are
// set before Learn, which is called once.
type Trainer struct {
	Settings run.Settings // valid; schedules stay at their first value
	Method   Method
	WaitCost float64 // penalty for each pod that begins to wait, before scaling
	Guard    Guard   // judges every network before the schedulers get it
	State    string  // state file, from which a trainer after this one continues; empty for none

	Save     func(*checkpoint.Checkpoint) error // called with every network that passes; makes the schedulers load it
	Progress func(Progress)                     // called after every judgement, and now and then; may be nil
	Note     func(string)                       // called with other lines for the log; may be nil

	start   *checkpoint.Checkpoint
	kept    *checkpoint.Checkpoint // the network that the schedulers have
	steps   experience.Source
	source  *rand.PCG // of the learner's random numbers
	learner Learner
	last    map[string]experience.Step // by actor
	recent  []experience.Step          // the latest, for the guard
	figures run.Figures

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
	Stale          int     // steps that PPO left out, since another network made them
	Overruled      int     // steps whose node other scores chose; PPO leaves them out
	Passed         int     // networks that the guard let pass
	KeptBack       int     // networks that it refused
	Score          float64 // of the last network on the guard's episodes, less is better; 0 without episodes
	Limit          float64 // over which the guard would have refused it; 0 without episodes
	Loss           float64 // mean since the last report, like the next three
	Norm           float64 // of the gradient
	Reward         float64
	Cost           float64            // of the objective when the pods came
	Figures        map[string]float64 // more means of PPO, by the last part of their tags
}

// recentStates is how many of the latest states a network must score with finite numbers.
const recentStates = 32

// stateEvery is the number of steps after which the state is stored again: a trainer that is killed
// forgets no more than these.
const stateEvery = 1024

// maxActors is the number of actors after which all are forgotten. The trainer and the learner hold states of each, and a scheduler that
// starts again in another pod has another name.
const maxActors = 256

// The tags of figures that every learner has.
const (
	tagReward = "online/reward"
	tagCost   = "online/cost"
)

// learnerStream separates a learner's random numbers from the others that its seed gives.
const learnerStream = 0x6f6e6c696e65

// Learn learns from the source until it ends, starting from the weights of c. If the source ends
// with an error, Learn still judges and saves the network.
func (t *Trainer) Learn(r experience.Source, c *checkpoint.Checkpoint) error {
	runtime.LockOSThread() // as in run.Trainer.Train
	defer runtime.UnlockOSThread()
	t.steps = r
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
func (t *Trainer) begin(c *checkpoint.Checkpoint) (err error) {
	t.start, t.kept = c, c
	t.last = map[string]experience.Step{}
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
func (t *Trainer) newLearner() error {
	t.source = rand.NewPCG(t.Settings.Seed, learnerStream)
	l, err := t.Method.NewLearner(t.Settings, t.start, rand.New(t.source), &t.figures)
	if err == nil {
		t.learner = l
	}
	return err
}

// fits returns an error if a step's graph has other features than the network reads.
func fits(s experience.Step, c *checkpoint.Checkpoint) error {
	a := c.Manifest.Architecture
	layout, err := a.Layout()
	if err != nil || s.Features != layout.Hash() || !s.State.Has(layout.Widths) {
		return fmt.Errorf("step %d of %s has other features than the network %v; scheduler and trainer must start from one checkpoint",
			s.Number, s.Actor, a.Features)
	}
	return nil
}

// take learns from one step.
func (t *Trainer) take(s experience.Step) error {
	if err := fits(s, t.start); err != nil {
		return err
	}
	step := Step{Step: s}
	before, known := t.last[s.Actor]
	if !known && len(t.last) >= maxActors {
		clear(t.last)
		t.learner.Forget()
	}
	switch {
	case known && s.Follows(before):
		step.Contiguous, step.Reward = true, reward(t.Settings.Reward, t.Settings.Discount(), t.WaitCost, before, s)
		t.figures.Add(tagReward, step.Reward)
	case known && s.SameLife(before):
		t.count.Lost += int(s.Number - before.Number - 1)
	}
	t.last[s.Actor] = s
	t.count.Steps++
	t.figures.Add(tagCost, s.Before)
	if s.Overruled {
		t.count.Overruled++
	}
	if t.recent = append(t.recent, s); len(t.recent) > recentStates {
		t.recent = t.recent[1:]
	}
	updates, err := t.learner.Take(step)
	if err != nil {
		return err
	}
	if t.count.Updates += updates; t.count.Updates-t.judged >= t.learner.Habits().JudgeEvery {
		return t.judge()
	}
	if t.count.Steps-t.reported >= stateEvery { // shows that a learner without updates is alive
		t.report()
	}
	return nil
}

// end judges and saves what the latest steps have taught.
func (t *Trainer) end() error {
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
func (t *Trainer) judge() error {
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
func (t *Trainer) refuse(fault error) error {
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
func (t *Trainer) training() map[string]float64 {
	earlier := t.start.Manifest.Training
	training := map[string]float64{}
	maps.Copy(training, earlier)
	training["onlineSteps"] = earlier["onlineSteps"] + float64(t.count.Steps)
	training["onlineUpdates"] = earlier["onlineUpdates"] + float64(t.count.Updates)
	training[checkpoint.OriginFigure] = t.start.Origin()
	return training
}

func (t *Trainer) note(line string) {
	if t.Note != nil {
		t.Note(line)
	}
}

// report calls Progress.
func (t *Trainer) report() {
	p := t.count
	t.reported = p.Steps
	habits := t.learner.Habits()
	p.Stale = habits.Stale
	t.figures.Report(p.Steps, nil)
	p.Loss, p.Norm = t.figures.Last(habits.Loss), t.figures.Last(run.TagNorm)
	p.Reward, p.Cost = t.figures.Last(tagReward), t.figures.Last(tagCost)
	for _, tag := range habits.Figures {
		if p.Figures == nil {
			p.Figures = map[string]float64{}
		}
		p.Figures[path.Base(tag)] = t.figures.Last(tag)
	}
	if t.Progress != nil {
		t.Progress(p)
	}
}

// Method is a way to learn from a stream of steps, with its hyperparameters.
type Method interface {
	// NewLearner returns a learner that starts from the weights of start and has no memory. It
	// draws from rng and notes its figures in f.
	NewLearner(s run.Settings, start *checkpoint.Checkpoint, rng *rand.Rand, f *run.Figures) (Learner, error)
}

// Step is a scheduler's step with what the trainer knows about the one before it.
type Step struct {
	experience.Step
	// Contiguous tells that the actor's step before this one is not missing. Reward is that step's.
	Contiguous bool
	Reward     float64
}

// Learner learns from the steps of schedulers. Those of one actor come in the order in which they
// were made; the steps of different actors may alternate.
type Learner interface {
	// Take takes a step, and learns if that is due. It returns the number of updates.
	Take(s Step) (updates int, err error)
	// Forget drops what waits for further steps.
	Forget()
	// Checkpoint returns the network as it is now.
	Checkpoint() (*checkpoint.Checkpoint, error)
	// Habits returns how the trainer treats the learner.
	Habits() Habits
	// Keep notes that the schedulers continue with the network as it is now.
	Keep() error
	// Revert goes back to the network that was kept last.
	Revert() error
	// State returns the memory, from which Restore continues. Package gob encodes its values. The weights are not in it.
	State() ([]any, error)
	// Restore takes over a memory. read decodes its values into pointers. Restore returns the number of transitions that it
	// remembers. After an error the learner is of no use.
	Restore(read func(into ...any) error) (transitions int, err error)
	// Drop frees the networks.
	Drop()
}

// Habits guide a learner's trainer and describe its progress.
type Habits struct {
	JudgeEvery int      // updates between two judgements of the network
	Stale      int      // steps so far that were not learned from because another network made them
	Loss       string   // tag of the loss that progress shows
	Figures    []string // tags of more figures that progress shows
}

// state is the trainer's part of a state file, from which the next trainer continues. It is the first value; the learner's follow. The
// weights are not in the file: they are the checkpoint's.
type state struct {
	Architecture checkpoint.Architecture
	Origin       float64 // of the networks that the memory is about
	Source       []byte  // of the random numbers
	Guard        standing
}

// store writes the state file, if there is to be one.
func (t *Trainer) store() error {
	if t.State == "" {
		return nil
	}
	t.stored = t.count.Steps
	s := state{Architecture: t.start.Manifest.Architecture, Origin: t.start.Origin(), Guard: t.Guard.standing}
	learner, err := t.learner.State()
	if err == nil {
		s.Source, err = t.source.MarshalBinary()
	}
	if err == nil {
		err = run.WriteFile(t.State, append([]any{s}, learner...)...)
	}
	if err != nil {
		return fmt.Errorf("save the online trainer's state: %w", err)
	}
	return nil
}

// resume continues from the state file. A file that does not exist, is damaged or is about another
// network is no error: without the memory, learning is only slower.
func (t *Trainer) resume() error {
	if t.State == "" {
		return nil
	}
	var s state
	transitions, err := 0, run.ReadFile(t.State, &s)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err == nil && (!s.Architecture.Equal(t.start.Manifest.Architecture) || s.Origin != t.start.Origin()):
		err = errors.New("it is of another network's learning")
	case err == nil:
		transitions, err = t.learner.Restore(func(into ...any) error { return run.ReadFile(t.State, append([]any{nil}, into...)...) })
	}
	if err == nil {
		err = t.source.UnmarshalBinary(s.Source)
	}
	if err != nil {
		t.note(fmt.Sprintf("the state in %s cannot be used, so the memory starts empty: %v", t.State, err))
		t.learner.Drop() // it may have taken over a part
		return t.newLearner()
	}
	t.Guard.standing = s.Guard
	line := "continues from " + t.State
	if transitions > 0 {
		line += fmt.Sprintf(", with %d transitions", transitions)
	}
	t.note(line)
	return nil
}
