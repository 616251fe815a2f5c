package convert

import (
	"strconv"
	"strings"
)

// jobs is a table with a line for each batch job:
//
//	arrival_s,lifetime_s,cores,cpu_mean_permille,cpu_max_permille
//
// Times are in seconds, and a job's usage in thousandths of its cores. Jobs that used nothing are left out.
var jobs = &measuredFormat{Name: "jobs", About: "batch jobs, a line each",
	matches: func(line string) bool { return strings.TrimSpace(line) == jobsHeader }, read: readJobs}

const jobsHeader = "arrival_s,lifetime_s,cores,cpu_mean_permille,cpu_max_permille"

func readJobs(r *reading, files []measuredFile) error {
	idle, n := 0, 0
	for _, f := range files {
		t := r.open(f, ",")
		if t.next(5) && strings.Join(t.cells, ",") != jobsHeader {
			t.fail("the first line is not %s", jobsHeader)
		}
		for ; !r.full() && t.next(5); n++ {
			j := measuredJob{
				Name:    "job-" + strconv.Itoa(n),
				Arrival: t.time(0, "arrival_s"), Lifetime: t.given(1, "lifetime_s", 1e10), Cores: t.given(2, "cores", 1e4),
			}
			j.Mean = t.given(3, "cpu_mean_permille", 1e5) / 1000 * j.Cores
			j.Max = max(t.given(4, "cpu_max_permille", 1e5)/1000*j.Cores, j.Mean)
			if !(j.Mean > 0 && j.Lifetime > 0) {
				idle++
				continue
			}
			r.job(j.Name, j)
		}
		if err := t.close(); err != nil {
			return err
		}
	}
	if idle > 0 {
		r.note("%d jobs were left out: they used nothing, or took no time", idle)
	}
	return nil
}
