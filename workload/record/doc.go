// Package record holds what happened on a cluster: which nodes it had, which pods came, where they ran and what they
// used. One format serves for what is recorded from a live cluster and for what is converted from other sources.
//
// A record is a folder of Parquet files. Each file is a part of one table and is never changed once it has its name:
//
//	pods-000007.parquet            one flush of the table pods
//	pods-000001-000006.parquet     the flushes 1 to 6, merged; replaces their files
//
// Tables are lists of rows, and each row has a key. If a key has several rows, the last one holds: that of the
// flush with the highest number. So a reader needs no other state than the files that are there, and a writer can end
// at any time. The tables and their columns are [Pod], [Node], [Object], [Sample] and [Run].
//
// Every file names the version of the format in its metadata (key "gnnsched.record.version"). Readers refuse
// versions that they do not know. Columns that are added later do not change the version; older readers ignore them.
//
// Times are milliseconds since 1970 in UTC; null, which is 0 in Go, means not known or not yet. CPU is in
// thousandths of a core, memory in bytes. JSON columns use the names of Kubernetes' API and hold null if
// there is nothing to say.
package record
