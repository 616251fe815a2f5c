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
	"gnnsched/scheduler/eval"
	"gnnsched/scheduler/learn/run"
	"gnnsched/scheduler/learn/value"
	"gnnsched/scheduler/sim"
)

// Job is a whole training run: how to learn, and on what. Its YAML form has the fields of Config and
// the environments. An environment has the fields of sim.Config. If it has the field scenario too,
// it is the scenario's, and the other fields replace parts of that:
//
//	variant: acgnn
//	steps: 500000
//	rollouts: {envs: 64}
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
		Environment json.RawMessage   `json:"environment"`
		Also        []json.RawMessage `json:"also"`
		HeldOut     json.RawMessage   `json:"heldOut"`
		Judge       json.RawMessage   `json:"judge"`
	}{Config: &j.Config}
	if err := strict(asJSON, &file); err != nil {
		return j, err
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

// The flags of online learning.
const (
	Tolerance     = "tolerance"
	GuardEpisodes = "guard-episodes"
	Remember      = "replay-buffer-size"
	learningRate  = "learning-rate"
)

// OnlineFlags returns the flags that gnntrain --online and a scheduler that learns have in common, but that of the learning rate.
func OnlineFlags() []cli.Flag {
	return []cli.Flag{
		&cli.IntFlag{Name: Remember, Value: 4000, Usage: "`NUMBER` of snapshots of the cluster that learning draws from; " +
			"there is one for every 8 placements"},
		&cli.Float64Flag{Name: Tolerance, Value: 0.1,
			Usage: "how much worse than the best network so far a network may score, as a `SHARE` of that score"},
		&cli.IntFlag{Name: GuardEpisodes, Value: 8, Usage: "`NUMBER` of held-out episodes on which a network is judged before the scheduler " +
			"gets it; 0: its prices only have to be finite"},
	}
}

// OnlineFromFlags returns the valid configuration with which a network goes on learning, with the changes of the flags. The scheduler's
// command checks it before it starts a trainer, which checks it again.
func OnlineFromFlags(c *cli.Context, start *checkpoint.Checkpoint) (value.Config, error) {
	config, err := value.OnlineConfig(start)
	if err != nil {
		return config, err
	}
	if c.IsSet(learningRate) {
		config.LearningRate = c.Float64(learningRate)
	}
	if t := c.Float64(Tolerance); !(t >= 0) {
		return config, fmt.Errorf("--%s is %v, want 0 or more", Tolerance, t)
	}
	if n := c.Int(GuardEpisodes); n < 0 || n > 1000 {
		return config, fmt.Errorf("--%s is %d, want 0 to 1000", GuardEpisodes, n)
	}
	if n := c.Int(Remember); n < config.BatchSnapshots {
		return config, fmt.Errorf("--%s is %d, want %d or more", Remember, n, config.BatchSnapshots)
	}
	return config, config.Validate()
}
