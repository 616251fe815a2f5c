package kube

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"gnnsched/internal/cluster"
	"gnnsched/internal/exit"
)

// GPURequest is a pod's request for GPUs.
type GPURequest struct {
	GPU      int64    // whole devices
	GPUMilli int64    // thousandths of one device, 1 to 999; GPU is then 0
	Models   []string // the models that the pod accepts; empty: any
	// WantsIndex is set if the pod uses the resource or the annotations for shares. The scheduler
	// then writes its devices to GPUIndexAnnotation, over any that the owner wrote.
	WantsIndex bool
}

// None reports whether the pod requests no GPU.
func (r GPURequest) None() bool { return r.GPU == 0 && r.GPUMilli == 0 }

// GPURequestOf reads a pod's request for GPUs from its annotations and requested resources. A pod that requests no GPU has no models, even
// if its annotations name some.
//
// The error describes the fault. The request then holds the trustworthy part: if amounts contradict each other, the resources' amount,
// which the owner of a running pod cannot change; and if the models are malformed, no models.
func GPURequestOf(annotations map[string]string, requests Amounts) (GPURequest, error) {
	amount, words, err := gpuAmount(annotations, requests.GPU, requests.GPUMilli)
	out := GPURequest{GPU: amount.GPU, GPUMilli: amount.GPUMilli}
	if out.None() {
		return out, err
	}
	out.WantsIndex = words || annotations[GPUIndexAnnotation] != ""
	names, wrong := parseModels(annotations[GPUModelAnnotation])
	err = cmp.Or(err, wrong)
	out.Models = names
	return out, err
}

// maxGPUs is more than any node has. Amounts that are not much larger overflow in thousandths.
const maxGPUs = 1 << 20

// gpuAmount returns the GPU fields of a request, given the requested GPUResource and GPUMilliResource. words is true if the resource or an
// annotation for shares is used.
func gpuAmount(annotations map[string]string, whole, milli int64) (amount cluster.Resources, words bool, err error) {
	if whole > maxGPUs || milli > maxGPUs*cluster.DeviceMilli {
		return cluster.Resources{GPU: maxGPUs}, milli > 0, fmt.Errorf("it requests more than %d", maxGPUs)
	}
	annotated, err := annotatedAmount(annotations)
	if err != nil {
		return resourceAmount(whole, milli), milli > 0, err
	}
	sources := []cluster.Resources{{GPU: whole}, {GPU: milli / cluster.DeviceMilli, GPUMilli: milli % cluster.DeviceMilli}, annotated}
	for i, s := range sources {
		switch none := (cluster.Resources{}); {
		case s == none:
			continue
		case s.GPU > 0 && s.GPUMilli > 0:
			return resourceAmount(whole, milli), true, fmt.Errorf("it requests %d of %s; a share is less than %d, "+
				"and whole devices are a multiple of %d", milli, GPUMilliResource, cluster.DeviceMilli, cluster.DeviceMilli)
		case amount != none && amount != s:
			return resourceAmount(whole, milli), milli > 0, fmt.Errorf("its requests for %s and %s and its annotations %s and %s do "+
				"not ask for the same", GPUResource, GPUMilliResource, GPUCountAnnotation, GPUMilliAnnotation)
		}
		amount, words = s, words || i > 0
	}
	return amount, words, nil
}

// resourceAmount returns the GPU fields of a request from the resources alone. If the two
// resources disagree, the larger amount counts.
func resourceAmount(whole, milli int64) cluster.Resources {
	if whole == 0 && milli < cluster.DeviceMilli {
		return cluster.Resources{GPUMilli: milli}
	}
	devices := milli / cluster.DeviceMilli
	if milli%cluster.DeviceMilli > 0 {
		devices++
	}
	return cluster.Resources{GPU: max(whole, devices)}
}

// annotatedAmount returns the GPU fields of a request from the annotations alone.
func annotatedAmount(annotations map[string]string) (r cluster.Resources, err error) {
	count, hasCount := annotations[GPUCountAnnotation]
	milli, hasMilli := annotations[GPUMilliAnnotation]
	if !hasCount && !hasMilli {
		return r, nil
	}
	devices, err := parseAmount(GPUCountAnnotation, count, 1, cluster.MaxDevices)
	if err != nil {
		return r, err
	}
	each, err := parseAmount(GPUMilliAnnotation, milli, cluster.DeviceMilli, cluster.DeviceMilli)
	switch {
	case err != nil || devices == 0 || each == 0:
		return r, err
	case each == cluster.DeviceMilli:
		return cluster.Resources{GPU: devices}, nil
	case devices > 1:
		return r, fmt.Errorf("annotation %s is %d with a %s of %d; only a pod on one device may share it",
			GPUMilliAnnotation, each, GPUCountAnnotation, devices)
	}
	return cluster.Resources{GPUMilli: each}, nil
}

// parseAmount parses the annotation of the given name as a number from 0 to most. An empty value
// stands for missing.
func parseAmount(name, value string, missing, most int64) (int64, error) {
	if value == "" {
		return missing, nil
	}
	n, err := strconv.ParseInt(value, 10, 64)
	if err != nil || n < 0 || n > most {
		return 0, fmt.Errorf("annotation %s is %s, not a whole number from 0 to %d", name, exit.Quote(value), most)
	}
	return n, nil
}

// Bounds for GPUModelAnnotation, which may be as long as 256 KiB. No cluster has more models, and
// the value of a label is no longer.
const (
	maxModels    = 32
	maxModelName = 63
)

// parseModels splits a list of models such as A10|T4 and drops repeated ones.
func parseModels(s string) (out []string, err error) {
	if s == "" {
		return nil, nil
	}
	named := 0
	for m := range strings.SplitSeq(s, "|") {
		m = strings.TrimSpace(m)
		switch named++; {
		case named > maxModels:
			return nil, fmt.Errorf("annotation %s names more than %d models", GPUModelAnnotation, maxModels)
		case m == "":
			return nil, fmt.Errorf("annotation %s names no model before, after or between two |", GPUModelAnnotation)
		case len(m) > maxModelName:
			return nil, fmt.Errorf("annotation %s names a model of %d characters; a node's label has %d at most",
				GPUModelAnnotation, len(m), maxModelName)
		}
		if !slices.Contains(out, m) {
			out = append(out, m)
		}
	}
	return out, nil
}
