"""Record shapes of a network whose steps change their size at random, each size twice in a row.

    sized_job.py NAME FILE.jsonl.gz [--sizes N]
    sized_job.py --list

Three kinds of sizes: lengths of padded texts as in GLUE (`glue_`), heights and widths of images as
in COCO, scaled (`coco_`), and rows of packed text, as many as fit a number of words (`pack_`).
"""

from __future__ import annotations

import argparse
import math
import random
from collections.abc import Callable, Iterator
from pathlib import Path

import torch
from corpus_job import Training, record_shapes
from corpus_networks import CORPUS, CorpusNetwork
from networks.attention import EncoderDecoder, MixtureOfExperts
from networks.basic import Gpt
from networks.vision import Detector, MobileNet, ResNet, UNet

Size = tuple[int, int]
LONGEST = 512
LONGEST_PACKED, PACKED_WORDS = 2048, 16 * 1024


def text_size(draw: random.Random) -> Size:
    """Return the rows of a batch, and its length: few batches are long."""
    length = int(draw.lognormvariate(math.log(160), 0.6))
    return 32, min(max(length, 24), LONGEST)


def image_size(draw: random.Random) -> Size:
    """Return a height and a width: a short edge of several scales, and usual forms of photographs.

    Both are padded to multiples of 32.
    """
    short = draw.randrange(160, 400, 8)
    long = short * draw.choice([1, 4 / 3, 4 / 3, 3 / 2, 16 / 9])
    edges = [32 * math.ceil(edge / 32) for edge in (short, long)]
    draw.shuffle(edges)
    return edges[0], edges[1]


def packed_size(draw: random.Random) -> Size:
    """Return rows and a length that make up about PACKED_WORDS words."""
    length = draw.randrange(128, LONGEST_PACKED + 1, 8)
    return PACKED_WORDS // length, length


def sizes(draw_size: Callable[[random.Random], Size], count: int) -> list[Size]:
    """Return so many different sizes, in the order in which they are first drawn."""
    draw = random.Random(1)
    found: dict[Size, None] = {}
    while len(found) < count:
        found[draw_size(draw)] = None
    return list(found)


def text(training: Training, size: Size) -> list[torch.Tensor]:
    """Return a batch of texts of this length."""
    training.model.batch_size, training.model.length = size
    return training.batch(0)


def images(training: Training, size: Size) -> list[torch.Tensor]:
    """Return a batch of images of this height and width, and what belongs to their pixels."""
    # A detector's own images are of another size in each step, half as large at least.
    training.model.image = max(size) * (1 + isinstance(training.model, Detector))
    batch = training.batch(0)
    return [tensor[..., :size[0], :size[1]].clone() if _is_image(tensor) else tensor
            for tensor in batch]


def _is_image(tensor: torch.Tensor) -> bool:
    return tensor.dim() >= 3 and min(tensor.shape[-2:]) > 8


KINDS = {"glue": (text_size, text), "coco": (image_size, images), "pack": (packed_size, text)}

# Few layers, so that as many steps are recorded and simulated in minutes.
GPT = {"vocabulary": 8192, "width": 768, "heads": 12, "depth": 6}
TRANSLATION = {"vocabulary": 16000, "width": 512, "heads": 8, "depth": 3}
EXPERTS = {"vocabulary": 16000, "width": 768, "heads": 12, "experts": 4, "depth": 3}

NETWORKS: dict[str, CorpusNetwork] = {
    "glue_gpt": CorpusNetwork(Gpt, {}, {**GPT, "length": LONGEST}),
    "glue_gpt_float": CorpusNetwork(Gpt, {}, {**GPT, "length": LONGEST}, half=False),
    "glue_translation": CorpusNetwork(EncoderDecoder, {}, {**TRANSLATION, "length": LONGEST}),
    "glue_experts": CorpusNetwork(MixtureOfExperts, {}, {**EXPERTS, "length": LONGEST}),
    "coco_detector": CorpusNetwork(Detector, {}, CORPUS["detector"].gpu),
    "coco_resnet50": CorpusNetwork(ResNet, {}, {"width": 64, "image": 224, "batch": 16}),
    "coco_unet": CorpusNetwork(UNet, {}, {"width": 64, "depth": 4, "image": 256, "batch": 8}),
    "coco_mobilenet": CorpusNetwork(MobileNet, {}, {"width": 32, "blocks": 8, "image": 112,
                                                    "batch": 32}),
    "pack_gpt": CorpusNetwork(Gpt, {}, {**GPT, "length": LONGEST_PACKED}),
    "pack_gpt_float": CorpusNetwork(Gpt, {}, {**GPT, "length": LONGEST_PACKED}, half=False),
    "pack_translation": CorpusNetwork(EncoderDecoder, {},
                                      {**TRANSLATION, "length": LONGEST_PACKED}),
    "pack_experts": CorpusNetwork(MixtureOfExperts, {}, {**EXPERTS, "length": LONGEST_PACKED}),
}


def record(name: str, path: Path, count: int) -> None:
    """Record steps of `count` sizes, after one of the first size."""
    draw_size, make = KINDS[name.partition("_")[0]]

    def batches(training: Training) -> Iterator[list[torch.Tensor]]:
        for size in sizes(draw_size, count):
            for _ in range(2):
                yield make(training, size)

    record_shapes(NETWORKS[name], path, name, batches)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("name", choices=sorted(NETWORKS), nargs="?")
    parser.add_argument("path", metavar="FILE", type=Path, nargs="?")
    parser.add_argument("--sizes", type=int, default=60)
    parser.add_argument("--list", action="store_true", help="print all names, and do nothing")
    parsed = parser.parse_args()
    if parsed.list:
        print("\n".join(NETWORKS))
        return
    record(parsed.name, parsed.path, parsed.sizes)


if __name__ == "__main__":
    main()
