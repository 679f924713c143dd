// Stands for the library in a program that does not link it: what the program may not call.
#include <tidepool/tidepool.h>

const char* tidepool_error() { return "not linked"; }
int tidepool_enable(const tidepool_options*) { return TIDEPOOL_CANNOT_ATTACH; }
int tidepool_read_stats(const char*, tidepool_stats*) { return TIDEPOOL_NOT_ATTACHED; }
void tidepool_step() {}
