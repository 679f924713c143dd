"""What runs above the interception: layouts (sparse, nested, mkldnn, fake), and composites."""

import torch
import torch.nn.functional as F
from torch.utils import mkldnn


def case_sparse_coo():
    index = torch.randint(0, 20, (2, 60))
    values = torch.randn(60) * 2
    sparse = torch.sparse_coo_tensor(index, values, (20, 20))
    dense = torch.randn(20, 5) * 2
    product = torch.sparse.mm(sparse, dense)
    coalesced = sparse.coalesce()
    values.mul_(2)
    return (product, coalesced, (sparse + sparse).to_dense(), torch.sparse.sum(sparse),
            sparse.t().to_dense(), coalesced.values() * 2, coalesced.indices() + 1,
            sparse.mul(2).to_dense(), dense.sparse_mask(torch.eye(20, 5).to_sparse().coalesce()))


def case_sparse_below_autograd():
    """What makes sparse tensors, and checks them, runs on their own key there."""
    x = torch.randn(4, 5) * 2
    mask = (x > 0) * 1
    with torch.sparse.check_sparse_tensor_invariants(), torch.inference_mode():
        coo, csr = mask.to_sparse(), mask.to_sparse_csr()
        made = (torch.sparse_coo_tensor(coo.indices() * 1, coo.values() * 2, (4, 5)),
                torch.sparse_csr_tensor(csr.crow_indices() * 1, csr.col_indices() * 1,
                                        csr.values() * 3, (4, 5)),
                torch.sparse_coo_tensor(coo.indices() * 1, coo.values() * 4))
        return [each.to_dense() * 1 for each in made]


def case_sparse_gradients():
    embedding = torch.nn.Embedding(30, 6, sparse=True)
    optimizer = torch.optim.SparseAdam(embedding.parameters(), lr=0.1)
    sgd = torch.nn.EmbeddingBag(30, 6, sparse=True)
    second = torch.optim.SGD(sgd.parameters(), lr=0.1)
    history = []
    for _ in range(3):
        index = torch.randint(0, 30, (8, 3))
        loss = embedding(index).tanh().sum() + sgd(index).square().sum()
        optimizer.zero_grad()
        second.zero_grad()
        loss.backward()
        optimizer.step()
        second.step()
        history.append(loss)
    return history, embedding.weight, sgd.weight, embedding.weight.grad


def case_sparse_autograd():
    sparse = torch.randn(12, 12).relu().to_sparse().requires_grad_()
    dense = torch.randn(12, 4, requires_grad=True)
    y = torch.sparse.mm(sparse, dense * 2)
    y.sin().sum().backward()
    softmax = torch.sparse.softmax(sparse.detach(), 1)
    return y, sparse.grad, dense.grad, softmax.to_dense()


def case_sparse_csr():
    dense = (torch.randn(16, 16) * 2).relu()
    csr = dense.to_sparse_csr()
    x = torch.randn(16, 3) * 2
    y = csr @ x
    z = torch.addmm(y, csr, x)
    values = csr.values()
    values.mul_(2)
    return (y, z, csr.to_dense(), csr.crow_indices() + 0, csr.col_indices() + 0, csr @ x,
            csr.to_sparse_coo().to_dense(), (csr * 2).to_dense(), dense)


def case_sparse_products_of_looks():
    """PyTorch does not resolve all of them: what it makes of them is what counts."""
    matrix = torch.sparse_coo_tensor(torch.randint(0, 12, (2, 40)),
                                     torch.randn(40, dtype=torch.complex64), (12, 12))
    x, y = torch.randn(2, 12, 6, dtype=torch.complex64) * 2
    seen = []
    for each in (matrix, matrix.coalesce().to_sparse_csr()):
        for dense in (x.conj(), x.imag.neg() + 0j, torch._neg_view(x)):
            seen += [each @ dense, torch.addmm(y, each, dense), torch.addmm(dense, each, y)]
    return seen


def case_sparse_products():
    """What is multiplied by a sparse matrix may leave, and the matrix may change meanwhile."""
    weight = torch.randn(8, 8, requires_grad=True)
    index = torch.randint(0, 24, (2, 80))
    matrices = [torch.sparse_coo_tensor(index, torch.randn(80), (24, 24))]
    matrices.append(matrices[0].coalesce())
    matrices += [matrices[1].to_sparse_csr(), matrices[1].to_sparse_csc(),
                 torch.sparse_coo_tensor(torch.empty(2, 0, dtype=torch.long), torch.empty(0),
                                         (24, 24))]
    seen = []
    x = torch.randn(24, 8)
    for matrix in matrices:
        for _ in range(2):
            x = torch.tanh(torch.sparse.mm(matrix, x @ weight) + x)
        seen += [x, matrix @ x[:, 0], torch.addmm(x, matrix, x, beta=0.5)]
    for reduction in ("sum", "mean", "amax", "amin"):
        x = torch.tanh(torch.sparse.mm(matrices[2], x @ weight, reduction) + x)
        seen.append(x)
    loss = torch.sparse.mm(matrices[2], x).square().sum() + seen[0].sin().sum()
    loss.backward()
    x = x.detach() * 2
    before = [torch.sparse.mm(matrix, x) for matrix in matrices]
    matrices[2].values().mul_(2)
    matrices[1].values()[::3] = 0.25
    matrices[0].mul_(3)
    changed = [torch.sparse.mm(matrix, x) for matrix in matrices[:3]]
    matrices[1].add_(matrices[1])
    changed.append(matrices[1] @ x)
    del matrices, matrix
    return seen, before, changed, loss, weight.grad


def case_sparse_blocks():
    dense = torch.randn(8, 8) * 2
    csc, bsr = dense.to_sparse_csc(), dense.to_sparse_bsr((2, 2))
    dense.add_(1)
    return csc.to_dense(), bsr.to_dense(), bsr.values() * 2, (bsr @ dense)


def case_nested():
    parts = [torch.randn(k, 4) * 2 for k in (2, 5, 3)]
    nested = torch.nested.nested_tensor(parts)
    weight = torch.randn(4, 6) * 2
    y = F.linear(nested, weight.t())
    padded = torch.nested.to_padded_tensor(y, 0.0)
    relu = F.relu(nested)
    parts[0].zero_()
    return (padded, nested, relu, [each * 2 for each in y.unbind()],
            torch.nested.to_padded_tensor(F.softmax(nested, -1), 9.0))


def case_nested_autograd():
    parts = [torch.randn(k, 4, requires_grad=True) for k in (2, 5, 3)]
    nested = torch.nested.as_nested_tensor([p * 2 for p in parts])
    linear = torch.nn.Linear(4, 3)
    y = torch.nested.to_padded_tensor(linear(nested), 0.0)
    y.tanh().sum().backward()
    return y, [p.grad for p in parts], linear.weight.grad


def case_nested_parameters():
    """The node that accumulates one's gradient has the tensor of its sizes, and ends with it."""
    gradients = []
    for _ in range(2):
        parts = [torch.randn(2, 5) * 2, torch.randn(3, 4) * 2]
        nested = torch.nested.nested_tensor(parts).requires_grad_(True)
        nested[0].backward(torch.randn(2, 5) * 3)
        gradients += [each * 1 for each in nested.grad.unbind()]
    return gradients


def case_nested_written_before_its_backward():
    """The error prints the tensor of the sizes, in C++."""
    nested = torch.nested.nested_tensor([torch.randn(2) * 2, torch.randn(3) * 2],
                                        requires_grad=True)
    x = nested.clone()
    y = x.sum(-1, keepdim=True)
    x.add_(x)
    try:
        y.backward(torch.nested.nested_tensor([torch.ones(1) * 2, torch.ones(1) * 2]))
    except RuntimeError as error:
        return str(error)


def case_nested_jagged():
    parts = [torch.randn(k, 4, requires_grad=True) for k in (2, 5, 3)]
    nested = torch.nested.as_nested_tensor([p * 2 for p in parts], layout=torch.jagged)
    y = (nested * 3).sin()
    values = y.values()
    total = values.sum()
    total.backward()
    return values * 1, total, [p.grad for p in parts]


def case_mkldnn():
    x = torch.randn(2, 4, 10, 10) * 2
    weight, bias = torch.randn(6, 4, 3, 3) * 2, torch.randn(6) * 2
    y = torch.mkldnn_convolution(x.to_mkldnn(), weight.to_mkldnn(), bias.to_mkldnn(),
                                 (1, 1), (1, 1), (1, 1), 1)
    relu = F.relu(y)
    x.zero_()
    linear = mkldnn.to_mkldnn(torch.nn.Linear(8, 8).eval())
    z = linear((torch.randn(3, 8) * 2).to_mkldnn())
    return y.to_dense(), relu.to_dense(), z.to_dense() * 2, (relu + relu).to_dense()


def case_dense_weights_beside_mkldnn():
    """Convolutions have one composition for all layouts, which reads the weights by itself."""
    results = []
    for convolve, dimensions in ((F.conv1d, 1), (F.conv2d, 2), (F.conv3d, 3),
                                 (F.conv_transpose1d, 1), (F.conv_transpose2d, 2),
                                 (F.conv_transpose3d, 3)):
        x = torch.randn(2, 4, *[7] * dimensions) * 2
        weight, bias = torch.randn(4, 4, *[3] * dimensions) * 2, torch.randn(4) * 2
        results.append(convolve(x.to_mkldnn(), weight, bias, stride=2).to_dense())
        parameter = weight.clone().requires_grad_()
        with torch.set_grad_enabled(dimensions == 2):
            results.append(convolve(x.to_mkldnn(), parameter * 1).to_dense())
    layer = torch.nn.BatchNorm2d(4).eval()
    x = (torch.randn(2, 4, 6, 6) * 2).to_mkldnn()
    results.append(F.batch_norm(x, layer.running_mean * 1, layer.running_var * 2,
                                layer.weight * 2, layer.bias + 1).to_dense())
    results.append(F.prelu(x, torch.rand(4) * 0.5).to_dense())
    results.append(F.linear((torch.randn(3, 8) * 2).to_mkldnn(), torch.randn(5, 8) * 1).to_dense())
    return results


def case_mkldnn_autograd():
    x = (torch.randn(2, 4, 8, 8) * 2).requires_grad_()
    y = F.relu(x.to_mkldnn() * 2).add(x.to_mkldnn())
    y.to_dense().square().sum().backward()
    return y.to_dense(), x.grad


def case_masked():
    data = torch.randn(5, 5) * 2
    mask = data > 0
    masked = torch.masked.masked_tensor(data, mask)
    return ((masked * 2).to_tensor(0.0), masked.sum().to_tensor(0.0),
            torch.masked.mean(data, mask=mask))


def case_meta_and_fake():
    from torch._subclasses.fake_tensor import FakeTensorMode

    x = torch.randn(4, 4) * 2
    meta = x.to("meta") @ torch.empty(4, 2, device="meta")
    with FakeTensorMode() as mode:
        fake = mode.from_tensor(x) @ torch.randn(4, 3)
    return x + 1, tuple(meta.shape), tuple(fake.shape)


def case_layouts_that_pools_keep():
    """What PyTorch differentiates or traces is pooled by another kernel, which keeps layouts."""
    from torch.fx.experimental.proxy_tensor import make_fx

    def pooled(x):
        return torch.nn.functional.max_pool1d(x, 2).transpose(1, 2).view(-1)

    x = (torch.randn(2, 8, 4) * 2).transpose(1, 2)
    graph = make_fx(pooled)(x)
    with torch.autograd.forward_ad.dual_level():
        dual = tuple(torch.autograd.forward_ad.unpack_dual(
            pooled(torch.autograd.forward_ad.make_dual(x, x * 1))))
    return (torch.func.jvp(pooled, (x,), (x * 1,)), dual, graph(x * 1),
            [str(node.target) for node in graph.graph.nodes])


def case_outputs_that_grow():
    """Composite operators give outputs another size by themselves."""
    x = torch.randn(3, 4, 4)
    x = x @ x.mT + 4 * torch.eye(4)
    ways = [
        lambda out: torch.special.ndtr(x, out=out), lambda out: torch.matmul(x, x, out=out),
        lambda out: torch.linalg.matrix_norm(x, out=out), lambda out: torch.inner(x, x, out=out),
        lambda out: torch.norm(x, "nuc", dim=(1, 2), out=out),
        lambda out: torch.linalg.pinv(x, rtol=0.5, out=out), lambda out: torch.kron(x, x, out=out),
        lambda out: torch.linalg.inv(x, out=out), lambda out: torch.square(x, out=out),
        *(lambda out, n=n: torch.linalg.matrix_power(x, n, out=out) for n in (0, 1, 3, -2)),
    ]
    made = []
    for way in ways:
        small, large = torch.randn(2) * 2, torch.randn(800) * 2
        made += [way(small), way(large[:1]), small, large]
    return made


def case_made_without_tensors():
    """Their device is picked past the interception; Kaiser's window reads its own range."""
    windows = [make(16, periodic=periodic)
               for make in (torch.bartlett_window, torch.blackman_window, torch.hamming_window,
                            torch.hann_window, torch.kaiser_window)
               for periodic in (True, False)]
    kaiser = [torch.kaiser_window(16, True, 5.0), torch.kaiser_window(1), torch.kaiser_window(0),
              torch.ops.aten.kaiser_window.out(16, out=torch.empty(0)),
              torch.kaiser_window(9, dtype=torch.float64, requires_grad=True) * 2]
    ranges = [torch.arange(5), torch.range(1, 5), torch.linspace(0, 1, 7), torch.eye(3),
              torch.logspace(0, 1, torch.tensor(7)), torch.fft.fftfreq(8), torch.fft.rfftfreq(8),
              torch.tril_indices(4, 4), torch.triu_indices(4, 4), torch.full((3,), 2.5)]
    drawn = [torch.randn(5), torch.randint(9, (5,)), torch.randperm(7),
             torch.normal(0.0, 1.0, (5,)),
             torch.rand(5, generator=torch.Generator().manual_seed(1))]
    spectrum = torch.stft(torch.randn(200), 32, window=torch.kaiser_window(32),
                          return_complex=True)
    return *windows, *kaiser, *ranges, *drawn, spectrum
