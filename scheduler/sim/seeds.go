package sim

import "fmt"

const (
	// evaluationEnd is the end of the evaluation's seeds: the first seed that it may not use.
	evaluationEnd = 1 << 32
	// maxTraining is the largest --seed of a training run. It keeps the seeds of the run's episodes below 2⁶²,
	// the first one of the episodes that choose the best network.
	maxTraining = 1<<30 - 1
)

// TrainingEpisode returns the seed of the n-th episode of a training run.
func TrainingEpisode(seed, n uint64) uint64 { return seed*evaluationEnd + n }

// CheckTrainingSeed returns an error unless seed may be the --seed of training or tuning.
func CheckTrainingSeed(seed uint64) error {
	switch {
	case seed == 0:
		return fmt.Errorf("seed is 0: choose 1 to %d; the training episodes of seed 0 are episodes of the evaluation", maxTraining)
	case seed > maxTraining:
		return fmt.Errorf("seed is %d: choose 1 to %d; the training episodes of larger seeds are used to choose the best network",
			seed, maxTraining)
	}
	return nil
}

// CheckEvaluationSeeds returns an error unless the n seeds from first on may be an evaluation's.
func CheckEvaluationSeeds(first uint64, n int) error {
	if last := first + uint64(max(n, 1)) - 1; first >= evaluationEnd || last >= evaluationEnd {
		return fmt.Errorf("the evaluation's last seed is %d: choose seeds below %d; training uses the others", last, uint64(evaluationEnd))
	}
	return nil
}
