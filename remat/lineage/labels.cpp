#include "remat/lineage/labels.h"

namespace tidepool::remat {

const char* const kRootReasonNames[static_cast<size_t>(RootReason::kCount)] = {
    "none",          "untracked",      "unsupported",  "list_write",
    "partial_write", "unstable_input", "layout",       "depth_limit",
    "version_limit", "age_limit",      "record_limit", "bookkeeping_limit",
    "lost_input",    "lost_root",      "escaped",      "raw_write",
    "recording_off", "varies",         "settled",      "foreign_copy",
    "compiled",
};

}  // namespace tidepool::remat
