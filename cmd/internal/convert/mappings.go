package convert

import (
	"math"

	"gnnsched/workload/usage"
)

// azure is the format of Azure's public dataset of virtual machines, versions 1 and 2: vmtable.csv with a line for each machine, and
// vm_cpu_readings-file-*.csv with a line for each reading. Memory is known only as the machine's size.
var azure = &measuredFormat{
	Name: "azure", About: "Azure's vmtable.csv, then vm_cpu_readings-file-*.csv", comma: ',',
	headers: [][]string{
		{"vm", "subscription", "deployment", "created", "deleted", "max", "mean", "p95", "category", "cores", "memory"},
		{"timestamp", "vm", "min", "max", "average CPU"},
	},
	read: func(r *reading, l *line) {
		if l.has("cores") {
			r.size("vm-"+l.text("vm"), l.given("cores", 1e5), l.given("memory", 1e5)*(1<<30))
		} else if m := r.measured(l, "vm-"+l.text("vm"), "vmtable.csv"); m != nil {
			r.sample(m, usage.CPU, l.value("timestamp"), l.value("average CPU")/100*m.cores)
		}
	},
}

// alibaba is the format of the containers in Alibaba's cluster-trace-v2018: container_meta.csv with a line for each change of a container,
// and container_usage.csv with a line for each measurement. Memory, network and disk are in thousandths of an unpublished unit, so only CPU
// is read. Values of -1 and 101 per cent are marked as invalid by the record.
var alibaba = &measuredFormat{
	Name: "alibaba-2018", About: "Alibaba's container_meta.csv, then container_usage.csv", comma: ',',
	headers: [][]string{
		{"container", "machine", "time_stamp", "app", "status", "cpu_request", "cpu_limit", "mem_size"},
		{"container", "machine", "time_stamp", "cpu_util_percent", "mem_util_percent", "cpi", "mem_gps", "mpki", "net_in", "net_out", "disk_io"},
	},
	read: func(r *reading, l *line) {
		if l.has("cpu_request") {
			r.size("container-"+l.text("container"), l.given("cpu_request", 1e6)/100, 0)
		} else if m := r.measured(l, "container-"+l.text("container"), "container_meta.csv"); m != nil {
			percent := l.value("cpu_util_percent")
			if percent > 100 {
				percent = math.NaN()
			}
			r.sample(m, usage.CPU, l.value("time_stamp"), percent/100*m.cores)
		}
	},
}

// gwaUsed are the columns of gwa with amounts in KB, by dimension.
var gwaUsed = [usage.Dimensions]string{
	usage.Memory: "Memory usage [KB]", usage.NetworkIn: "Network received throughput [KB/s]",
	usage.NetworkOut: "Network transmitted throughput [KB/s]", usage.DiskRead: "Disk read throughput [KB/s]",
	usage.DiskWrite: "Disk write throughput [KB/s]",
}

// gwa is the format of GWA-T-12 (Bitbrains) of the Grid Workloads Archive: a file for each virtual machine, with a line
// every five minutes and cells between semicolons. Times are in seconds, though the column says milliseconds.
var gwa = &measuredFormat{
	Name: "gwa-t-12", About: "Bitbrains' virtual machines, a file each", comma: ';',
	read: func(r *reading, l *line) {
		at, id := l.value("Timestamp [ms]"), "vm-"+l.machine
		if at > 1e11 { // milliseconds after all
			at /= 1000
		}
		cores, capacity := l.given("CPU cores", 1e4), l.value("CPU capacity provisioned [MHZ]")
		r.size(id, cores, l.given("Memory capacity provisioned [KB]", 1e12)*1024)
		m := r.measured(l, id, "")
		if m == nil {
			return
		}
		used := math.NaN()
		if capacity > 0 {
			used = l.value("CPU usage [MHZ]") / capacity * cores
		}
		r.sample(m, usage.CPU, at, used)
		for d, column := range gwaUsed {
			if l.has(column) {
				r.sample(m, usage.Dimension(d), at, l.value(column)*1024)
			}
		}
	},
}
