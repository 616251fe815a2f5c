package neural

import (
	"errors"
	"fmt"
	"io/fs"

	"gnnsched/gnn/checkpoint"
	"gnnsched/internal/exit"
)

// Load reads the weights of a network from a file, and tries the network on some decisions. Its errors have exit code 5 and
// say what to do.
func Load(path string) (*checkpoint.Checkpoint, error) {
	c, err := checkpoint.Load(path)
	if err == nil {
		if err = Try(c); err != nil {
			err = fmt.Errorf("load checkpoint %s: %w", path, err)
		}
	}
	switch {
	case err == nil:
		return c, nil
	case errors.Is(err, fs.ErrNotExist):
		return nil, exit.New(exit.Checkpoint, err, "train one with gnntrain, or leave --checkpoint out to use the one in the program")
	case errors.Is(err, checkpoint.ErrFile), errors.Is(err, fs.ErrPermission):
		return nil, exit.New(exit.Checkpoint, err, "name a file with weights that you can read")
	case errors.Is(err, ErrFails):
		return nil, exit.New(exit.Checkpoint, err, "its weights are of no use: take an earlier copy of the file, or train it again with gnntrain")
	case errors.Is(err, checkpoint.ErrSchema):
		return nil, exit.New(exit.Checkpoint, err, "train it again with this version's gnntrain")
	}
	return nil, exit.New(exit.Checkpoint, err, "the file is damaged: copy it again, or train it again with gnntrain")
}
