//go:build torch

package torch

/*
#include <stdlib.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif

// Returns memory to the kernel late. A step of training allocates and frees tensors of the same sizes as the step
// before. With glibc's defaults it gives their pages back each time and faults them in again. Variables such as
// MALLOC_TOP_PAD_ in the environment are left in force.
static void keep_memory(void) {
#ifdef __GLIBC__
	if (!getenv("MALLOC_MMAP_THRESHOLD_"))
		mallopt(M_MMAP_THRESHOLD, 32 << 20); // the largest that glibc accepts
	if (!getenv("MALLOC_TRIM_THRESHOLD_"))
		mallopt(M_TRIM_THRESHOLD, 1 << 30);
	if (!getenv("MALLOC_TOP_PAD_"))
		mallopt(M_TOP_PAD, 64 << 20);
#endif
}
*/
import "C"

func init() { C.keep_memory() }
