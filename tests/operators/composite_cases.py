"""Composite operators that read elements above the dispatch key of Tidepool, and what uses them.

The databases have few of them. Each case here failed, or could go wrong unseen, without
bindings/torch/intercept/raw_readers.cpp.
"""

from collections.abc import Callable, Iterator

import torch
import torch.nn.utils.rnn as rnn
from comparison import Case, gradients


def groups(full: bool, dtypes: list[str] | None) -> Iterator[tuple[str, Callable]]:
    """Yield each function below as a group of one case."""
    for kind in ("LSTM", "GRU", "RNN"):
        yield f"packed_{kind.lower()}", lambda kind=kind: iter(
            [Case("", lambda: packed(kind))])
    for function in (sparse_sizes, sparse_compressed, quantiles, splits, inference, sobol,
                     sobol_earlier_values, ctc, bags, half_weights):
        yield function.__name__, lambda function=function: iter([Case("", function)])


SOURCES: list[torch.Tensor] = []  # if it died, what was made from it could not be evicted


def fresh(values) -> torch.Tensor:
    """Return a tensor that an operator made and that can be evicted."""
    SOURCES.append(torch.tensor(values))
    return SOURCES[-1] * 1


def packed(kind: str) -> object:
    network = getattr(torch.nn, kind)(4, 5, num_layers=2, bidirectional=True, dropout=0.3)
    sequences = torch.randn(6, 3, 4, requires_grad=True)
    inputs = rnn.pack_padded_sequence(sequences * 1, fresh([4, 6, 2]), enforce_sorted=False)
    outputs, state = network(inputs)
    padded, lengths = rnn.pad_packed_sequence(outputs)
    return padded, lengths, gradients((padded, state), [sequences, *network.parameters()])


def sparse_sizes() -> object:
    indices, values = torch.randint(0, 5, (2, 7)), torch.randn(7, requires_grad=True)
    inferred = torch.sparse_coo_tensor(indices + 0, values * 1)
    checked = torch.sparse_coo_tensor(indices + 0, values * 2, (5, 5), check_invariants=True)
    product = torch.sparse.mm(checked, torch.randn(5, 3))
    return (inferred.to_dense(), inferred.coalesce().to_dense(), product,
            gradients(product, [values]))


def sparse_compressed() -> object:
    rows = torch.randn(4, 4).relu().to_sparse_csr()
    made = torch.sparse_csr_tensor(rows.crow_indices() + 0, rows.col_indices() + 0,
                                   rows.values() * 1, (4, 4), check_invariants=True)
    return made.to_dense(), made @ torch.randn(4, 2)


def quantiles() -> object:
    x = torch.randn(4, 6, requires_grad=True)
    found = [torch.quantile(x * 1, fresh([0.2, 0.5]), dim=0), torch.quantile(x * 1, 0.3),
             torch.nanquantile(x * 1, fresh(0.7), dim=1, keepdim=True)]
    out = torch.zeros(6)
    earlier = out + 1
    torch.quantile(x.detach() * 1, 0.4, dim=0, out=out)
    return found, earlier, out * 1, gradients(found, [x])


def splits() -> object:
    x = torch.randn(7, 3, requires_grad=True)
    parts = torch.tensor_split(x * 1, fresh([1, 4]))
    return parts, torch.tensor_split(x * 1, fresh(3)), gradients(parts, [x])


def inference() -> object:
    with torch.inference_mode():
        x = torch.randn(8) * 1
        return torch.quantile(x * 1, 0.5), torch.tensor_split(x * 1, fresh([2, 3]))


def sobol() -> object:
    plain, scrambled = (torch.quasirandom.SobolEngine(5, scramble=scramble, seed=3)
                        for scramble in (False, True))
    drawn = []
    for engine in (plain, scrambled):
        drawn.append(engine.draw(4) * 1)
        drawn.append(engine.fast_forward(3).draw(2) * 1)
        drawn.append(engine.reset().draw(3))
    return drawn


def sobol_earlier_values() -> object:
    """What was computed from the engine's state is asked for after the engine has written it."""
    engine = torch.quasirandom.SobolEngine(4, scramble=True, seed=5)
    engine.quasi = engine.quasi * 1
    earlier = []
    for _ in range(3):
        earlier.append(engine.quasi * 2)
        engine.fast_forward(1)
    return earlier, engine.quasi


def ctc() -> object:
    scores = torch.randn(12, 3, 5, requires_grad=True)
    targets, lengths = torch.randint(1, 5, (3, 6)), fresh([6, 3, 5]).to(torch.int32)
    loss = torch.nn.functional.ctc_loss(scores.log_softmax(2), targets + 0,
                                        fresh([12, 10, 11]).to(torch.int32), lengths)
    return loss, gradients(loss, [scores])


def bags() -> object:
    table = torch.nn.EmbeddingBag(10, 3, mode="mean")
    found = table(torch.randint(0, 10, (7,)) + 0, fresh([0, 3, 5]))
    return found, gradients(found, [table.weight])


def half_weights() -> object:
    weight = torch.randn(4, 6) * 1e5
    earlier = weight * 2
    return torch._saturate_weight_to_fp16(weight), earlier, weight
