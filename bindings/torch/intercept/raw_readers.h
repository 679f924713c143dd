// Raw readers: composite operators that read the elements of an argument by themselves, ask for its
// address, or resize it. They run above our key, where nothing restores or locks what they read,
// and keep the pointer while the operators run that they are made of. Wrappers keep such an
// argument resident and locked all the while. Called once, with the dispatcher's registrations.
// Thread safe afterwards.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

#include <vector>

namespace tidepool::torch_glue {

// Registers the wrappers of all raw readers that this PyTorch has.
void register_raw_readers(std::vector<c10::RegistrationHandleRAII>& handles);

}  // namespace tidepool::torch_glue
