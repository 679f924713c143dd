"""Trains in steps that are long, or never the same: which one is the first argument.

    python train_long_steps.py operators|experts|cache|lengths [STEPS]
"""

import sys

import torch
from torch import nn
from torch.nn import functional

WIDTH, HEADS, WORDS = 64, 4, 100


class Block(nn.Module):
    """A block of a transformer, with what follows attention given."""

    def __init__(self, rest: nn.Module) -> None:
        super().__init__()
        self.norms = nn.ModuleList([nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)])
        self.into, self.out, self.rest = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH), rest

    def forward(self, x, past=None):
        """Attend to what is past, too; return the results, and keys and values for later."""
        heads = [each.unflatten(-1, (HEADS, -1)).transpose(1, 2)
                 for each in self.into(self.norms[0](x)).chunk(3, -1)]
        if past is not None:
            heads[1:] = [torch.cat(pair, 2) for pair in zip(past, heads[1:], strict=True)]
        attended = functional.scaled_dot_product_attention(*heads, is_causal=past is None)
        x = x + self.out(attended.transpose(1, 2).flatten(2))
        return x + self.rest(self.norms[1](x)), heads[1:]


class Experts(nn.Module):
    """Eight networks, of which each row takes the two that a router picks."""

    def __init__(self) -> None:
        super().__init__()
        self.router = nn.Linear(WIDTH, 8)
        self.experts = nn.ModuleList(perceptron() for _ in range(8))

    def forward(self, x):
        rows = x.flatten(0, 1)
        noisy = self.router(rows) + torch.randn(len(rows), 8)
        weights, picked = noisy.softmax(-1).topk(2)
        out = torch.zeros_like(rows)
        for number, expert in enumerate(self.experts):
            row, place = (picked == number).nonzero(as_tuple=True)
            if len(row):
                out = out.index_add(0, row, expert(rows[row]) * weights[row, place, None])
        return out.view_as(x)


def perceptron() -> nn.Module:
    return nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))


class Network(nn.Module):
    """Four blocks between words and words."""

    def __init__(self, rest) -> None:
        super().__init__()
        self.words, self.back = nn.Embedding(WORDS, WIDTH), nn.Linear(WIDTH, WORDS)
        self.blocks = nn.ModuleList(Block(rest()) for _ in range(4))

    def forward(self, words, pasts=(None,) * 4):
        x, kept = self.words(words), []
        for block, past in zip(self.blocks, pasts, strict=True):
            x, each = block(x, past)
            kept.append(each)
        return self.back(x), kept


def next_word(network, words):
    """Return the loss of foretelling each word from those before it."""
    said, _ = network(words[:, :-1])
    return functional.cross_entropy(said.flatten(0, 1), words[:, 1:].flatten())


def operators():
    """A recurrence of 25,000 rounds: some 100,000 operators in the forward pass alone."""
    cell = nn.Linear(128, 128)

    def loss():
        x = torch.randn(4, 128)
        total = torch.zeros(())
        for _ in range(25_000):
            x = torch.tanh(cell(x)) + x * 0.5
            total = total + x.mean() / 25_000
        return total

    return cell, loss


def experts():
    """Which expert gets which rows changes with each step, and so do all sizes."""
    network = Network(Experts)
    return network, lambda: next_word(network, torch.randint(WORDS, (8, 65)))


def cache():
    """Words are drawn one by one, each from what is kept of those before, and learnt from."""
    network = Network(perceptron)

    def loss():
        words, pasts, total = torch.randint(WORDS, (8, 1)), None, torch.zeros(())
        for _ in range(96):
            said, pasts = network(words, pasts) if pasts else network(words)
            chance = said[:, -1].log_softmax(-1)
            words = torch.multinomial(chance.detach().exp(), 1)
            total = total - (chance.gather(1, words) * (words % 7)).mean()
        return total

    return network, loss


def lengths():
    """Each batch has another length, and fewer rows the longer they are."""
    network = Network(perceptron)

    def loss():
        length = int(torch.randint(16, 256, ()))
        return next_word(network, torch.randint(WORDS, (2048 // length, length)))

    return network, loss


KINDS = {kind.__name__: kind for kind in (operators, experts, cache, lengths)}


def main() -> None:
    network, loss_of = KINDS[sys.argv[1]]()
    optimizer = torch.optim.AdamW(network.parameters(), lr=1e-3)
    for _ in range(int(sys.argv[2])):
        optimizer.zero_grad()
        loss = loss_of()
        loss.backward()
        optimizer.step()
        print(f"{loss.item():.9g}", flush=True)


if __name__ == "__main__":
    main()
