package usage_test

import (
	"fmt"

	"gnnsched/workload/usage"
)

// A web server's CPU follows the day, and its network comes in bursts.
func ExampleModel_At() {
	web := &usage.Model{Curves: [usage.Dimensions]usage.Curve{
		usage.CPU:        usage.Day{Low: 0.5, High: 2.5, Period: 86400, Peak: 14 * 3600},
		usage.Memory:     usage.Constant(512 << 20),
		usage.NetworkOut: usage.Bursts{Low: 1e6, High: 1e8, Every: 600, Length: 30},
	}}
	pod := usage.Seed("shop", "web-0")
	for _, hour := range []float64{2, 8, 14} {
		u := web.At(pod, hour*3600, 7200)
		fmt.Printf("%2.0f:00 %.2f cores, %s\n", hour, u[usage.CPU], fmt.Sprint(u[usage.Memory]/(1<<20), " MiB"))
	}
	// Output:
	//  2:00 0.50 cores, 512 MiB
	//  8:00 1.50 cores, 512 MiB
	// 14:00 2.50 cores, 512 MiB
}

// Pods of one shape walk apart, and begin a measured series at different places.
func ExampleSeries() {
	worker := &usage.Model{Curves: [usage.Dimensions]usage.Curve{
		usage.CPU:      usage.Walk{Low: 0, High: 4, Deviation: 1, Step: 60},
		usage.DiskRead: &usage.Series{Step: 300, Scale: 1e6, Values: []float32{3, 5, 8, 13}, RandomStart: true},
	}}
	for _, name := range []string{"worker-0", "worker-1"} {
		pod := usage.Seed("jobs", name)
		for _, age := range []float64{0, 300, 600} {
			u := worker.At(pod, 0, age)
			fmt.Printf("%s after %3.0f s: %.2f cores, %2.0f MB/s\n", name, age, u[usage.CPU], u[usage.DiskRead]/1e6)
		}
	}
	// Output:
	// worker-0 after   0 s: 3.57 cores, 13 MB/s
	// worker-0 after 300 s: 3.98 cores,  3 MB/s
	// worker-0 after 600 s: 3.75 cores,  5 MB/s
	// worker-1 after   0 s: 3.28 cores,  8 MB/s
	// worker-1 after 300 s: 3.53 cores, 13 MB/s
	// worker-1 after 600 s: 3.96 cores,  3 MB/s
}

// Pods carry their models in an annotation.
func ExampleParseAnnotation() {
	m, err := usage.ParseAnnotation(`{"cpu":{"walk":{"low":"100m","high":2,"deviation":"500m"}},"memory":"1Gi"}`)
	if err != nil {
		fmt.Println(err)
		return
	}
	text, err := usage.FormatAnnotation(m)
	fmt.Println(usage.Annotation, text, err)
	_, err = usage.ParseAnnotation(`{"cpu":-1,"disk":3}`)
	fmt.Println(err)
	_, err = usage.ParseAnnotation(`{"cpu":-1,"memory":{"day":{"low":"2Gi","high":"1Gi"}}}`)
	fmt.Println(err)
	// Output:
	// gnnsched.io/usage {"cpu":{"walk":{"low":0.1,"high":2,"deviation":0.5,"step":60}},"memory":1073741824} <nil>
	// annotation gnnsched.io/usage: unknown field "disk"
	// annotation gnnsched.io/usage: cpu: -1 is not 0 to 10000
	// memory.day.low: 2.147483648e+09 is more than high, 1.073741824e+09
}

func ExampleShare() {
	node := usage.Amounts{usage.CPU: 4, usage.NetworkOut: 90}
	pods := []usage.Demand{
		{Want: usage.Amounts{usage.CPU: 1, usage.NetworkOut: 10}, Request: 2},  // wants less than its part
		{Want: usage.Amounts{usage.CPU: 5, usage.NetworkOut: 100}, Request: 2}, // gets its request and more
		{Want: usage.Amounts{usage.CPU: 5, usage.NetworkOut: 100}, Request: 1},
		{Want: usage.Amounts{usage.CPU: 5}, Request: 0}, // gets next to nothing
	}
	got := make([]usage.Amounts, len(pods))
	usage.Share(node, pods, got)
	for _, g := range got {
		fmt.Printf("%.3f cores, %.0f bytes/s\n", g[usage.CPU], g[usage.NetworkOut])
	}
	// Output:
	// 1.000 cores, 10 bytes/s
	// 1.999 cores, 40 bytes/s
	// 0.999 cores, 40 bytes/s
	// 0.002 cores, 0 bytes/s
}
