package traffic

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gnnsched/internal/cluster"
)

func TestConfigDefault(t *testing.T) {
	for _, c := range []struct {
		config Config
		err    string
	}{
		{config: Config{Network: links, Measured: Measured{Address: source}}},
		{config: Config{Network: links, Measured: Measured{Address: source}, RackLabel: "example.org/rack"}},
		{config: Config{Network: links}, err: "traffic: measured: address must be a URL"},
		{config: Config{}, err: "traffic: network: all distances are 0"},
		{config: Config{Network: links, RackLabel: "no label"}, err: `traffic: rackLabel "no label" is not the key of a label`},
		{config: Config{Network: cluster.Links{Zone: cluster.Hop{Latency: -1}}}, err: "zone.latency: -1 is not 0 to"},
	} {
		if err := c.config.Default(); (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%+v: error %v, want %q", c.config, err, c.err)
		}
	}
}

func TestLoad(t *testing.T) {
	for text, want := range map[string]string{
		"network:\n  zone: {latency: 1}\nmeasured: {address: 'https://p'}\n": "",
		"rackLabel: x\nnetwork: {}\n":                                        "all distances are 0",
		"network: {zones: {latency: 1}}\n":                                   `unknown field "zones"`,
		"network: {}\nnetwork: {}\n":                                         "already set",
		"traffic: {network: {}}\n":                                           `unknown field "traffic"`,
		"network: {distance: hops, node: {}}\n":                              `"hops" is not known`,
		"network: {node: {latency: 1ms}}\n":                                  "latency",
		"network: {zone: {latency: 1}}\n\x00":                                "control characters",
	} {
		path := filepath.Join(t.TempDir(), "network.yaml")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		c, err := Load(path)
		if (err == nil) != (want == "") || err != nil && (!strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), path)) {
			t.Errorf("%q: %+v, error %v, want %q", text, c, err, want)
		}
	}
	if c, err := Load(""); c != nil || err != nil {
		t.Errorf("no path: %+v, %v", c, err)
	}
	if _, err := Load(filepath.Join(t.TempDir(), "none")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
}
