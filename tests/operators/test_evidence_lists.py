"""The evidence lists fit the PyTorch that runs; what the plugin compiles in says the same."""

import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import evidence_lists
import pytest
import torch
from generic_cases import host_overloads

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bindings" / "torch"))

import generate_evidence  # noqa: E402

KEPT_BY_RULE = """
aten::native_batch_norm.out aten::cudnn_batch_norm.out aten::miopen_batch_norm.out
aten::batch_norm_update_stats aten::batch_norm_update_stats.out aten::batch_norm_gather_stats
aten::batch_norm_gather_stats.out aten::batch_norm_gather_stats_with_counts
aten::batch_norm_gather_stats_with_counts.out aten::_cudnn_rnn aten::_cudnn_rnn.out
aten::_native_multi_head_attention aten::_transformer_encoder_layer_fwd aten::_fused_sdp_choice
""".split()
# A training step of ordinary networks needs these, or nothing of it is evictable.
ORDINARY = """
aten::add.Tensor aten::mul.Tensor aten::mm aten::addmm aten::bmm aten::convolution
aten::convolution_backward aten::native_batch_norm aten::native_batch_norm_backward aten::relu
aten::native_layer_norm aten::native_layer_norm_backward aten::_softmax aten::gelu aten::embedding
aten::embedding_dense_backward aten::native_dropout aten::max_pool2d_with_indices aten::cat
aten::_scaled_dot_product_flash_attention_for_cpu aten::_foreach_add_.List aten::_fused_adamw_
aten::threshold_backward aten::nll_loss_forward aten::_log_softmax aten::copy_ aten::_unsafe_view
""".split()


def test_the_list_has_each_overload_of_this_pytorch():
    path = evidence_lists.LISTS / f"cpu_{evidence_lists.version()}.txt"
    listed = [words[0] for words in generate_evidence.rows(path)]
    assert listed == host_overloads()


def test_the_list_tells_metadata_apart():
    path = evidence_lists.LISTS / f"cpu_{evidence_lists.version()}.txt"
    for words in generate_evidence.rows(path):
        assert (words[1] == "metadata") == evidence_lists.is_metadata(words[0]), words
        assert (len(words) == 4) == (words[1] == "kept"), words


def test_results_become_lines():
    types = {"aten::mul.Tensor": {"float32", "bool"}, "aten::mul_.Tensor": {"float32"},
             "aten::exp": {"float32"}, "aten::index_copy": {"bool"}, "aten::index.Tensor": {"bool"}}
    noticed = {"aten::mul.Tensor": {"varies"}, "aten::mul_.Tensor": {"hidden_alias"},
               "aten::exp": set(), "aten::index_copy": {"varies"}, "aten::index.Tensor": set()}
    lines = {line.split()[0]: line for line in evidence_lists.lines(types, noticed)}
    assert lines["aten::mul.Tensor"] == "aten::mul.Tensor kept bool,float32 varies"
    assert lines["aten::mul_.Tensor"] == "aten::mul_.Tensor kept float32 hidden_alias,varies"
    assert lines["aten::exp"] == "aten::exp trusted float32"
    assert lines["aten::mm"] == "aten::mm not_reached"
    assert lines["aten::index.Tensor"] == "aten::index.Tensor trusted bool"
    assert lines["aten::view"] == "aten::view metadata"


def test_made_up_operands_count_only_where_nothing_else_ran(tmp_path):
    real = '{"types": {"aten::exp": ["int64"]}, "noticed": {}}\n'
    made = ('{"types": {"aten::exp": ["bool"], "aten::mm": ["bool"]}, '
            '"noticed": {"aten::exp": ["varies"], "aten::mm": ["varies"]}}\n{"gro')
    (tmp_path / "1-operators.jsonl").write_text(real)
    (tmp_path / "0-generic.jsonl").write_text(made)
    types, noticed = evidence_lists.read_results(tmp_path)
    assert types == {"aten::exp": {"int64"}, "aten::mm": {"bool"}}
    assert noticed == {"aten::exp": set(), "aten::mm": {"varies"}}


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "cpu_2_11.txt").write_text(
        "aten::a trusted float32\naten::b trusted bool\naten::c kept bool varies\n"
        "aten::d not_reached\naten::gone trusted bool\naten::view metadata\n")
    (tmp_path / "cpu_2_15.txt").write_text(
        "aten::a trusted float32\naten::b not_reached\naten::c trusted bool\n"
        "aten::d not_reached\naten::new.out trusted bool\naten::view metadata\n")
    return tmp_path


def test_a_version_between_two_lists_trusts_what_both_trust(folder):
    assert generate_evidence.list_for((2, 13), folder) == {
        "aten::a": "kTrusted", "aten::b": "kNone", "aten::c": "kVaries", "aten::d": "kNone",
        "aten::view": "kTrusted"}
    assert generate_evidence.list_for((2, 15), folder)["aten::c"] == "kTrusted"
    with pytest.raises(SystemExit, match=r"No evidence for PyTorch 2\.16"):
        generate_evidence.list_for((2, 16), folder)


def test_the_review_comes_first_and_exact_names_and_devices_before_others():
    listed = {"aten::a": "kTrusted", "aten::a.out": "kTrusted", "aten::b": "kKept"}
    review = {("aten::a.*", "all"): "kKept", ("aten::a.out", "cuda"): "kTrusted",
              ("aten::b", "cuda"): "kTrusted", ("aten::only.*", "cuda"): "kTrusted"}
    exact, bases = generate_evidence.verdicts(listed, review)
    assert exact == {"aten::a": ("kKept", "kKept"), "aten::a.out": ("kKept", "kTrusted"),
                     "aten::b": ("kKept", "kTrusted")}
    assert bases == {"aten::a": ("kKept", "kKept"), "aten::only": ("kNone", "kTrusted")}


@pytest.mark.parametrize("line", ["aten::a all trusted", "aten::a gpu kept because",
                                  "aten::a all perhaps because",
                                  "aten::a all kept because\naten::a all kept because"])
def test_a_wrong_line_of_the_review_is_refused(tmp_path, line):
    (tmp_path / "reviewed.txt").write_text(line + "\n")
    with pytest.raises(ValueError, match="aten::a"):
        generate_evidence.read_review(tmp_path / "reviewed.txt")


def test_the_review_names_operators_that_there_are():
    names = set(torch._C._dispatch_get_all_op_names())
    bases = {name.split(".")[0] for name in names}
    for name, _ in generate_evidence.read_review(evidence_lists.LISTS / "reviewed.txt"):
        known = name in names or name.removesuffix(".*") in bases
        assert known or name.startswith("torchvision::"), name  # may not be installed


def test_what_is_compiled_in_says_what_the_lists_say(tmp_path):
    text = generate_evidence.generate(Path(torch.__file__).parent)
    (tmp_path / "operator_evidence.cpp").write_text(text)
    (tmp_path / "main.cpp").write_text("""
#include <iostream>
#include "operator_evidence.cpp"
using namespace tidepool::torch_glue;
int main() {
  for (std::string name; std::getline(std::cin, name);) {
    std::cout << name << ' ' << int(host_evidence(name)) << int(device_evidence(name)) << '\\n';
  }
}
""")
    compiler = shutil.which("c++") or shutil.which("g++") or shutil.which("clang++")
    subprocess.run([compiler, "-std=c++20", "-O0", f"-I{ROOT}", str(tmp_path / "main.cpp"), "-o",
                    str(tmp_path / "main")], check=True)
    unknown = ["aten::no_such", "aten::no_such.out", "", "aten::_cudnn_rnn.later", "zzz::zzz"]
    names = [*host_overloads(), *KEPT_BY_RULE, "aten::cudnn_convolution.out", *unknown]
    done = subprocess.run([str(tmp_path / "main")], input="\n".join(names) + "\n", text=True,
                          capture_output=True, check=True)
    said = dict(line.rsplit(" ", 1) for line in done.stdout.splitlines())
    none, trusted, varies, kept = "0", "1", "2", "3"
    review = generate_evidence.read_review(evidence_lists.LISTS / "reviewed.txt")
    listed = generate_evidence.list_for(tuple(map(int, torch.__version__.split(".")[:2])))
    numbers = {"kNone": none, "kTrusted": trusted, "kVaries": varies, "kKept": kept}
    for name in host_overloads():
        expected = [generate_evidence.reviewed(review, name, device) or listed[name]
                    for device in ("cpu", "cuda")]
        assert said[name] == "".join(numbers[each] for each in expected), name
    assert {said[name] for name in KEPT_BY_RULE} == {kept * 2}
    assert {name: said[name] for name in ORDINARY if said[name] != trusted * 2} == {}
    assert said["aten::cudnn_convolution.out"][1] == trusted
    assert said["aten::_cudnn_rnn.later"] == kept * 2
    assert {said[name] for name in unknown if "cudnn" not in name} == {none * 2}


def test_the_documents_tell_what_the_lists_say():
    text = (ROOT / "docs" / "supported.md").read_text(encoding="utf-8")
    for path in evidence_lists.LISTS.glob("cpu_*.txt"):
        words = generate_evidence.rows(path)
        counts = Counter(each[1] for each in words)
        number = path.stem.removeprefix("cpu_").replace("_", ".")
        row = [number, *(counts[each] for each in ("trusted", "kept", "not_reached", "metadata"))]
        assert f"| {' | '.join(map(str, row))} |" in text
        for name in (each[0] for each in words if "hidden_write" in each[-1]):
            line = next(each for each in text.splitlines()
                        if each.startswith(f"| {name.removeprefix('aten::')} |"))
            assert number in line
