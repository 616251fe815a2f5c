package learn

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"

	"github.com/urfave/cli/v2"
	strictjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	"gnnsched/gnn/checkpoint"
	"gnnsched/internal/exit"
	"gnnsched/scheduler/eval"
	"gnnsched/scheduler/learn/run"
	"gnnsched/scheduler/objective"
	"gnnsched/scheduler/sim"
)

// Job is a whole training run: how to learn, and on what. Its YAML form has the fields of Config and
// the environments. An environment has the fields of sim.Config. If it has the field scenario too,
// it is the scenario's, and the other fields replace parts of that:
//
//	variant: acgnn
//	method: ppo
//	steps: 500000
//	ppo: {envs: 64}
//	environment: {scenario: mixed, load: {min: 0.5, max: 0.95}}
type Job struct {
	Config
	Environment sim.Config   `json:"environment"`       // clusters and workloads to learn on
	Also        []sim.Config `json:"also,omitempty"`    // others to learn on, which the method's environments take in turn with those
	HeldOut     *sim.Config  `json:"heldOut,omitempty"` // those to evaluate on, with other seeds; nil for the same
	Judge       *sim.Config  `json:"judge,omitempty"`   // those to judge the chosen network on, once at the end; nil for none
}

// NewJob returns the default job of a variant.
func NewJob(variant string) (Job, error) {
	c, err := defaultConfig(variant)
	return Job{Config: c, Environment: run.BalanceEnv()}, err
}

// ReadJob decodes a YAML file. Fields that are not in it are the variant's defaults; variant is the
// name to use if the file has none. An unknown or repeated field and a value out of range are
// errors.
func ReadJob(file string, data []byte, variant string) (Job, error) {
	j, err := readJob(data, variant)
	if err == nil {
		err = j.Validate()
	}
	if err != nil {
		return j, fmt.Errorf("%s: %w", file, err)
	}
	return j, nil
}

func readJob(data []byte, variant string) (Job, error) {
	asJSON, err := yaml.YAMLToJSONStrict(data)
	if err != nil {
		return Job{}, err
	}
	first := struct {
		Variant string `json:"variant"`
	}{variant}
	if err := json.Unmarshal(asJSON, &first); err != nil {
		return Job{}, err
	}
	j, err := NewJob(first.Variant)
	if err != nil {
		return j, err
	}
	file := struct {
		*Config
		ByRollouts  bool              `json:"byRollouts"` // the old spelling of the method rollouts
		Environment json.RawMessage   `json:"environment"`
		Also        []json.RawMessage `json:"also"`
		HeldOut     json.RawMessage   `json:"heldOut"`
		Judge       json.RawMessage   `json:"judge"`
	}{Config: &j.Config}
	if err := strict(asJSON, &file); err != nil {
		return j, err
	}
	if file.ByRollouts {
		j.Method = byRollouts
	}
	if len(file.Environment) > 0 {
		if j.Environment, err = readEnvironment(file.Environment); err != nil {
			return j, fmt.Errorf("environment: %w", err)
		}
	}
	for i, text := range file.Also {
		c, err := readEnvironment(text)
		if err != nil {
			return j, fmt.Errorf("also, number %d: %w", i+1, err)
		}
		j.Also = append(j.Also, c)
	}
	if j.HeldOut, err = readOther("heldOut", file.HeldOut); err != nil {
		return j, err
	}
	j.Judge, err = readOther("judge", file.Judge)
	return j, err
}

// readOther decodes the environment of a field, or returns nil if the file lacks it.
func readOther(field string, data []byte) (*sim.Config, error) {
	if len(data) == 0 {
		return nil, nil
	}
	c, err := readEnvironment(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", field, err)
	}
	return &c, nil
}

// readEnvironment decodes a sim.Config, over that of a scenario if it names one.
func readEnvironment(data []byte) (c sim.Config, err error) {
	fields := map[string]json.RawMessage{}
	if err := json.Unmarshal(data, &fields); err != nil {
		return c, err
	}
	if name, ok := fields["scenario"]; ok {
		var s string
		if err := json.Unmarshal(name, &s); err != nil {
			return c, fmt.Errorf("scenario: %w", err)
		}
		delete(fields, "scenario")
		if fields, err = over(s, fields); err != nil {
			return c, err
		}
		if data, err = json.Marshal(fields); err != nil {
			return c, err
		}
	}
	return c, strict(data, &c)
}

// over returns the fields of a scenario's configuration with some of them replaced.
func over(scenario string, fields map[string]json.RawMessage) (map[string]json.RawMessage, error) {
	c, err := EnvironmentByName(scenario)
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(c)
	if err != nil {
		return nil, err
	}
	all := map[string]json.RawMessage{}
	if err := json.Unmarshal(text, &all); err != nil {
		return nil, err
	}
	maps.Copy(all, fields)
	return all, nil
}

// EnvironmentByName returns the clusters and workloads of a scenario: one of package eval's, or
// gnntrain's default, whose name is "training".
func EnvironmentByName(name string) (sim.Config, error) {
	if name == trainingEnv {
		return run.BalanceEnv(), nil
	}
	s, err := eval.Find(name)
	if err != nil {
		return sim.Config{}, fmt.Errorf("%w; and %s, the default", err, trainingEnv)
	}
	return s.Config, nil
}

// OnRecord returns the job with the nodes and pods of the record in a folder, and the job's objective. The best network is chosen on pods
// that arrived after those that it learns from, and judged on still later ones, if the record is long enough for both.
func (j Job) OnRecord(dir string) (Job, eval.Recorded, error) {
	r, err := eval.OfRecord(dir, j.Environment.Objective, eval.ThreeParts)
	if err != nil {
		return j, r, err
	}
	j.Environment, j.Also, j.HeldOut, j.Judge = r.Learn.Config, nil, &r.Judge.Config, nil
	if r.Choose != nil {
		j.HeldOut, j.Judge = &r.Choose.Config, &r.Judge.Config
	}
	return j, r, j.Validate()
}

// trainingEnv is the name of run.BalanceEnv.
const trainingEnv = "training"

func strict(data []byte, into any) error {
	faults, err := strictjson.UnmarshalStrict(data, into)
	return errors.Join(append(faults, err)...)
}

// Validate reports the first fault of the job.
func (j Job) Validate() error {
	if err := j.Config.Validate(); err != nil {
		return err
	}
	if err := errors.Join(j.Environment.Objective.Validate(), j.Environment.Validate()); err != nil {
		return fmt.Errorf("environment: %w", err)
	}
	if j.Imitation.Taught() && !run.IsNetwork(j.Imitation.Teacher) { // a run that began elsewhere may have had it
		if _, err := run.TeacherByName(j.Imitation.Teacher, nil); err != nil {
			return err
		}
	}
	for i, c := range j.Also {
		if err := validateOther(fmt.Sprintf("also, number %d", i+1), &c); err != nil {
			return err
		}
		if got, want := c.Objective.Name(), j.Environment.Objective.Name(); got != want {
			return fmt.Errorf("also, number %d: its objective is %s, not %s", i+1, got, want)
		}
	}
	return errors.Join(validateOther("heldOut", j.HeldOut), validateOther("judge", j.Judge))
}

// validateOther reports the first fault of the environment of a field, which may lack.
func validateOther(field string, c *sim.Config) error {
	if c == nil {
		return nil
	}
	if err := c.Validate(); err != nil {
		return fmt.Errorf("%s: %w", field, err)
	}
	return nil
}

// Evaluation returns the clusters and workloads to evaluate on.
func (j Job) Evaluation() sim.Config {
	if j.HeldOut != nil {
		return *j.HeldOut
	}
	return j.Environment
}

// Judgement plays the job's episodes for judging with the network that the run chose. The job must have Judge.
func (j Job) Judgement(c *checkpoint.Checkpoint) (run.Judgement, error) {
	held, err := run.NewHeldOut(*j.Judge, j.EvaluateSeeds)
	if err != nil {
		return run.Judgement{}, fmt.Errorf("judge: %w", err)
	}
	held.After(j.EvaluateSeeds) // Judge may have the clusters and workloads on which the network was chosen
	return held.Judge(c, j.Imitation, j.Unscheduled)
}

// YAML returns the job as a file that ReadJob reads.
func (j Job) YAML() ([]byte, error) { return yaml.Marshal(j) }

// onlineHalfLife is the half-life, in placements, with which learning from a stream discounts rewards by default.
const onlineHalfLife = 30

// onlineJob returns the job with which the network of c continues to learn from a running scheduler:
// the job of its training, with changes. What its manifest does not say has the variant's default
// and the checkpoint's objective.
//
// The reward is the fall of the cost until the next decision, with a half-life as discount, unless the training
// had a half-life of its own: the shaped reward of the shipped networks needs the end of an episode, which a stream
// does not have. There is no teacher. A trained network's learning rates are those at the end of its training, and
// an untrained one's those at the start. All other schedules stay at their first value.
// Environment.WaitCost is the penalty for a pod that has to wait. On Evaluation, every network is
// judged before the scheduler gets it.
//
// A network that checkpoint.Checkpoint.CheckOnline refuses is an error.
func onlineJob(c *checkpoint.Checkpoint) (Job, error) {
	a := c.Manifest.Architecture
	if err := c.CheckOnline(); err != nil {
		return Job{}, exit.New(exit.Usage, err, "run it without --learn")
	}
	j, err := NewJob(onlineVariant(a))
	if err != nil {
		return j, err
	}
	if o, err := objective.Parse(c.Manifest.Objective); err == nil { // a network of random weights has none
		j.Environment.Objective = o
	}
	variant, method := j.Variant, j.Method
	if len(c.Manifest.Config) > 0 {
		if err := json.Unmarshal(c.Manifest.Config, &j); err != nil {
			return j, fmt.Errorf("training configuration in the checkpoint: %w", err)
		}
	}
	j.Variant, j.Method = variant, method // there are no rollouts on a cluster
	j.Hidden, j.Features = a.Hidden, a.Features
	j.Imitation = run.Imitation{}
	j.Judge = nil // a stream has no end at which to judge
	if j.HalfLife == 0 || j.Reward.Kind == run.ShapedReward {
		j.Reward.Kind, j.HalfLife = run.StepReward, onlineHalfLife
	}
	fall := 1.0 // of the learning rates
	if _, trained := c.Manifest.Training["step"]; trained {
		fall = j.LearningRateAt(j.Steps) / j.LearningRate
	}
	j.LearningRate *= fall
	j.PPO = j.PPO.Online(fall)
	return j, nil
}

// onlineVariant returns the variant with a network's encoder and head.
func onlineVariant(a checkpoint.Architecture) (name string) {
	for _, v := range variants {
		if v.head == a.Head && (v.encoder == checkpoint.GNN) == (a.Encoder == checkpoint.GNN) {
			name = v.name
		}
	}
	return name
}

// The flags of online learning that are not hyperparameters.
const (
	Tolerance     = "tolerance"
	GuardEpisodes = "guard-episodes"
)

// OnlineFlags returns the flags that gnntrain --online and a scheduler that learns have in common.
func OnlineFlags() []cli.Flag {
	return []cli.Flag{
		&cli.Float64Flag{Name: Tolerance, Value: 0.1,
			Usage: "how much worse than the best network so far a network may score, as a `SHARE` of the default scoring's score"},
		&cli.IntFlag{Name: GuardEpisodes, Value: 8, Usage: "`NUMBER` of held-out episodes on which a network is judged before the scheduler " +
			"gets it; 0: its scores only have to be finite"},
	}
}

// OnlineJobFromFlags returns the valid job of learn.OnlineJobFromFlags with the changes of the flags. The scheduler's
// command checks it before it starts a trainer, which checks it again.
func OnlineJobFromFlags(c *cli.Context, start *checkpoint.Checkpoint) (Job, error) {
	job, err := onlineJob(start)
	if err != nil {
		return job, err
	}
	ApplyFlags(c, &job.Config)
	if t := c.Float64(Tolerance); !(t >= 0) {
		return job, fmt.Errorf("--%s is %v, want 0 or more", Tolerance, t)
	}
	if n := c.Int(GuardEpisodes); n < 0 || n > 1000 {
		return job, fmt.Errorf("--%s is %d, want 0 to 1000", GuardEpisodes, n)
	}
	return job, job.Validate()
}
