"""Writes what training scripts of others read: small files of random contents.

    python script_inputs.py KIND FOLDER
"""

from __future__ import annotations

import json
import random
import string
import struct
import sys
from collections.abc import Callable
from pathlib import Path


def words(count: int) -> str:
    """Return random words."""
    return " ".join("".join(random.choices(string.ascii_lowercase, k=random.randint(2, 9)))
                    for _ in range(count))


def digits(folder: Path) -> None:
    """Write MNIST and Fashion-MNIST as torchvision keeps them, with few pictures of noise."""
    for name in ("MNIST", "FashionMNIST"):
        raw = folder / name / "raw"
        raw.mkdir(parents=True)
        for part, count in (("train", 192), ("t10k", 64)):
            (raw / f"{part}-images-idx3-ubyte").write_bytes(
                struct.pack(">IIII", 2051, count, 28, 28) + random.randbytes(count * 28 * 28))
            (raw / f"{part}-labels-idx1-ubyte").write_bytes(
                struct.pack(">II", 2049, count) + bytes(random.choices(range(10), k=count)))


def names(folder: Path) -> None:
    """Write a file of names for each of four languages."""
    for language in ("A", "B", "C", "D"):
        (folder / f"{language}.txt").write_text("\n".join(words(40).split()) + "\n")


def molecules(folder: Path) -> None:
    """Write molecules of carbon chains, with a number each."""
    lines = ["smiles,target"]
    for _ in range(80):
        chain = "".join(random.choice(["C", "CC", "N", "O", "C(C)", "C(=O)", "c1ccccc1"])
                        for _ in range(random.randint(2, 8)))
        lines.append(f"C{chain}C,{random.random():.4f}")
    (folder / "molecules.csv").write_text("\n".join(lines) + "\n")


def atoms(folder: Path) -> None:
    """Write configurations of eight atoms with energies and forces, in extended XYZ."""
    frames = []
    for _ in range(24):
        frames.append('8\nLattice="6 0 0 0 6 0 0 0 6" Properties=species:S:1:pos:R:3:'
                      f'REF_forces:R:3 REF_energy={random.gauss(-10, 1):.6f} pbc="T T T"')
        for corner in range(8):
            place = [3 * (corner >> axis & 1) + random.gauss(0, 0.2) for axis in range(3)]
            force = [random.gauss(0, 0.5) for _ in range(3)]
            frames.append("H " + " ".join(f"{each:.6f}" for each in place + force))
    (folder / "train.xyz").write_text("\n".join(frames) + "\n")


def pictures(folder: Path) -> None:
    """Write pictures with one box each, and the description that YOLO's trainer reads."""
    from PIL import Image

    for part, count in (("train", 8), ("val", 4)):
        for kind in ("images", "labels"):
            (folder / kind / part).mkdir(parents=True)
        for number in range(count):
            picture = Image.frombytes("RGB", (96, 96), random.randbytes(96 * 96 * 3))
            picture.save(folder / "images" / part / f"{number}.png")
            (folder / "labels" / part / f"{number}.txt").write_text(
                f"{number % 2} 0.5 0.5 {random.uniform(0.2, 0.8):.3f} 0.4\n")
    (folder / "pictures.yaml").write_text(
        f"path: {folder}\ntrain: images/train\nval: images/val\nnames: {{0: a, 1: b}}\n")


def language(folder: Path) -> None:
    """Write a small language model with its tokenizer, texts, and pairs of answers."""
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    texts = [words(random.randint(8, 60)) for _ in range(48)]
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel()
    tokenizer.train_from_iterator(texts, trainers.BpeTrainer(
        vocab_size=384, special_tokens=["<unk>", "<s>", "</s>", "<pad>"]))
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token="<unk>", bos_token="<s>",
                                   eos_token="</s>", pad_token="<pad>")
    fast.save_pretrained(folder / "model")
    LlamaForCausalLM(LlamaConfig(
        vocab_size=len(fast), hidden_size=64, intermediate_size=160, num_hidden_layers=4,
        num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=512, bos_token_id=1,
        eos_token_id=2, pad_token_id=3)).save_pretrained(folder / "model")
    for kind in ("texts", "pairs"):
        (folder / kind).mkdir()
    (folder / "texts" / "train.jsonl").write_text(
        "".join(json.dumps({"text": text}) + "\n" for text in texts))
    (folder / "pairs" / "train.jsonl").write_text("".join(
        json.dumps({"prompt": words(6), "chosen": words(12), "rejected": words(9)}) + "\n"
        for _ in range(24)))


KINDS: dict[str, Callable[[Path], None]] = {
    made.__name__: made for made in (digits, names, molecules, atoms, pictures, language)}


def main() -> None:
    kind, folder = sys.argv[1:]
    random.seed(0)
    Path(folder).mkdir(parents=True, exist_ok=True)
    KINDS[kind](Path(folder).resolve())


if __name__ == "__main__":
    main()
