//go:build torch

package learn

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"runtime"

	"gnnsched/gnn/checkpoint"
	"gnnsched/gnn/graph"
	"gnnsched/scheduler/experience"
)

// Online goes on with a network's training on what a scheduler at work does.
type Online struct {
	Config   Config  // of OnlineJob; its schedules stand still
	WaitCost float64 // what the reward loses by each pod that has to wait, before scaling
	Guard    Guard   // judges every network before the scheduler gets it
	State    string  // file for what a trainer after this one goes on from; empty for none

	Save     func(*checkpoint.Checkpoint) error // gets the networks that pass, for the scheduler to load
	Progress func(OnlineProgress)               // called after every judgement, and now and then; may be nil
	Note     func(string)                       // gets what else is worth a line; may be nil

	start   *checkpoint.Checkpoint
	source  *rand.PCG // of the learner's random numbers
	learner onlineLearner
	last    experience.Step // the one before
	recent  []*graph.Graph  // the latest states, for the guard
	count   OnlineProgress
	judged  int // updates when the network was last judged
	stored  int // steps when the state was last stored
	told    int // steps at the last report
	rewards mean
	figures figures
}

// onlineLearner is deep Q-learning or PPO on a stream.
type onlineLearner interface {
	// take takes a step, and learns where it is time to. follows tells that the step before it is
	// not missing, and paid is the reward of that one. It returns how many updates it made.
	take(s experience.Step, paid float64, follows bool) (updates int, err error)
	checkpoint() (*checkpoint.Checkpoint, error)
	every() int                        // updates between two judgements
	keep(*checkpoint.Checkpoint) error // the scheduler goes on with this network
	revert() error                     // go back to the one last kept
	stale() int                        // steps of no use, since another network made them
	loss() string                      // tag of the loss that progress shows
	export() (onlineMemory, error)
	restore(onlineMemory) error
	drop()
}

// OnlineProgress is how far online learning is. The counts are of this process.
type OnlineProgress struct {
	Steps, Updates int
	Lost           int     // steps that are missing in the stream
	Stale          int     // steps that another network made than the one that PPO learns about
	KeptBack       int     // networks that the scheduler did not get
	Score          float64 // of the last network on the guard's episodes; 0 without
	Loss           float64 // means since the last report
	Norm           float64 // of the gradient
	Reward         float64
	Figures        map[string]float64 // of PPO: more means, by what their tags end with
}

// recentStates is how many of the scheduler's latest states a network has to have finite scores for.
const recentStates = 32

// stateEvery is how many steps of memory a trainer that is killed may lose.
const stateEvery = 1024

// Learn learns from the stream until that ends, starting from the weights of c. What was learned is
// judged and saved even where the stream ends with an error.
func (o *Online) Learn(r experience.Source, c *checkpoint.Checkpoint) error {
	runtime.LockOSThread() // as in Train
	defer runtime.UnlockOSThread()
	if err := o.begin(c); err != nil {
		return err
	}
	defer o.learner.drop()
	for {
		s, err := r.Next()
		if err == io.EOF { //nolint:errorlint // the bare one is the good end
			return o.end()
		}
		if err != nil {
			return errors.Join(err, o.end())
		}
		if err := o.take(s); err != nil {
			return err // the network is in doubt, and what was saved before is not
		}
	}
}

// begin prepares the learner, from what an earlier one has left.
func (o *Online) begin(c *checkpoint.Checkpoint) (err error) {
	if err := o.Config.Validate(); err != nil {
		return fmt.Errorf("training configuration: %w", err)
	}
	o.start = c
	if err := o.learnAnew(); err != nil {
		return err
	}
	if err = o.resume(); err == nil {
		err = o.Guard.begin(c)
	}
	if err == nil {
		err = o.learner.keep(c)
	}
	if err != nil {
		o.learner.drop()
	}
	return err
}

// learnAnew makes a learner that remembers nothing.
func (o *Online) learnAnew() (err error) {
	o.source = rand.NewPCG(o.Config.Seed, 0x6f6e6c696e65)
	var l onlineLearner
	if rng := rand.New(o.source); o.Config.head() == checkpoint.ActorCritic {
		l, err = newOnlinePPO(o.Config, o.start, rng, &o.figures)
	} else {
		l, err = newOnlineDQN(o.Config, o.start, rng, &o.figures)
	}
	if err == nil {
		o.learner = l
	}
	return err
}

// take learns from one step.
func (o *Online) take(s experience.Step) error {
	follows, paid := o.count.Steps > 0 && s.Follows(o.last), 0.0
	switch {
	case follows:
		paid = o.Config.Reward.of(o.last, s, o.Config.Gamma, o.WaitCost)
		o.rewards.add(paid)
	case o.count.Steps > 0 && s.SameLife(o.last):
		o.count.Lost += int(s.Number - o.last.Number - 1)
	}
	o.last = s
	o.count.Steps++
	if o.recent = append(o.recent, s.State); len(o.recent) > recentStates {
		o.recent = o.recent[1:]
	}
	updates, err := o.learner.take(s, paid, follows)
	if err != nil {
		return err
	}
	if o.count.Updates += updates; o.count.Updates-o.judged >= o.learner.every() {
		return o.judge()
	}
	if o.count.Steps-o.told >= stateEvery { // whoever learns nothing is to be heard of too
		o.report()
	}
	return nil
}

// end saves and stores what the stream has taught.
func (o *Online) end() error {
	if o.count.Updates > o.judged {
		if err := o.judge(); err != nil {
			return err
		}
	}
	if o.count.Steps > o.told {
		o.report()
	}
	if o.count.Steps == 0 {
		return nil
	}
	return o.store()
}

// judge hands the network on if the guard lets it pass. If not, learning goes back to the one that
// did last: what comes after a bad network is rarely better, and PPO needs steps of its own.
func (o *Online) judge() error {
	o.judged = o.count.Updates
	c, err := o.learner.checkpoint()
	if err != nil {
		return err
	}
	c.Manifest.Training = o.training()
	score, fault, err := o.Guard.judge(c, o.recent)
	if err != nil {
		return fmt.Errorf("judge the network: %w", err)
	}
	o.count.Score = score
	if fault != nil {
		o.count.KeptBack++
		o.note(fmt.Sprintf("the scheduler does not get the network after %d placements: %v; learning goes back to the one before", o.count.Steps, fault))
		err = o.learner.revert()
	} else if err = o.learner.keep(c); err == nil {
		err = o.Save(c)
		if err == nil && o.count.Steps-o.stored >= stateEvery {
			err = o.store()
		}
	}
	o.report()
	return err
}

// training are the figures of the network's earlier training and of all online learning so far.
func (o *Online) training() map[string]float64 {
	was := o.start.Manifest.Training
	training := map[string]float64{}
	maps.Copy(training, was)
	training["onlineSteps"], training["onlineUpdates"] = was["onlineSteps"]+float64(o.count.Steps), was["onlineUpdates"]+float64(o.count.Updates)
	training[originFigure] = origin(o.start)
	return training
}

func (o *Online) note(line string) {
	if o.Note != nil {
		o.Note(line)
	}
}

// report tells how far learning is.
func (o *Online) report() {
	p := o.count
	o.told = p.Steps
	p.Stale = o.learner.stale()
	o.figures.report(p.Steps, nil)
	p.Loss, p.Norm, p.Reward = o.figures.last(o.learner.loss()), o.figures.last(TagNorm), o.rewards.take()
	if o.Config.head() == checkpoint.ActorCritic {
		p.Figures = map[string]float64{
			"value_loss": o.figures.last(TagValueLoss), "entropy": o.figures.last(TagEntropy), "approx_kl": o.figures.last(TagKL),
			"clipfrac": o.figures.last(TagClipped), "explained_variance": o.figures.last(TagExplained),
		}
	}
	if o.Progress != nil {
		o.Progress(p)
	}
}
