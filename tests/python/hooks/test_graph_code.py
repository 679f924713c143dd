"""What generated code of torch.compile does is read from its text, or it is not understood."""

import types

import pytest
from tidepool.hooks import _graph_code
from tidepool.hooks._graph_code import Kind, Result, Seeds, Unknown

KERNEL = """
fused = async_compile.cpp_pybinding(['float*', 'const float*', 'float*', 'const int64_t'], r'''
{text}
''')
"""
CODE = """
class Runner:
    def call(self, args):
        {inputs} = args
        args.clear()
        {body}
        return ({results}, )
"""


def argument(name, is_write=None):
    alias = None if is_write is None else types.SimpleNamespace(is_write=is_write)
    return types.SimpleNamespace(name=name, alias_info=alias)


def operator(*arguments, returns=(None,)):
    schema = types.SimpleNamespace(arguments=arguments,
                                   returns=[argument("", each) for each in returns])
    return types.SimpleNamespace(_schema=schema)


ATEN = types.SimpleNamespace(
    mm=types.SimpleNamespace(out=operator(argument("self"), argument("mat2"),
                                          argument("out", True), returns=(True,))),
    attend=types.SimpleNamespace(default=operator(argument("q"), argument("dropout_p"),
                                                  returns=(None, None))),
    copy_=types.SimpleNamespace(default=operator(argument("self", True), argument("src"),
                                                 returns=(True,))),
    convolution=types.SimpleNamespace(default=operator(argument("x"), argument("transposed"))),
    view=types.SimpleNamespace(dtype=operator(argument("self", False), returns=(False,))))
TORCH = types.SimpleNamespace(ops=types.SimpleNamespace(aten=ATEN))


def read(body, results="buf0", inputs="a, b, s0", text=""):
    lines = "\n        ".join(body.strip().splitlines())
    source = KERNEL.format(text=text) + CODE.format(inputs=inputs, body=lines, results=results)
    return _graph_code.read(source, TORCH)


FILL = "buf0 = empty_strided_cpu((s0, 4), (4, 1), torch.float32)\nfused(buf0, a, buf0, s0)\n"


def test_a_graph_that_only_reads_its_inputs():
    code = read("assert_size_stride(a, (s0, 4), (4, 1))\n" + FILL + "del a\n"
                "buf1 = reinterpret_tensor(buf0, (4, s0), (1, 4), 0); del buf0  # reuse\n"
                "extern_kernels.mm(b, buf1, out=buf1)",
                "buf1, b, None, s0, reinterpret_tensor(buf1, (4,), (1,), 0), "
                "reinterpret_tensor(b, (4,), (1,), 4)")
    assert code.inputs == 3 and code.written == () and not code.varies
    assert code.results == (Result(Kind.FRESH, 0), Result(Kind.INPUT, 1), Result(Kind.OTHER),
                            Result(Kind.INPUT, 2), Result(Kind.FRESH_VIEW, 0),
                            Result(Kind.INPUT_VIEW, 1))
    assert code.operators == ("aten::mm.out",)


@pytest.mark.parametrize("write", [
    "fused(buf0, buf0, b, s0)",
    "buf1 = b; del b  # reuse\nfused(buf1, a, buf0, s0)",
    "fused(reinterpret_tensor(b, (4,), (1,), 0), a, buf0, s0)",
    "extern_kernels.mm(a, a, out=b)",
    "extern_kernels.mm(a, a, reinterpret_tensor(b, (4,), (1,), 0))",
    "aten.copy_.default(b, buf0)",
])
def test_writes_to_inputs_are_seen(write):
    assert read(FILL + write).written == (1,)


def test_an_operator_that_returns_several_tensors():
    code = read("buf0 = torch.ops.aten.attend.default(a)\nbuf1 = buf0[0]\nbuf2 = buf0[1]",
                "buf2, buf1, buf2, reinterpret_tensor(buf2, (4,), (1,), 0)")
    assert code.results == (Result(Kind.FRESH, 0), Result(Kind.FRESH, 1),
                            Result(Kind.SAME, 0), Result(Kind.FRESH_VIEW, 0))


def test_seeds_are_read_in_the_order_of_their_draws():
    code = read(FILL + "aten.randint.low_out(-8, 7, [2], out=buf0)\n"
                       "aten.randint.low_out(0, 9, [1], out=buf0)")
    assert code.seeds == (Seeds(-8, 7, (2,)), Seeds(0, 9, (1,)))
    assert code.operators == ()


def test_additions_of_several_threads_vary():
    assert read(FILL, text="atomic_add(out, 1)").varies
    assert not read("buf0 = b", text="atomic_add(out, 1)").varies


@pytest.mark.parametrize("body", [
    "if s0 > 3:\n    buf0 = a",
    "buf0 = mylib.make(a)",
    "buf0 = torch.ops.mylib.make.default(a)",
    "buf0 = torch.ops.aten.gone.default(a)",
    "buf0 = extern_kernels.special(a)",
    "buf0 = aten.view.dtype(a)",
    "buf0 = a.item()",
    "self.partitions[0](a)",
    "buf0 = a.grad",
    "fused(a)",
    "extern_kernels.mm(a, a, out=constant)",
    "aten.randint.low_out(-8, 7, [s0], out=b)",
    "buf0, buf1 = a, b",
])
def test_what_is_not_understood(body):
    with pytest.raises(Unknown):
        read(body)


def test_other_texts():
    for source in ("this is no Python", "x = 3", "def call(args):\n    return args"):
        with pytest.raises(Unknown):
            _graph_code.read(source, TORCH)


TRITON = """
import triton
import triton.language as tl

@triton_heuristics.{launcher}(
    size_hints={{'x': 32}},
    triton_meta={{'signature': {{'in_out_ptr0': '*fp32', 'in_ptr0': '*i64', 'in_ptr1': '*fp32',
                                 'out_ptr0': '*fp32', 'xnumel': '{number}', 'XBLOCK': 'constexpr'}},
                  'device': DeviceProperties(type='cuda', index=0)}},
    inductor_meta={{'mutated_arg_names': [{mutated}], 'atomic_add_found': False}})
@triton.jit
def fused(in_out_ptr0, in_ptr0, in_ptr1, out_ptr0, xnumel, XBLOCK : tl.constexpr):
    xindex = tl.program_id(0) * XBLOCK + tl.arange(0, XBLOCK)[:]
    tmp0 = tl.load(in_ptr0 + xindex, xindex < xnumel, other=0.0)
    tmp1 = tl.load(in_ptr1 + (tmp0 + tl.full([1], 2, tl.int32)), None)
    {more}
    tl.store(out_ptr0 + xindex, tmp1, None)
    tl.store(in_out_ptr0 + xindex, tmp0, None)
"""
ON_CUDA = """
fused = async_compile.triton('fused', '''{text}''', device_str='cuda')

class Runner:
    def call(self, args):
        a, b, c = args
        args.clear()
        {guard}:
            torch.cuda.set_device(0)
            a = copy_if_misaligned(a)
            buf0 = empty_strided_{where}((32, ), (1, ), torch.float32)
            buf1 = empty_strided_cuda((32, ), (1, ), torch.float32)
            raw_stream0 = get_raw_stream(0)
            fused.run({arguments}, stream=raw_stream0)
            {after}
        return (buf0, a, buf1, reinterpret_tensor(b, (4,), (1,), 4), )
"""
GUARD = "with torch.cuda._DeviceGuard(0)"


def read_triton(arguments="buf0, a, b, buf1, 32", guard=GUARD, where="cuda", after="del c",
                **of_kernel):
    kernel = {"launcher": "pointwise", "mutated": "'in_out_ptr0'", "more": "pass",
              "number": "i32", **of_kernel}
    return _graph_code.read(ON_CUDA.format(text=TRITON.format(**kernel), guard=guard, where=where,
                                           arguments=arguments, after=after), TORCH, "cuda")


def test_kernels_of_triton_write_what_they_do_not_only_load_from():
    code = read_triton()
    assert code.inputs == 3 and code.written == () and not code.varies and code.operators == ()
    assert code.results == (Result(Kind.FRESH, 0), Result(Kind.INPUT, 0), Result(Kind.FRESH, 1),
                            Result(Kind.INPUT_VIEW, 1))
    assert read_triton("buf0, a, b, c, 32").written == (2,)
    assert read_triton("a, b, c, buf1, 32").written == (0,)


@pytest.mark.parametrize("more", ["tl.store(in_ptr1 + xindex, tmp0, None)",
                                  "tl.load(helper(in_ptr1) + xindex, None)", "p = in_ptr1"])
def test_what_else_a_kernel_may_do_with_a_pointer_is_a_write(more):
    assert read_triton(more=more).written == (1,)


def test_what_the_compiler_says_is_mutated_is_written():
    assert read_triton(mutated="'in_ptr0'").written == (0,)


def test_atomic_operations_of_triton_come_in_any_order():
    assert read_triton(more="tl.atomic_add(out_ptr0 + xindex, tmp1, None)").varies


@pytest.mark.parametrize("changes", [
    {"launcher": "user_autotune"}, {"launcher": "cooperative_reduction"},
    {"arguments": "buf0, a, b"}, {"guard": "with nothing(0)"},
    {"guard": f"{GUARD}, more(1)"}, {"guard": "if True"}, {"where": "cpu"},
    {"mutated": "*names"}, {"arguments": "buf0, a, b, buf1, 32, 64, 7"}])
def test_code_for_cuda_that_is_not_understood(changes):
    with pytest.raises(Unknown):
        read_triton(**changes)


@pytest.mark.parametrize(("call", "varies"), [
    ("extern_kernels.convolution(a, transposed=False)", False),
    ("extern_kernels.convolution(a, transposed=True)", True),
    ("torch.ops.aten.convolution.default(a, False)", False),
    ("torch.ops.aten.convolution.default(a, 1 > 0)", True)])
def test_a_convolution_varies_on_cuda_unless_it_is_not_transposed(call, varies):
    assert read_triton(guard=f"buf2 = {call}\n        {GUARD}").varies == varies
    assert not read(FILL + f"buf1 = {call}").varies


@pytest.mark.parametrize("body", [
    FILL + "fused(buf0, _frozen_param0, buf0, s0)", FILL + "extern_kernels.mm(a, constant0)",
    FILL + "buf1 = reinterpret_tensor(_tensor_constant0, (4,), (1,), 0)"])
def test_constants_are_not_understood(body):
    with pytest.raises(Unknown, match="constant"):
        read(body)


@pytest.mark.parametrize(("text", "varies"), [
    ("out_ptr0[static_cast<int64_t>(x0 + 32L*tmp4)] = tmp7;", True),
    ("out_ptr0[static_cast<int64_t>(x0 + 32L*x1)] = tmp7;", False),
    ("auto tmp1 = in_ptr0[static_cast<int64_t>(tmp4)]; out_ptr0[x0] = tmp1;", False),
    ("tmp7.store(out_ptr0 + static_cast<int64_t>(x0 + f(x1, tmp4)), static_cast<int64_t>(8));",
     True),
    ("tmp7.store(out_ptr0 + static_cast<int64_t>(x0), static_cast<int64_t>(tmp4));", False)])
def test_stores_at_places_that_values_say_may_meet(text, varies):
    assert read(FILL, text=text).varies == varies


def test_stores_of_triton_at_places_that_values_say_may_meet():
    assert read_triton(more="tl.store(out_ptr0 + (xindex + 32*tmp0), tmp1, None)").varies


@pytest.mark.parametrize("changes", [{"mutated": "'other'"}, {"number": "tensordesc<fp32[64]>"}])
def test_descriptors_of_tensors_are_not_understood(changes):
    with pytest.raises(Unknown):
        read_triton(**changes)


@pytest.mark.parametrize(("given", "draws"), [
    ("a", False), ("a, 0.0", False), ("a, dropout_p=0.0", False), ("a, 0.1", True),
    ("a, b", True)])
def test_attention_draws_if_it_drops_out(given, draws):
    body = f"buf1 = torch.ops.aten.attend.default({given})"
    code = read_triton(after=body)
    assert code.operators == ("aten::attend",)
    assert code.drawing == (("aten::attend",) if draws else ())
    if draws:
        with pytest.raises(Unknown, match="draws"):  # on the CPU
            read(FILL + body)
        assert read_triton(after=body + "; aten.randint.low_out(-8, 7, [2], out=buf0)").seeds == ()
    else:
        assert read(FILL + body).drawing == ()


def test_code_for_another_device_is_not_understood():
    with pytest.raises(Unknown):
        read(FILL.replace("_cpu", "_cuda"))
