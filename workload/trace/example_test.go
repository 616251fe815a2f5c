package trace_test

import (
	"fmt"
	"strings"

	"gnnsched/workload/trace"
)

// Read a trace whose format is known by its header.
func Example() {
	const csv = `arrival,lifetime,cpu_request,mem_request,name
100,60,500m,1Gi,web
90,,2,4Gi,batch
`
	f, err := trace.Auto.Read(strings.NewReader(csv), "pods.csv")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("format:", f.Format.Name)
	for _, a := range f.Arrivals {
		fmt.Printf("%s arrives at %v s and runs for %v s\n", a.Deployment.Name, a.At, a.Lifetime)
	}
	// Output:
	// format: arrivals
	// batch arrives at 0 s and runs for +Inf s
	// web arrives at 10 s and runs for 60 s
}
