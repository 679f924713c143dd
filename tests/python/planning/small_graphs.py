"""Small steps for solvers."""

from itertools import pairwise

from tidepool.planning.graph import Gap, Graph, Value


def chain(layers: int, budget: int, costs: list[int],
          energies: list[int] | None = None) -> Graph:
    """Return a step of layers and their backward part, all results of 100 bytes.

    Operator k of the first makes value k of value k - 1; after them, operators read the values in
    reverse order.
    """
    ops = 2 * layers
    values = tuple(
        Value(100, costs[k], (energies or costs)[k], 0, k, k, (k - 1,) if k else (),
              tuple(sorted({k + 1 if k + 1 < layers else layers, ops - 1 - k} - {k})), False)
        for k in range(layers))
    gaps = tuple(Gap(k, number, begin, end) for k, value in enumerate(values)
                 for number, (begin, end) in enumerate(pairwise((k, *value.uses)))
                 if end > begin + 1)
    return Graph("0" * 16, 2 * layers, layers, budget, tuple(costs) * 2,
                 tuple(energies or costs) * 2, (0,) * ops, values, gaps, None, None, (), 0)
