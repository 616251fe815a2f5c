package traffic

import (
	"cmp"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/yaml"

	"gnnsched/internal/cluster"
	"gnnsched/internal/files"
	"gnnsched/internal/promapi"
)

// defaultRackLabel is the default of Config.RackLabel.
const defaultRackLabel = "topology.kubernetes.io/rack"

// Config describes the network of a cluster, and where traffic is measured.
type Config struct {
	// Network is the network between the nodes, as a scenario has it.
	Network cluster.Links `json:"network"`
	// RackLabel is the label of nodes that names their rack within their zone, which the label topology.kubernetes.io/zone
	// names. The default is topology.kubernetes.io/rack.
	RackLabel string `json:"rackLabel,omitempty"`
	// Measured says where it is measured what workloads send each other.
	Measured Measured `json:"measured"`
}

// Default fills in what is left out, and returns what is wrong.
func (c *Config) Default() error {
	c.RackLabel = cmp.Or(c.RackLabel, defaultRackLabel)
	if faults := validation.IsQualifiedName(c.RackLabel); len(faults) > 0 {
		return fmt.Errorf("traffic: rackLabel %q is not the key of a label: %s", c.RackLabel, strings.Join(faults, "; "))
	}
	if err := c.Network.Validate(nil); err != nil {
		return fmt.Errorf("traffic: network: %w", err)
	}
	if err := c.Measured.complete(); err != nil {
		return fmt.Errorf("traffic: measured: %w", err)
	}
	return nil
}

// Load reads a configuration in YAML, which is valid; nil for no path.
func Load(path string) (*Config, error) {
	if path == "" {
		return nil, nil
	}
	text, err := files.Read(path, files.Text)
	if err != nil {
		return nil, err
	}
	c := &Config{}
	if err := yaml.UnmarshalStrict(text, c); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	checked := *c // what is left out stays out of --print-config
	if err := checked.Default(); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if _, err := promapi.New(c.Measured.Server); err != nil {
		return nil, fmt.Errorf("%s: measured: %w", path, err)
	}
	return c, nil
}
