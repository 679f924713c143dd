// What the parts of the preload shim share.
#pragma once

#define TIDEPOOL_EXPORT __attribute__((visibility("default")))
