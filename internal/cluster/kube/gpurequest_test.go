package kube

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"pgregory.net/rapid"

	"gnnsched/internal/cluster"
)

// requests builds a resource list from pairs of name and quantity.
func requests(pairs ...string) corev1.ResourceList {
	l := corev1.ResourceList{}
	for i := 0; i < len(pairs); i += 2 {
		l[corev1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
	}
	return l
}

// numbered returns a list of models 0|1|2 of the given length.
func numbered(models int) string {
	var out []string
	for i := range models {
		out = append(out, strconv.Itoa(i))
	}
	return strings.Join(out, "|")
}

func TestGPURequestOf(t *testing.T) {
	for _, c := range []struct {
		name        string
		annotations map[string]string
		requests    corev1.ResourceList
		want        GPURequest
		err         string
	}{
		{name: "nothing"},
		{name: "whole", requests: requests(GPUResource, "2"), want: GPURequest{GPU: 2}},
		{name: "whole, annotated", annotations: map[string]string{GPUCountAnnotation: "2", GPUMilliAnnotation: "1000"},
			requests: requests(GPUResource, "2"), want: GPURequest{GPU: 2, WantsIndex: true}},
		{name: "whole by annotations alone", annotations: map[string]string{GPUCountAnnotation: "4", GPUMilliAnnotation: "1000"},
			want: GPURequest{GPU: 4, WantsIndex: true}},
		{name: "count alone", annotations: map[string]string{GPUCountAnnotation: "4"}, want: GPURequest{GPU: 4, WantsIndex: true}},
		{name: "share by annotations", annotations: map[string]string{GPUCountAnnotation: "1", GPUMilliAnnotation: "460"},
			want: GPURequest{GPUMilli: 460, WantsIndex: true}},
		{name: "share alone", annotations: map[string]string{GPUMilliAnnotation: "460"}, want: GPURequest{GPUMilli: 460, WantsIndex: true}},
		{name: "share by request", requests: requests(GPUMilliResource, "460"), want: GPURequest{GPUMilli: 460, WantsIndex: true}},
		{name: "share by both", annotations: map[string]string{GPUMilliAnnotation: "460"}, requests: requests(GPUMilliResource, "460"),
			want: GPURequest{GPUMilli: 460, WantsIndex: true}},
		{name: "whole by milli", requests: requests(GPUMilliResource, "3000"), want: GPURequest{GPU: 3, WantsIndex: true}},
		{name: "none by annotations", annotations: map[string]string{GPUCountAnnotation: "0", GPUMilliAnnotation: "0"}},
		{name: "models", annotations: map[string]string{GPUModelAnnotation: "A10|T4"}, requests: requests(GPUResource, "1"),
			want: GPURequest{GPU: 1, Models: []string{"A10", "T4"}}},
		{name: "models of a pod without GPU", annotations: map[string]string{GPUModelAnnotation: "A10|T4"}},
		{name: "wrong models of a pod without GPU", annotations: map[string]string{GPUModelAnnotation: "|"}},
		{name: "models, untidy", annotations: map[string]string{GPUMilliAnnotation: "5", GPUModelAnnotation: " T4 |A10|T4"},
			want: GPURequest{GPUMilli: 5, Models: []string{"T4", "A10"}, WantsIndex: true}},
		{name: "as many models as there may be", annotations: map[string]string{GPUModelAnnotation: numbered(32)},
			requests: requests(GPUResource, "1"), want: GPURequest{GPU: 1, Models: strings.Split(numbered(32), "|")}},
		{name: "too many models", annotations: map[string]string{GPUMilliAnnotation: "5", GPUModelAnnotation: numbered(33)},
			want: GPURequest{GPUMilli: 5, WantsIndex: true}, err: "names more than 32 models"},
		{name: "one model, too often", annotations: map[string]string{GPUModelAnnotation: strings.Repeat("T4|", 40_000)},
			requests: requests(GPUResource, "1"), want: GPURequest{GPU: 1}, err: "names more than 32 models"},
		{name: "a model without a name", annotations: map[string]string{GPUModelAnnotation: "A10| |T4"},
			requests: requests(GPUMilliResource, "5"), want: GPURequest{GPUMilli: 5, WantsIndex: true}, err: "names no model"},
		{name: "a model with an endless name", annotations: map[string]string{GPUModelAnnotation: "A10|" + strings.Repeat("x", 64)},
			requests: requests(GPUResource, "1"), want: GPURequest{GPU: 1}, err: "64 characters"},
		{name: "devices that it chose itself", annotations: map[string]string{GPUIndexAnnotation: "0"}, requests: requests(GPUResource, "1"),
			want: GPURequest{GPU: 1, WantsIndex: true}},
		{name: "more than there are", requests: requests(GPUResource, "9223372036854775807"), want: GPURequest{GPU: 1 << 20},
			err: "more than 1048576"},
		{name: "more than there are in thousandths", requests: requests(GPUMilliResource, "9223372036854775807"),
			want: GPURequest{GPU: 1 << 20, WantsIndex: true}, err: "more than 1048576"},
		{name: "not one device", requests: requests(GPUMilliResource, "1500"), want: GPURequest{GPU: 2, WantsIndex: true},
			err: "it requests 1500 of alibabacloud.com/gpu-milli"},
		{name: "shares of two", annotations: map[string]string{GPUCountAnnotation: "2", GPUMilliAnnotation: "500"},
			err: "only a pod on one device may share it"},
		{name: "other count", annotations: map[string]string{GPUCountAnnotation: "2"}, requests: requests(GPUResource, "1"),
			want: GPURequest{GPU: 1}, err: "do not ask for the same"},
		{name: "other share", annotations: map[string]string{GPUMilliAnnotation: "300"}, requests: requests(GPUMilliResource, "400"),
			want: GPURequest{GPUMilli: 400, WantsIndex: true}, err: "do not ask for the same"},
		{name: "whole and share", requests: requests(GPUResource, "1", GPUMilliResource, "400"), want: GPURequest{GPU: 1, WantsIndex: true},
			err: "do not ask for the same"},
		{name: "share, made small", annotations: map[string]string{GPUMilliAnnotation: "1"}, requests: requests(GPUMilliResource, "900"),
			want: GPURequest{GPUMilli: 900, WantsIndex: true}, err: "do not ask for the same"},
		{name: "share, made nothing", annotations: map[string]string{GPUMilliAnnotation: "none"}, requests: requests(GPUMilliResource, "900"),
			want: GPURequest{GPUMilli: 900, WantsIndex: true}, err: "not a whole number"},
		{name: "whole, made shares", annotations: map[string]string{GPUCountAnnotation: "2", GPUMilliAnnotation: "500"},
			requests: requests(GPUResource, "2"), want: GPURequest{GPU: 2}, err: "may share it"},
		{name: "requests that disagree", requests: requests(GPUResource, "1", GPUMilliResource, "3000"),
			want: GPURequest{GPU: 3, WantsIndex: true}, err: "do not ask for the same"},
		{name: "word", annotations: map[string]string{GPUMilliAnnotation: "half"},
			err: `annotation alibabacloud.com/gpu-milli is "half", not a whole number from 0 to 1000`},
		{name: "too much", annotations: map[string]string{GPUMilliAnnotation: "1001"}, err: "not a whole number from 0 to 1000"},
		{name: "negative", annotations: map[string]string{GPUCountAnnotation: "-1"}, err: "not a whole number from 0 to 64"},
	} {
		got, err := GPURequestOf(c.annotations, AmountsIn(c.requests))
		if c.err == "" && err != nil || c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)) {
			t.Errorf("%s: %v, want %q", c.name, err, c.err)
		}
		if d := cmp.Diff(c.want, got); d != "" {
			t.Errorf("%s:\n%s", c.name, d)
		}
	}
}

// GPURequestOf reads what GPUAnnotations and GPUResourceList write.
func TestWrittenGPURequest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := GPURequest{WantsIndex: true, Models: rapid.SampledFrom([][]string{nil, {"T4"}, {"A10", "T4"}}).Draw(t, "models")}
		if rapid.Bool().Draw(t, "share") {
			want.GPUMilli = int64(rapid.IntRange(1, 999).Draw(t, "milli"))
		} else {
			want.GPU = int64(rapid.IntRange(1, 64).Draw(t, "devices"))
		}
		r := cluster.Resources{MilliCPU: 5, GPU: want.GPU, GPUMilli: want.GPUMilli}
		annotations, list := GPUAnnotations(r, want.Models), GPUResourceList(r)
		got, err := GPURequestOf(annotations, AmountsIn(list))
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Fatal(d)
		}
	})
	none := cluster.Resources{MilliCPU: 5}
	if a, l := GPUAnnotations(none, []string{"T4"}), GPUResourceList(none); a != nil || l != nil {
		t.Errorf("a pod without GPUs has %v and %v", a, l)
	}
}

// FuzzGPURequestOf checks, for any annotations, that the request is for whole devices or for a
// share of one device, is no less than the requested resources and names few models. It also
// checks that devices survive formatting.
func FuzzGPURequestOf(f *testing.F) {
	f.Add("1", "460", "A10|T4", "0", int64(0), int64(460))
	f.Add("2", "1000", "", "0-1", int64(2), int64(0))
	f.Add("", "-1", "|", "64", int64(1), int64(1500))
	f.Add("", "1", strings.Repeat("T4|", 99), strings.Repeat("0-", 999)+"0", int64(0), int64(900))
	f.Add("0", "0", " T4 | T4 ", "0-1-63", int64(9), int64(9000))
	f.Fuzz(func(t *testing.T, count, milli, model, index string, whole, request int64) {
		annotations := map[string]string{
			GPUCountAnnotation: count, GPUMilliAnnotation: milli, GPUModelAnnotation: model, GPUIndexAnnotation: index,
		}
		amounts := Amounts{GPU: max(whole, 0), GPUMilli: max(request, 0)} // the API server rejects negative amounts
		r, err := GPURequestOf(annotations, amounts)
		if r.GPU < 0 || r.GPUMilli < 0 || r.GPUMilli >= cluster.DeviceMilli || r.GPU > 0 && r.GPUMilli > 0 {
			t.Fatalf("%+v, %v", r, err)
		}
		if r.GPU < amounts.GPU || r.GPU < amounts.GPUMilli/cluster.DeviceMilli || r.GPU == 0 && r.GPUMilli < amounts.GPUMilli {
			t.Fatalf("it asks for %+v, less than for %+v: %v", r, amounts, err)
		}
		if len(r.Models) > 32 || slices.Contains(r.Models, "") || len(r.Models) > 0 && r.None() {
			t.Fatalf("models %q, %v", r.Models, err)
		}
		on := Devices(annotations)
		if again := Devices(map[string]string{GPUIndexAnnotation: FormatDevices(on)}); again != on {
			t.Fatalf("%b became %b", on, again)
		}
	})
}

// Errors quote the beginning of a long value only.
func TestLongValuesAreTruncated(t *testing.T) {
	for _, value := range []string{strings.Repeat("9", 200_000), strings.Repeat("é", 100_000), strings.Repeat("\x00", 200_000)} {
		for _, name := range []string{GPUMilliAnnotation, GPUCountAnnotation} {
			_, err := GPURequestOf(map[string]string{name: value}, Amounts{})
			if err == nil || len(err.Error()) > 400 || !strings.Contains(err.Error(), "(200000 bytes)") {
				t.Errorf("%s: %.500v", name, err)
			}
		}
	}
}
