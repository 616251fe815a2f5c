// Package record holds the history of a cluster: its nodes, its pods, their nodes and their usage. Recordings of live clusters and
// conversions from other sources have one format.
//
// A record is a folder of Parquet files. Each file is a part of one table and is never changed once it has its name:
//
//	pods-000007.parquet            one flush of the table pods
//	pods-000001-000006.parquet     the flushes 1 to 6, merged; replaces their files
//
// Tables are lists of rows, and each row has a key. If a key has several rows, the row of the flush with the highest number counts. So a
// reader needs only the files, and a writer can end at any time. The tables and their columns are [Pod], [Node], [Object], [Sample] and
// [Run].
//
// Every file names the version of the format in its metadata (key "gnnsched.record.version"). Readers refuse
// versions that they do not know. Columns that are added later do not change the version; older readers ignore them.
//
// Times are milliseconds since 1970 in UTC; null, which is 0 in Go, means not known or not yet. CPU is in
// thousandths of a core, memory in bytes. JSON columns use the names of Kubernetes' API and hold null if
// there is nothing to say.
package record
