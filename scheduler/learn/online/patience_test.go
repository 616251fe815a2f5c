//go:build torch

package online

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"gnnsched/gnn/checkpoint"
	"gnnsched/gnn/feature"
	"gnnsched/internal/fatal"
	"gnnsched/scheduler/experience"
	"gnnsched/scheduler/learn/learntest"
	"gnnsched/scheduler/learn/run"
)

// scripted is a Method and a Learner whose network after each update is the next in a list. log notes what the
// trainer does with them.
type scripted struct {
	recorder
	networks []*checkpoint.Checkpoint
	updates  int
	log      []string
}

func (s *scripted) NewLearner(run.Settings, *checkpoint.Checkpoint, *rand.Rand, *run.Figures) (Learner, error) {
	return s, nil
}

func (s *scripted) Take(Step) (int, error) { return 1, nil }

func (s *scripted) Checkpoint() (*checkpoint.Checkpoint, error) {
	s.updates++
	c := *s.networks[s.updates-1]
	return &c, nil
}

func (s *scripted) Keep() error           { s.log = append(s.log, "keep"); return nil }
func (s *scripted) Revert() error         { s.log = append(s.log, "revert"); return nil }
func (s *scripted) State() ([]any, error) { s.log = append(s.log, "store"); return nil, nil }

// Learning goes on from networks that the guard refuses until it has refused so many in a row, and goes back then. A
// network that is not finite ends this at once. Only networks that pass are saved, and the stored state is that of one.
func TestGuardIsPatient(t *testing.T) {
	good, bad := packs(t, -1), packs(t, 1)
	broken := packs(t, 1)
	broken.Weights["score.weight"].Data[0] = float32(math.NaN())
	for name, c := range map[string]struct {
		patience int
		networks []*checkpoint.Checkpoint
		want     string
		saved    int
	}{
		"it gets through a bad spell":           {3, []*checkpoint.Checkpoint{bad, bad, good}, "keep keep store", 1},
		"it goes back after so many":            {3, []*checkpoint.Checkpoint{bad, bad, bad, bad}, "keep revert revert store", 0},
		"the count begins anew after a pass":    {3, []*checkpoint.Checkpoint{bad, bad, good, bad, bad, good}, "keep keep keep store", 2},
		"the count begins anew when it is back": {2, []*checkpoint.Checkpoint{bad, bad, bad, good}, "keep revert keep store", 1},
		"no patience":                           {0, []*checkpoint.Checkpoint{bad, good}, "keep revert keep store", 1},
		"not finite":                            {3, []*checkpoint.Checkpoint{broken, good}, "keep revert keep store", 1},
	} {
		t.Run(name, func(t *testing.T) {
			var source list
			for i := range c.networks {
				source = append(source, experience.Step{Number: uint64(i + 1), State: learntest.Graph(t), Features: feature.Default().Hash()})
			}
			g := guard(t, 0.01)
			g.Patience = c.patience
			method, saved, refused := &scripted{networks: c.networks}, 0, 0
			trainer := Trainer{
				Method: method, Guard: *g, State: t.TempDir() + "/state",
				Save: func(k *checkpoint.Checkpoint) error {
					if saved++; k.Fingerprint() != good.Fingerprint() {
						t.Error("a network that the guard refused was saved")
					}
					return nil
				},
				Progress: func(p Progress) { refused = p.KeptBack },
				Note: func(line string) {
					if !strings.Contains(line, "learning goes") {
						t.Errorf("the note %q does not say how learning goes on", line)
					}
				},
			}
			fatal.If(t, trainer.Learn(&source, good))
			if got := strings.Join(method.log, " "); got != c.want || saved != c.saved ||
				refused != len(slices.DeleteFunc(c.networks, func(k *checkpoint.Checkpoint) bool { return k == good })) {
				t.Errorf("%s, %d saved, %d refused; want %s and %d", got, saved, refused, c.want, c.saved)
			}
		})
	}
}
