// record_stream: the interception of the operator of this name, which only notes a stream for a
// tensor's memory, though its schema says that it writes. For an evicted tensor the stream is noted
// for the block that it will get.
// Called once, with the dispatcher's registrations. Thread safe afterwards.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

#include <vector>

namespace tidepool::torch_glue {

void register_record_stream(std::vector<c10::RegistrationHandleRAII>& handles);

}  // namespace tidepool::torch_glue
