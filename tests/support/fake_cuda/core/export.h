// What is visible outside the stand-in's libraries: C functions under CUDA's names and our own.
#pragma once

#define FAKE_CUDA_API extern "C" __attribute__((visibility("default")))
