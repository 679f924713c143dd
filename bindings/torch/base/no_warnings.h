// NoWarnings: a scope in which this thread's warnings of PyTorch are dropped.
#pragma once

#include <c10/util/Exception.h>

namespace tidepool::torch_glue {

class NoWarnings {
 private:
  class Silent final : public c10::WarningHandler {
    void process(const c10::Warning&) override {}
  };

  Silent silent_;
  c10::WarningUtils::WarningHandlerGuard guard_{&silent_};
};

}  // namespace tidepool::torch_glue
