//go:build cgo

package main

// #include <stdint.h>
// #include <stdlib.h>
import "C"

import "unsafe"

func main() {}

// gnnsched_env_abi returns the number of the interface.
//
//export gnnsched_env_abi
func gnnsched_env_abi() C.int32_t { return abi }

// gnnsched_env_call answers a request in JSON (type request) with JSON. gnnsched_env_free frees the answer.
//
//export gnnsched_env_call
func gnnsched_env_call(text *C.char) *C.char {
	if text == nil {
		return C.CString(`{"error": "the request is missing"}`)
	}
	return C.CString(call(C.GoString(text)))
}

//export gnnsched_env_free
func gnnsched_env_free(answer *C.char) { C.free(unsafe.Pointer(answer)) }

// gnnsched_env_play resets, steps or observes all environments of a handle, and reads and writes the arrays (type arguments).
//
//export gnnsched_env_play
func gnnsched_env_play(handle C.int64_t, what C.int32_t, arrays unsafe.Pointer) C.int32_t {
	return C.int32_t(play(int64(handle), int32(what), (*arguments)(arrays)))
}
