// Admission: whether CUDA answers the calling thread at all: the process's state and the thread's
// context, which every call asks for before it does anything.
// The runtime initialises CUDA and takes its current device's context by itself; the driver's
// functions are refused where nobody has (errors 3 and 201). A child forked after that gets error 3
// from both, and so does error 4 whoever calls once the process has begun to destroy what was made
// before CUDA was initialised.
// Thread safe; takes no lock, so that a child may ask whoever held one when it was forked.
#pragma once

#include "tests/support/fake_cuda/core/error.h"

namespace tidepool::fake_cuda {

// What the calling thread has set. Without a context the device is the runtime's current one.
int& current_device();
bool& has_context();

// The calling thread uses the device's primary context from now on, which is made where it is not.
void use_context(int device);
// Whether anybody has used the device's primary context.
bool is_context_made(int device);

// CUDA is initialised in this process, if that can still be done: kSuccess, or why not.
Error initialize();

// The answer to a call before it is looked at, by the function's name: those of the driver begin
// with "cu" and a capital letter, those of the runtime and the libraries with "cu" and a small one,
// and all others are the tests' own, which are always let in.
Error admit(const char* function);

}  // namespace tidepool::fake_cuda
