"""Generate the typed wrappers of hot operators for one PyTorch version.

Usage: generate_operators.py TORCH_ROOT OUT_DIR [--list-outputs]

Reads which of the wanted operators this PyTorch has from torch/include/ATen/ops/*_ops.h and writes
C++ files that register them. Operators whose signature has a type that the wrapper does not handle
(lists of tensors) are skipped: the boxed fallback serves them. Writes what is known of replays of
all operators, too (generate_evidence.py).
"""

import pathlib
import re
import sys

import generate_evidence

OUTPUTS = ["typed_operators_0.cpp", "typed_operators_1.cpp", "operator_evidence.cpp",
           "typed_operators.cpp"]
SHARDS = 2

WANTED = """
add.Tensor add_.Tensor sub.Tensor sub_.Tensor mul.Tensor mul_.Tensor div.Tensor div_.Tensor
add.Scalar mul.Scalar div.Scalar rsub.Scalar rsub.Tensor neg abs exp log log1p sqrt rsqrt reciprocal
sin cos tanh sigmoid erf pow.Tensor_Scalar pow.Tensor_Tensor clamp clamp_min clamp_ maximum minimum
where.self eq.Scalar eq.Tensor ne.Scalar ne.Tensor gt.Scalar gt.Tensor lt.Scalar lt.Tensor ge.Scalar
ge.Tensor le.Scalar le.Tensor logical_not masked_fill.Scalar masked_fill.Tensor masked_fill_.Scalar
tril triu sum sum.dim_IntList mean mean.dim amax var.correction var_mean.correction cumsum argmax
mm bmm addmm baddbmm addmv mv dot relu relu_ gelu gelu_backward silu silu_backward sigmoid_
sigmoid_backward tanh_backward threshold_backward leaky_relu leaky_relu_backward elu hardtanh
hardswish softplus _softmax _softmax_backward_data _log_softmax _log_softmax_backward_data
native_layer_norm native_layer_norm_backward native_group_norm native_batch_norm
native_batch_norm_backward native_dropout native_dropout_backward bernoulli bernoulli_.float
convolution convolution_backward max_pool2d_with_indices max_pool2d_with_indices_backward
avg_pool2d avg_pool2d_backward _adaptive_avg_pool2d _adaptive_avg_pool2d_backward
upsample_nearest2d upsample_bilinear2d embedding embedding_dense_backward index_select gather
scatter_add nll_loss_forward nll_loss_backward mse_loss mse_loss_backward addcmul addcmul_ addcdiv
addcdiv_ lerp_.Scalar lerp_.Tensor sqrt_ copy_ zero_ fill_.Scalar clone _to_copy
_scaled_dot_product_flash_attention_for_cpu _scaled_dot_product_flash_attention_for_cpu_backward
_fused_rms_norm normal_ uniform_ constant_pad_nd slice_backward select_backward
""".split()

# Argument types that TypedOperator can box with c10::IValue(argument) or sees as tensors.
VALUE_TYPES = "at::Scalar int64_t double bool c10::SymInt at::ScalarType".split()
OPTIONAL_TYPES = [
    *"at::Tensor at::Scalar int64_t double bool at::ScalarType at::Layout at::Device".split(),
    *"at::MemoryFormat at::Generator c10::SymInt".split(),
]
LIST_TYPES = [
    *"at::IntArrayRef c10::SymIntArrayRef c10::string_view ::std::string_view".split(),
    *"at::OptionalIntArrayRef at::OptionalSymIntArrayRef".split(),
]
KNOWN_TYPES = {
    "at::Tensor",
    *VALUE_TYPES,
    *LIST_TYPES,
    *(f"::std::optional<{each}>" for each in OPTIONAL_TYPES),
    *(f"::std::array<bool,{length}>" for length in range(1, 6)),
}


def schema_of(torch_root, operator):
    """Return (C++ name, return type, argument types) of an operator, or None if there is none."""
    name, _, overload = operator.partition(".")
    header = torch_root / "include" / "ATen" / "ops" / f"{name}_ops.h"
    if not header.exists() and name.endswith("_") and not name.startswith("__"):
        header = torch_root / "include" / "ATen" / "ops" / f"{name[:-1]}_ops.h"
    if not header.exists():
        return None
    cpp_name = name + (f"_{overload}" if overload else "")
    struct = re.search(
        r"struct TORCH_API " + re.escape(cpp_name) + r" \{\s*using schema = (.*?);\s*\n",
        header.read_text(),
        re.DOTALL,
    )
    if struct is None:
        return None
    result, arguments = re.match(r"(.*?) \((.*)\)$", struct[1], re.DOTALL).groups()
    depth, parts, part = 0, [], ""
    for char in arguments:
        depth += (char in "<(") - (char in ">)")
        if char == "," and depth == 0:
            parts.append(part.strip())
            part = ""
        else:
            part += char
    return cpp_name, result.strip(), [*parts, part.strip()]


def is_supported(result, arguments):
    """Tell whether TypedOperator handles this signature."""
    results = re.match(r"^(at::Tensor ?&?|::std::tuple<(at::Tensor,?)+>)$", result)
    bare = [argument.removeprefix("const ").removesuffix("&").strip() for argument in arguments]
    return bool(results) and KNOWN_TYPES.issuperset(bare)


def main():
    """Write the files."""
    if "--list-outputs" in sys.argv:
        print("\n".join(OUTPUTS))
        return
    torch_root, out_dir = map(pathlib.Path, sys.argv[1:3])
    out_dir.mkdir(parents=True, exist_ok=True)
    found, skipped = [], []
    for operator in WANTED:
        schema = schema_of(torch_root, operator)
        if schema and is_supported(*schema[1:]):
            found.append(schema[0])
        else:
            skipped.append(operator)
    for shard in range(SHARDS):
        lines = "".join(
            f"  typed::add<at::_ops::{name}>(handles);\n" for name in found[shard::SHARDS]
        )
        (out_dir / OUTPUTS[shard]).write_text(
            "// Generated by bindings/torch/generate_operators.py.\n"
            "#include <ATen/Operators.h>\n\n"
            '#include "bindings/torch/intercept/typed_operator.h"\n\n'
            "namespace tidepool::torch_glue {\n\n"
            f"void register_typed_operators_{shard}(\n"
            "    std::vector<c10::RegistrationHandleRAII>& handles) {\n"
            f"{lines}"
            "}\n\n}  // namespace tidepool::torch_glue\n"
        )
    declarations = "".join(
        f"void register_typed_operators_{shard}(std::vector<c10::RegistrationHandleRAII>&);\n"
        for shard in range(SHARDS)
    )
    calls = "".join(f"  register_typed_operators_{shard}(handles);\n" for shard in range(SHARDS))
    (out_dir / OUTPUTS[-1]).write_text(
        "// Generated by bindings/torch/generate_operators.py.\n"
        '#include "bindings/torch/intercept/typed_operator.h"\n\n'
        f"namespace tidepool::torch_glue {{\n\n{declarations}\n"
        "void register_typed_operators(std::vector<c10::RegistrationHandleRAII>& handles) {\n"
        f"{calls}}}\n\n}}  // namespace tidepool::torch_glue\n"
    )
    (out_dir / "operator_evidence.cpp").write_text(generate_evidence.generate(torch_root))
    print(f"{len(found)} typed operators; not here or not typed: {' '.join(skipped) or 'none'}")


if __name__ == "__main__":
    main()
