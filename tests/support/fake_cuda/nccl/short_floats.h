// Numbers of 16 bits as floats, and back, rounded to the nearest one and in a tie to the even one.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

namespace tidepool::fake_cuda::nccl {

inline float float_of_bfloat(uint16_t number) {
  return std::bit_cast<float>(static_cast<uint32_t>(number) << 16);
}

inline uint16_t bfloat_of(float number) {
  const auto bits = std::bit_cast<uint32_t>(number);
  if (std::isnan(number)) return static_cast<uint16_t>((bits >> 16) | 0x40);
  return static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

inline float float_of_half(uint16_t number) {
  const uint32_t sign = static_cast<uint32_t>(number & 0x8000) << 16;
  const uint32_t exponent = number >> 10 & 0x1f;
  const uint32_t fraction = number & 0x3ff;
  if (exponent == 0x1f) return std::bit_cast<float>(sign | 0x7f800000 | fraction << 13);
  if (exponent != 0) return std::bit_cast<float>(sign | (exponent + 112) << 23 | fraction << 13);
  const float small = static_cast<float>(fraction) * 0x1p-24F;
  return sign != 0 ? -small : small;
}

inline uint16_t half_of(float number) {
  const auto bits = std::bit_cast<uint32_t>(number);
  const auto sign = static_cast<uint16_t>(bits >> 16 & 0x8000);
  const uint32_t size = bits & 0x7fffffff;
  if (size > 0x7f800000) return sign | 0x7e00;
  if (size >= 0x47800000) return sign | 0x7c00;
  if (size < 0x38800000) {  // adding puts the last bit where a small half has it
    const float sum = std::bit_cast<float>(size) + 0.5F;
    return static_cast<uint16_t>(sign | (std::bit_cast<uint32_t>(sum) - 0x3f000000));
  }
  return static_cast<uint16_t>(sign | (size - 0x38000000 + 0xfff + (size >> 13 & 1)) >> 13);
}

}  // namespace tidepool::fake_cuda::nccl
