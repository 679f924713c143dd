# Writes OUTPUT, the source of cuda/kernels/kernel_image.h, with the bytes of INPUT or, without it,
# none.
set(bytes "")
if(INPUT)
  file(READ ${INPUT} bytes HEX)
  string(REGEX REPLACE "(..)" "0x\\1," bytes "${bytes}")
  string(REPEAT "." 80 line)  # sixteen bytes
  string(REGEX REPLACE "(${line})" "\\1\n" bytes "${bytes}")
endif()
file(WRITE ${OUTPUT} "#include \"cuda/kernels/kernel_image.h\"

namespace tidepool::device {

namespace {

alignas(16) constexpr unsigned char kImage[] = {\n${bytes}0};

}  // namespace

std::span<const unsigned char> kernel_image() { return {kImage, sizeof kImage - 1}; }

}  // namespace tidepool::device
")
