package cluster

import (
	"math"
	"strings"
	"testing"
)

func TestPowerModelAt(t *testing.T) {
	straight, curved := PowerModel{Idle: 100, Full: 300}, PowerModel{Idle: 100, Full: 300, Curve: []float64{200, 220, 260}}
	for _, c := range []struct {
		model      PowerModel
		used, want float64
	}{
		{straight, 0, 100}, {straight, 0.25, 150}, {straight, 1, 300}, {straight, 1.5, 300}, {straight, -1, 100},
		{curved, 0, 100}, {curved, 0.125, 150}, {curved, 0.25, 200}, {curved, 0.5, 220}, {curved, 0.75, 260}, {curved, 0.875, 280},
		{curved, 1, 300},
	} {
		if got := c.model.At(c.used); math.Abs(got-c.want) > 1e-9 {
			t.Errorf("%+v draws %v W at %v, want %v", c.model, got, c.used, c.want)
		}
	}
}

func TestPowerModelValidate(t *testing.T) {
	sleep := func(w float64) *float64 { return &w }
	good := PowerModel{Idle: 100, Full: 300, Curve: []float64{150}, Sleep: sleep(5)}
	if err := good.Validate(); err != nil {
		t.Error(err)
	}
	for want, m := range map[string]PowerModel{
		"idle: -1 is not 0 to 100000 watts":   {Idle: -1, Full: 1},
		"full: 50 is not 100 to 100000 watts": {Idle: 100, Full: 50},
		"full: NaN":                           {Idle: 100, Full: math.NaN()},
		"full: 0 is not 0.001 to":             {},
		"curve[0]: 7 is not 0 to 2 watts":     {Idle: 1, Full: 2, Curve: []float64{7}},
		"curve[0]: -3":                        {Idle: 1, Full: 2, Curve: []float64{-3}},
		"curve: 100 values are more than 99":  {Idle: 0, Full: 2, Curve: make([]float64, 100)},
		"sleep: 101 is not 0 to 100 watts":    {Idle: 100, Full: 200, Sleep: sleep(101)},
	} {
		if err := m.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", m, err, want)
		}
	}
}
