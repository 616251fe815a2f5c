package learn

import (
	"math"
	"testing"
)

func TestConfigValidate(t *testing.T) {
	for name, spoil := range map[string]func(*Config){
		"variant": func(c *Config) { c.Variant = "cnn" },
		"hidden":  func(c *Config) { c.Hidden = 0 },
		"seed":    func(c *Config) { c.Seed = 1 << 30 },
		"NaN":     func(c *Config) { c.LearningRate = math.NaN() },
		"memory":  func(c *Config) { c.Rollouts.Memory = c.BatchSize - 1 },
	} {
		c := defaults(t, "gnn")
		spoil(&c)
		if c.Validate() == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

// The defaults of every variant are valid.
func TestDefaults(t *testing.T) {
	for _, v := range variantNames() {
		c, err := defaultConfig(v)
		if err != nil || c.Validate() != nil {
			t.Errorf("%s: %v, %v", v, err, c.Validate())
		}
	}
	if _, err := defaultConfig("cnn"); err == nil {
		t.Error("an unknown variant has defaults")
	}
}

func defaults(t *testing.T, variant string) Config {
	t.Helper()
	c, err := defaultConfig(variant)
	if err != nil {
		t.Fatal(err)
	}
	return c
}
