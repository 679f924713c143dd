// CallArguments: the tensors that one operator call is given: its arguments in schema order, lists
// flattened, and after them tensors that stand for what the operator reaches beside them (bare
// storages, the components of sparse tensors). Knows shapes and places; what is tracked of them is
// entered by InterceptedCall.
// Keeps components alive, not arguments. Lives in an InterceptedCall; one thread.
#pragma once

#include <c10/core/Storage.h>
#include <c10/core/TensorImpl.h>
#include <c10/util/intrusive_ptr.h>

#include <cstddef>
#include <cstdint>

#include "absl/container/inlined_vector.h"
#include "bindings/torch/calls/call_body.h"
#include "bindings/torch/calls/operator_info.h"
#include "remat/lineage/labels.h"
#include "remat/lineage/lineage.h"

namespace tidepool::torch_glue {

// Whether records can hold a tensor of this layout.
bool is_supported(const c10::TensorImpl* tensor);
// How many bytes the tensor shows; 0 if it is absent, or records cannot hold it.
size_t shown_bytes(const c10::TensorImpl* tensor);

class CallArguments {
 public:
  // Where an argument's contents are, as far as a record needs to know.
  enum class Home : uint8_t { kAbsent, kEmpty, kImmediate, kStorage };

  struct Argument {
    c10::TensorImpl* tensor;              // nullptr: absent
    remat::Storage* storage = nullptr;    // of the call's engine
    remat::Storage* elsewhere = nullptr;  // of another engine
    Home home = Home::kAbsent;
    bool written = false;
    bool side_written = false;
    bool supported = true;
    bool of_sparse = false;  // it is a component of a sparse tensor
    bool shared = false;     // another argument has its storage, too; known of what overwrites
    remat::Access access = remat::Access::kRead;  // where `storage` is set

    // Whether the tensor shows every byte of its storage exactly once.
    bool covers_storage() const;
    // Whether the tensor may show a byte of its storage more than once.
    bool may_overlap_itself() const;
    // How the operator uses its storage.
    remat::Access access_by(const OperatorInfo& info) const;
    // Which kind of slot describes it. `begins_pieces`: remat::OperatorCall::begins_pieces().
    TensorSlot::Kind slot_kind(bool begins_pieces) const;
  };

  // Adds the next tensor argument, which may be nullptr or undefined. `side_writes`: the operator
  // writes it in this call without its schema saying so.
  void add(c10::TensorImpl* tensor, bool writes, bool side_writes);
  // Adds a tensor that is no argument, after all that are.
  void add_other(c10::TensorImpl* tensor) { all_.push_back({tensor}); }
  // Adds a tensor of bytes that shows the storage.
  void add_storage(const c10::Storage& storage);
  // Adds the dense tensors that a tensor of another layout is made of.
  void add_components(c10::TensorImpl* tensor, bool written);

  auto begin() { return all_.begin(); }
  auto end() { return all_.end(); }
  auto begin() const { return all_.begin(); }
  auto end() const { return all_.end(); }
  size_t size() const { return all_.size(); }
  Argument& operator[](size_t place) { return all_[place]; }
  const Argument& operator[](size_t place) const { return all_[place]; }
  Argument& back() { return all_.back(); }
  size_t place_of(const Argument& argument) const {
    return static_cast<size_t>(&argument - all_.data());
  }

  // How many of them are arguments; the others come after those.
  size_t slots() const { return slots_; }
  // Dimensions of all arguments together, of those that are supported.
  size_t dimensions() const { return dimensions_; }

  // Whether all that the operator writes are tensors without elements that nobody else has the
  // storage of: to give them memory is to make results.
  bool writes_results_only() const;
  // Marks arguments whose storage another one has, too.
  void find_shared();
  // Whether those that are overwritten show all of their storages.
  bool cover_what_they_overwrite() const;
  // Whether all that are tracked have this role.
  bool all_are(remat::Role role) const;
  // Of an operator of which depends_on_places() holds, once it has run: whether it has written each
  // place once at most (bindings/torch/calls/indexed_places.h).
  bool name_places_once(const OperatorInfo& info) const;
  // Equal for calls of the operator that take equally long.
  uint64_t timing_key(const OperatorInfo& info) const;
  // What the tensors show, and those of them that the operator writes.
  size_t bytes() const;
  size_t written_bytes() const;

 private:
  absl::InlinedVector<Argument, 8> all_;
  absl::InlinedVector<c10::intrusive_ptr<c10::TensorImpl>, 1> components_;
  size_t slots_ = 0;
  size_t dimensions_ = 0;
};

}  // namespace tidepool::torch_glue
