package openb

import (
	"fmt"
	"path/filepath"
	"strings"
)

// Names of the trace's files.
const (
	NodesFile  = "openb_node_list_gpu_node.csv" // the nodes with GPUs
	podsPrefix = "openb_pod_list_"
	podsSuffix = ".csv"
)

// PodLists returns the sorted names of the pod lists in a folder, such as default for openb_pod_list_default.csv. It returns an error if
// there are none.
func PodLists(dir string) ([]string, error) {
	files, err := filepath.Glob(PodsFile(dir, "*"))
	if err != nil {
		return nil, err
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("%s holds no %s*%s", dir, podsPrefix, podsSuffix)
	}
	names := make([]string, len(files))
	for i, f := range files {
		names[i] = ListName(f)
	}
	return names, nil
}

// PodsFile returns the path of a pod list in a folder.
func PodsFile(dir, name string) string { return filepath.Join(dir, podsPrefix+name+podsSuffix) }

// ListName returns the name of the pod list in a file.
func ListName(path string) string {
	return strings.TrimSuffix(strings.TrimPrefix(filepath.Base(path), podsPrefix), podsSuffix)
}
