package shadow

import (
	"errors"
	"time"

	v1 "k8s.io/api/core/v1"

	"gnnsched/internal/cluster"
	"gnnsched/internal/cluster/kube"
	"gnnsched/internal/runfolder"
	"gnnsched/scheduler/advise"
)

// film keeps both clusters for a run folder, and when they are kept next.
type film struct {
	due       time.Time
	decisions int // number of comparisons at which the next one is kept
}

// frame keeps a frame of both clusters if one is due, or in any case.
func (w *Watcher) frame(now time.Time, anyway bool) {
	if w.config.Keep == nil || now.Before(w.film.due) && !anyway {
		return
	}
	theirs, err := w.theirs.Nodes()
	own, err2 := w.ours.Nodes()
	if err := errors.Join(err, err2); err != nil {
		w.counts.Errors++
		w.log.Error(err, "The clusters are not kept for the run folder")
		return
	}
	at := now.Sub(w.begun)
	w.film.due = now.Add(runfolder.Pause(at, len(theirs)+len(own)))
	w.config.Keep(frameOf(theirName(w.config.Of), at, theirs, len(w.waiting)), frameOf(ourName(w.config.Name), at, own, len(w.ours.Waiting)))
}

func frameOf(contender string, at time.Duration, nodes []*cluster.Node, waiting int) runfolder.Frame {
	return runfolder.Frame{
		Scenario: folderScenario, Contender: contender, At: runfolder.Round(at.Seconds()), Waiting: waiting, Nodes: runfolder.Workers(nodes),
	}
}

// keepDecision keeps a comparison: the first hundred, and then one in ever more.
func (w *Watcher) keepDecision(p *v1.Pod, j judgement) {
	if w.config.Keep == nil || w.counts.Compared < w.film.decisions {
		return
	}
	w.film.decisions = w.counts.Compared + 1 + w.counts.Compared/100
	asks, _ := kube.Pod(p) // the trustworthy part of a faulty GPU request
	now, waited := w.config.Clock.Now(), 0.0
	if made := p.CreationTimestamp; !made.IsZero() {
		waited = max(now.Sub(made.Time).Truncate(time.Second).Seconds(), 0) // it has whole seconds
	}
	w.config.Keep(runfolder.Decision{
		Scenario: folderScenario, Contender: ourName(w.config.Name), At: runfolder.Round(now.Sub(w.begun).Seconds()), Waited: waited,
		Pod: advise.Shorten(p.Namespace+"/"+p.Name, maxText), Class: runfolder.ClassOf(asks.Requests), Feasible: j.Feasible,
		Node:  advise.Shorten(j.Node, maxText),
		Score: float64(j.Score), RunnerUp: advise.Shorten(j.RunnerUp, maxText), RunnerUpScore: float64(j.RunnerUpScore),
		Note: advise.Shorten("really on "+p.Spec.NodeName+": "+says[j.outcome], maxText),
	})
}
