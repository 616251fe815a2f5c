package cluster

import (
	"encoding/json"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestResourcesJSON(t *testing.T) {
	full := Resources{MilliCPU: 16_000, Memory: 64 << 30, GPU: 2, Pods: 110}
	for text, want := range map[string]Resources{
		`{"cpu":"16","memory":"64Gi","gpu":2,"pods":110}`:            full,
		`{"cpu":16,"memory":68719476736,"gpu":2,"pods":110}`:         full,
		`{"MilliCPU":16000,"Memory":68719476736,"GPU":2,"Pods":110}`: full,
		`{"cpu":"500m"}`:   {MilliCPU: 500},
		`{"gpuMilli":460}`: {GPUMilli: 460},
		`{"cpu":1.5}`:      {MilliCPU: 1500},
		`{}`:               {},
	} {
		var got Resources
		if err := json.Unmarshal([]byte(text), &got); err != nil || got != want {
			t.Errorf("%s: %+v, %v", text, got, err)
		}
	}
	for text, say := range map[string]string{
		`{"cpus":1}`:            `unknown field "cpus"`,
		`{"cpu":"-1"}`:          `cpu: "-1" is negative`,
		`{"memory":"1GB"}`:      `memory: "1GB" is not an amount of memory`,
		`{"gpu":-1}`:            "gpu: -1 is negative",
		`{"gpuMilli":-1}`:       "gpuMilli: -1 is negative",
		`{"milliCPU":-1}`:       "milliCPU: -1 is negative",
		`{"pods":1.5}`:          "pods",
		`{"cpu":"x","pods":-1}`: "pods: -1 is negative",
		`[]`:                    "cannot unmarshal array",
	} {
		r := full
		if err := json.Unmarshal([]byte(text), &r); err == nil || !strings.Contains(err.Error(), say) || r != full {
			t.Errorf("%s: %+v, %v, want %q", text, r, err, say)
		}
	}
	if b, err := json.Marshal(full); err != nil || string(b) != `{"cpu":"16","memory":"64Gi","gpu":2,"pods":110}` {
		t.Errorf("%s, %v", b, err)
	}
}

func TestResourcesJSONRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := Resources{
			MilliCPU: rapid.Int64Range(0, MaxMilliCPU).Draw(t, "cpu"), Memory: rapid.Int64Range(0, MaxMemory).Draw(t, "memory"),
			GPU: rapid.Int64Range(0, 100).Draw(t, "gpu"), GPUMilli: rapid.Int64Range(0, 999).Draw(t, "milli"),
			Pods: rapid.Int64Range(0, 1000).Draw(t, "pods"),
		}
		b, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		var again Resources
		if err := json.Unmarshal(b, &again); err != nil || again != r {
			t.Fatalf("%+v became %s became %+v: %v", r, b, again, err)
		}
	})
}
