// Package memfile makes files in memory for code of this process that takes only a path. They need no
// writable directory, and nothing of them is left when the process ends, even if it is killed. Use them
// for credentials.
package memfile
