//go:build torch

package torch

/*
#cgo LDFLAGS: -ldl
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>

// gotch's libtch compiles these and exports them to Go not at all, or wrongly typed. Weak,
// because this package alone is linked for a moment before libtch joins it.
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

// One thread an operation is the fastest on graphs of a cluster's size, by far: two often
// cost ten times more than they gain.
func init() { setThreads(1) }

// setThreads sets how many threads one operation may use, in libtorch and in OpenBLAS.
// It is 1 until it is set. n must be positive.
func setThreads(n int) {
	if n < 1 {
		panic(fmt.Sprintf("torch: %d threads: want at least 1", n))
	}
	C.at_set_num_threads(C.int(n))
	C.set_blas_threads(C.int(n))
}

// threads returns how many threads one operation of libtorch may use.
func threads() int { return int(C.at_get_num_threads()) }

// NoGrad runs f with gradients off: operations in it build no graph. It may be nested, and
// leaves gradients as it found them. f must not hand its work to other goroutines.
func NoGrad(f func()) {
	runtime.LockOSThread() // the mode belongs to the thread
	defer runtime.UnlockOSThread()
	before := C.at_grad_set_enabled(0)
	defer C.at_grad_set_enabled(before)
	f()
}

// call runs one operation of libtorch and returns what it threw as an error. libtorch leaves
// the message with the thread, so the goroutine must not change threads in between.
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
