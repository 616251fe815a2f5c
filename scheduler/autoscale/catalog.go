package autoscale

import (
	"time"

	v1 "k8s.io/api/core/v1"
)

// Catalog is what can be bought.
type Catalog struct {
	Types []Type
	Pools []Pool
	Notes []string // what the files hold and nothing here uses
}

// Type is a type of machine.
type Type struct {
	Name        string
	Capacity    v1.ResourceList
	Allocatable v1.ResourceList
	Labels      map[string]string // besides those of name, zone and capacity type, with architecture and operating system
	Offerings   []Offering
	Boot        time.Duration // from the start of a machine until it takes pods
	// Interruptions is how many of its spot machines the provider takes back, an hour and machine.
	Interruptions float64
}

// Offering is a place and a price for a type.
type Offering struct {
	Zone  string
	Spot  bool
	Price float64 // an hour, in any currency
}

// Pool is a set of types that an autoscaler may start, as a NodePool of Karpenter describes it.
type Pool struct {
	Name         string
	Weight       int32 // pools of higher weight come first
	Requirements []v1.NodeSelectorRequirement
	Labels       map[string]string
	Taints       []v1.Taint
	Limits       v1.ResourceList // of all its machines together; nil: none
	// Manifest is the whole NodePool in JSON, for a scaler that reads more of it.
	Manifest []byte
}
