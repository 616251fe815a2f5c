package run

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"gnnsched/gnn/checkpoint"
	"gnnsched/gnn/feature"
	"gnnsched/internal/choice"
	"gnnsched/internal/fragmentation"
	"gnnsched/scheduler/objective"
	"gnnsched/scheduler/policy"
	"gnnsched/scheduler/policy/wish"
)

// greedyTeacher is the teacher of runs with wishes: the policy that is greedy for the objective of the episode.
const greedyTeacher = "greedy"

// wisher is a policy that reads the objective.
type wisher interface{ Wish(w feature.Wishes) }

// knower is a policy that reads the typical pods.
type knower interface {
	Know(t *fragmentation.Typical)
}

// Wishing returns what a network reads of the objective o of an environment, and what its manifest says about it:
// nothing, unless its features depend on the objective.
func (s Settings) Wishing(a checkpoint.Architecture, o objective.Mix) (feature.Wishes, []checkpoint.Wish, error) {
	layout, err := a.Layout()
	if err != nil {
		return feature.Wishes{}, nil, err
	}
	if !layout.Wishes {
		if len(s.Wishes) > 0 {
			return feature.Wishes{}, nil, errors.New("wishes: add the set wishes to the features")
		}
		return feature.Wishes{}, nil, nil
	}
	w, err := wish.Of(o)
	if err != nil {
		return w, nil, fmt.Errorf("objective %s: %w", o.Name(), err)
	}
	var known []checkpoint.Wish
	for i, t := range feature.WishTerms {
		share := float64(w[i])
		switch {
		case slices.Contains(s.Wishes, t.Name):
			known = append(known, checkpoint.Wish{Term: t.Name, Share: share, Least: 0, Most: 1})
		case share == 0:
		case len(s.Wishes) > 0:
			return w, nil, fmt.Errorf("wishes: the objective %s has %s, which they lack", o.Name(), t.Name)
		default:
			known = append(known, checkpoint.Wish{Term: t.Name, Share: share, Least: share, Most: share})
		}
	}
	return w, known, s.validateWishes()
}

func (s Settings) validateWishes() error {
	if len(s.Wishes) == 0 {
		return nil
	}
	for i, w := range s.Wishes {
		if !slices.Contains(wish.Terms(), w) || slices.Contains(s.Wishes[:i], w) {
			return fmt.Errorf("wishes: %q is not known, or named twice%s", w, choice.Among(w, wish.Terms()))
		}
	}
	if s.Imitation.Taught() && s.Imitation.Teacher != greedyTeacher {
		return fmt.Errorf("wishes: the teacher is %q, want %s: one that follows the episode's objective", s.Imitation.Teacher, greedyTeacher)
	}
	return nil
}

// teacherOf returns the policy to imitate in episodes with an objective, whose pods have these typical ones.
func (s Settings) teacherOf(o objective.Mix, typical *fragmentation.Typical) (policy.Policy, error) {
	if len(s.Wishes) == 0 {
		return TeacherByName(s.Teaching().Teacher, typical)
	}
	return TeacherByName(greedyTeacher+":"+strings.ReplaceAll(o.Name(), ",", "+"), typical)
}

// draw makes the objective of the episode of e.Seed that of the simulator, of the teacher and of the network.
func (e *Environment) draw() error {
	if len(e.settings.Wishes) == 0 {
		return nil
	}
	e.wishes = wish.Draw(e.Seed, e.settings.Wishes)
	o := wish.Mix(e.wishes)
	e.env.Aim(o)
	if e.encoder != nil {
		e.encoder.Wish(e.wishes)
	}
	if e.teacher == nil {
		return nil
	}
	var err error
	e.teacher, err = e.settings.teacherOf(o, e.env.Typical())
	return err
}
