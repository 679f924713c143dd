"""Parameters are called what their modules call them; strangers by their place."""

import gc

import pytest

torch = pytest.importorskip("torch")

from tidepool.verify._tensor_names import TensorNames  # noqa: E402
from torch import nn  # noqa: E402


def sgd(parameters):
    return torch.optim.SGD(parameters, lr=0.1)


def test_names_are_those_of_the_outermost_module():
    model = nn.Sequential(nn.Linear(2, 3), nn.Sequential(nn.BatchNorm1d(3)))
    names = TensorNames(torch, sgd(model.parameters()))
    assert names.parameters == ["0.weight (3x2 float32)", "0.bias (3 float32)",
                                "1.0.weight (3 float32)", "1.0.bias (3 float32)"]
    assert [label for label, _ in names.buffers()] == [
        "1.0.running_mean (3 float32)", "1.0.running_var (3 float32)",
        "1.0.num_batches_tracked (scalar int64)"]


def test_several_models_are_told_apart_in_the_optimizers_order():
    discriminator, generator = nn.Bilinear(2, 2, 1, bias=False), nn.Linear(2, 2, bias=False)
    names = TensorNames(torch, sgd([generator.weight, discriminator.weight]))
    assert names.parameters == ["Linear.weight (2x2 float32)", "Bilinear.weight (1x2x2 float32)"]


def test_tied_parameters_and_parameters_without_a_module():
    model = nn.Sequential(nn.Linear(2, 2, bias=False), nn.Linear(2, 2, bias=False))
    model[1].weight = model[0].weight
    loose = torch.zeros(3, requires_grad=True)
    optimizer = torch.optim.SGD([{"params": model.parameters()}, {"params": [loose]}], lr=0.1)
    names = TensorNames(torch, optimizer)
    assert names.parameters == ["0.weight (2x2 float32)", "group 1 parameter 0 (3 float32)"]


def test_no_module_is_kept_alive():
    model = nn.BatchNorm1d(2)
    optimizer = sgd(model.parameters())
    names = TensorNames(torch, optimizer)
    assert len(list(names.buffers())) == 3
    del model
    gc.collect()
    assert list(names.buffers()) == []


def test_half_made_modules_are_passed_over():
    strange = nn.Module.__new__(nn.Module)
    model = nn.Linear(1, 1)
    try:
        labels = TensorNames(torch, sgd(model.parameters())).parameters
    finally:
        del strange
    assert labels[0] == "weight (1x1 float32)"
