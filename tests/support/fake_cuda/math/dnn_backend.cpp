// cuDNN's graph functions: descriptors that remember what was set, and plans that enqueue one
// operation. Heuristics offer two plans for everything: the first asks for the workspace that the
// settings name, the second for none. Enough for the front end that PyTorch compiles in.
#include <cudnn.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <vector>

#include "tests/support/fake_cuda/core/export.h"
#include "tests/support/fake_cuda/core/machine.h"
#include "tests/support/fake_cuda/math/handle.h"

namespace tidepool::fake_cuda::math {
namespace {

struct Attribute {
  std::vector<char> bytes;
  int64_t count = 0;
};

struct Descriptor {
  std::map<cudnnBackendAttributeName_t, Attribute> attributes;
  bool needs_workspace = true;  // of configurations of engines, and plans
};

Descriptor& of(cudnnBackendDescriptor_t descriptor) {
  return *static_cast<Descriptor*>(descriptor);
}

size_t element_bytes(cudnnBackendAttributeType_t type) {
  switch (type) {
    case CUDNN_TYPE_BOOLEAN:
    case CUDNN_TYPE_CHAR:
      return 1;
    case CUDNN_TYPE_INT64:
    case CUDNN_TYPE_DOUBLE:
    case CUDNN_TYPE_VOID_PTR:
    case CUDNN_TYPE_HANDLE:
    case CUDNN_TYPE_BACKEND_DESCRIPTOR:
      return 8;
    case CUDNN_TYPE_FRACTION:
      return 16;
    default:
      return 4;
  }
}

// How many configurations heuristics find; asked for none, that is what is counted.
int64_t offer(int64_t wanted, void* elements) {
  constexpr int64_t kOffered = 2;
  if (elements == nullptr || wanted == 0) return kOffered;
  const int64_t given = std::min(wanted, kOffered);
  for (int64_t i = 0; i < given; ++i) {
    of(static_cast<cudnnBackendDescriptor_t*>(elements)[i]).needs_workspace = i == 0;
  }
  return given;
}

// Attributes that cuDNN itself fills. The caller has made the descriptors that results go into.
bool get_filled(const Descriptor& descriptor, cudnnBackendAttributeName_t name, int64_t wanted,
                int64_t* count, void* elements) {
  int64_t found = 1;
  switch (name) {
    case CUDNN_ATTR_ENGINEHEUR_RESULTS:
      found = offer(wanted, elements);
      break;
    case CUDNN_ATTR_ENGINECFG_ENGINE:
      break;
    case CUDNN_ATTR_ENGINECFG_KNOB_CHOICES:
    case CUDNN_ATTR_ENGINE_KNOB_INFO:
    case CUDNN_ATTR_ENGINE_NUMERICAL_NOTE:
    case CUDNN_ATTR_ENGINE_BEHAVIOR_NOTE:
      found = 0;
      break;
    case CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE:
    case CUDNN_ATTR_ENGINECFG_WORKSPACE_SIZE: {
      const int64_t asked = static_cast<int64_t>(machine().settings.dnn_workspace_bytes);
      const int64_t bytes = descriptor.needs_workspace ? asked : 0;
      if (elements && wanted > 0) std::memcpy(elements, &bytes, sizeof bytes);
      break;
    }
    default:
      return false;
  }
  if (count) *count = found;
  return true;
}

}  // namespace

FAKE_CUDA_API cudnnStatus_t cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t,
                                                         cudnnBackendDescriptor_t* descriptor) {
  *descriptor = new Descriptor;
  return CUDNN_STATUS_SUCCESS;
}

FAKE_CUDA_API cudnnStatus_t cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t descriptor) {
  delete static_cast<Descriptor*>(descriptor);
  return CUDNN_STATUS_SUCCESS;
}

FAKE_CUDA_API cudnnStatus_t cudnnBackendFinalize(cudnnBackendDescriptor_t) {
  return CUDNN_STATUS_SUCCESS;
}

FAKE_CUDA_API cudnnStatus_t cudnnBackendSetAttribute(cudnnBackendDescriptor_t descriptor,
                                                     cudnnBackendAttributeName_t name,
                                                     cudnnBackendAttributeType_t type,
                                                     int64_t count, const void* elements) {
  Attribute& attribute = of(descriptor).attributes[name];
  const char* const bytes = static_cast<const char*>(elements);
  attribute.bytes.assign(bytes, bytes + static_cast<size_t>(count) * element_bytes(type));
  attribute.count = count;
  if (name == CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG) {
    const auto config = *static_cast<const cudnnBackendDescriptor_t*>(elements);
    of(descriptor).needs_workspace = of(config).needs_workspace;
  }
  return CUDNN_STATUS_SUCCESS;
}

FAKE_CUDA_API cudnnStatus_t cudnnBackendGetAttribute(cudnnBackendDescriptor_t descriptor,
                                                     cudnnBackendAttributeName_t name,
                                                     cudnnBackendAttributeType_t type,
                                                     int64_t wanted, int64_t* count,
                                                     void* elements) {
  if (get_filled(of(descriptor), name, wanted, count, elements)) return CUDNN_STATUS_SUCCESS;
  const auto& attributes = of(descriptor).attributes;
  const auto found = attributes.find(name);
  if (found != attributes.end()) {
    const Attribute& attribute = found->second;
    const size_t given = static_cast<size_t>(std::max<int64_t>(0, wanted)) * element_bytes(type);
    if (elements) {
      std::memcpy(elements, attribute.bytes.data(), std::min(given, attribute.bytes.size()));
    }
    if (count) *count = attribute.count;
    return CUDNN_STATUS_SUCCESS;
  }
  const bool is_descriptor = type == CUDNN_TYPE_BACKEND_DESCRIPTOR;
  if (elements && wanted > 0 && !is_descriptor) {
    std::memset(elements, 0, static_cast<size_t>(wanted) * element_bytes(type));
  }
  if (count) *count = is_descriptor ? 0 : 1;
  return CUDNN_STATUS_SUCCESS;
}

FAKE_CUDA_API cudnnStatus_t cudnnBackendExecute(cudnnHandle_t handle, cudnnBackendDescriptor_t,
                                                cudnnBackendDescriptor_t) {
  return launch(handle, "cudnnBackendExecute") == 0 ? CUDNN_STATUS_SUCCESS
                                                    : CUDNN_STATUS_EXECUTION_FAILED;
}

}  // namespace tidepool::fake_cuda::math
