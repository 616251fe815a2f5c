package convert

import (
	"math"
	"strconv"

	"gnnsched/workload/usage"
)

// alibaba is the format of the containers in Alibaba's cluster-trace-v2018: container_meta.csv with a line for each change of a container,
// and container_usage.csv with a line for each measurement. Neither has a header. Memory, network and disk are in thousandths of an
// unpublished unit, so only CPU is read. Values of -1 and 101 per cent are marked as invalid by the record.
var alibaba = &measuredFormat{Name: "alibaba-2018", About: "Alibaba's container_meta.csv, then container_usage.csv", read: readAlibaba}

// Columns of container_meta.csv, of container_usage.csv, and of batch_instance.csv.
const (
	metaContainer, metaRequest, metaColumns                     = 0, 5, 8
	usedContainer, usedTime, usedCPU, usedColumns               = 0, 2, 3, 11
	batchJob, batchStatus                                       = 2, 4
	batchStart, batchEnd, batchMean, batchMost, batchAllColumns = 5, 6, 10, 11, 14
)

func readAlibaba(r *reading, files []measuredFile) error {
	known := newRoster("container", "container_meta.csv")
	for _, f := range files {
		t := r.open(f, ",")
		for t.next(metaColumns) {
			if len(t.cells) < usedColumns {
				known.is(t.cells[metaContainer], size{cores: t.given(metaRequest, "cpu_request", 1e6) / 100})
				continue
			}
			id := t.cells[usedContainer]
			given, has := known.of(t, id)
			if !has {
				continue
			}
			if s := r.wanted("container-"+shortened(id), id); s != nil {
				s.cores = given.cores
				percent := t.number(usedCPU, "cpu_util_percent")
				if percent > 100 {
					percent = math.NaN()
				}
				t.sample(s, usage.CPU, t.number(usedTime, "time_stamp"), percent/100*given.cores)
			}
		}
		if err := t.close(); err != nil {
			return err
		}
	}
	return known.close(r)
}

// alibabaBatch is the format of batch_instance.csv of cluster-trace-v2018, which has no header: a line for each instance of a task.
// Instances that did not end, or whose times lie outside of the record, are left out. The file lacks the instances' requests.
var alibabaBatch = &measuredFormat{Name: "alibaba-2018-batch", About: "Alibaba's batch_instance.csv", read: readAlibabaBatch}

func readAlibabaBatch(r *reading, files []measuredFile) error {
	left, n := 0, 0
	for _, f := range files {
		t := r.open(f, ",")
		for ; !r.full() && t.next(batchAllColumns); n++ {
			begin, end := t.number(batchStart, "start_time"), t.number(batchEnd, "end_time")
			mean, most := t.number(batchMean, "cpu_avg")/100, t.number(batchMost, "cpu_max")/100
			if t.cells[batchStatus] != "Terminated" || !(begin > 0 && end > begin && end < 1e11 && mean > 0 && mean < 1e4) {
				left++
				continue
			}
			name := "instance-" + strconv.Itoa(n)
			r.job(t.cells[batchJob], measuredJob{Name: name, Arrival: begin, Lifetime: end - begin, Mean: mean, Max: max(mean, min(most, 1e4))})
		}
		if err := t.close(); err != nil {
			return err
		}
	}
	if left > 0 {
		r.note("%d instances were left out: they did not end within the record, or used nothing", left)
	}
	return nil
}
