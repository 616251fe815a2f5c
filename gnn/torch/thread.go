//go:build torch

package torch

/*
#cgo LDFLAGS: -ldl
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>

// gotch's libtch compiles these functions, but exports them to Go with wrong types or not at all.
// They are weak because cgo links this package once without libtch.
extern char *get_and_reset_last_err(void) __attribute__((weak));
extern int at_grad_set_enabled(int) __attribute__((weak));
extern void at_set_num_threads(int) __attribute__((weak));
extern int at_get_num_threads(void) __attribute__((weak));

// OpenBLAS keeps a thread count of its own, read from the environment when it is loaded.
// Another BLAS has no such function, and nothing to set.
static void set_blas_threads(int n) {
	void (*set)(int) = (void (*)(int))dlsym(RTLD_DEFAULT, "openblas_set_num_threads");
	if (set)
		set(n);
}
*/
import "C"

import (
	"fmt"
	"runtime"
	"strings"
	"unsafe"
)

// One thread for each operation is by far the fastest on graphs of a cluster's size: a second thread
// often costs ten times more than it gains.
func init() { setThreads(1) }

// setThreads sets how many threads one operation may use, in libtorch and in OpenBLAS. n must be
// positive.
func setThreads(n int) {
	if n < 1 {
		panic(fmt.Sprintf("torch: %d threads: want at least 1", n))
	}
	C.at_set_num_threads(C.int(n))
	C.set_blas_threads(C.int(n))
}

// threads returns how many threads one operation of libtorch may use.
func threads() int { return int(C.at_get_num_threads()) }

// noGrad runs f with gradients off: operations in f are not recorded for Backward. It may be nested,
// and restores the mode afterwards. f must not start goroutines that compute.
func noGrad(f func()) {
	runtime.LockOSThread() // the mode belongs to the thread
	defer runtime.UnlockOSThread()
	before := C.at_grad_set_enabled(0)
	defer C.at_grad_set_enabled(before)
	f()
}

// call runs one operation of libtorch and returns the exception that it threw as an error. libtorch
// keeps the message for the thread, so the goroutine must stay on its thread until it is read.
func call(name string, f func()) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	f()
	message := C.get_and_reset_last_err()
	if message == nil {
		return nil
	}
	defer C.free(unsafe.Pointer(message))
	// The lines after the first are libtorch's own stack trace.
	first, _, _ := strings.Cut(C.GoString(message), "\n")
	return fmt.Errorf("torch: %s: %s", name, first)
}
