// Package background starts the running program again as a process in the background, which lives on
// when the first process ends. Start waits until the new process is ready or has failed. The new process
// finds its Parent with ParentFromEnv and reports to it. The reports are lines of JSON through a pipe.
package background
