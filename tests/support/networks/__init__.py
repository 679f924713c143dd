"""All networks of the tests and benchmarks, those of the end-to-end tests in two sizes.

`chaos` keeps the layers and reduces the widths. `budget` is large enough that what is kept for
backward outweighs the parameters and is at least four times any single operator's operands.
"""

from dataclasses import dataclass

from torch import nn

from networks.attention import EncoderDecoder, MixtureOfExperts, ShiftedWindows, VisionTransformer
from networks.basic import BiLstm, Gpt, Mlp, ResNet18, TreeLstm, Vae
from networks.other import Diffusion, Gan, GraphNetwork, Maml, StateSpace
from networks.vision import DenseNet, Detector, MobileNet, ResNet, UNet


@dataclass(frozen=True)
class Network:
    """A model's class and the sizes that differ from its defaults in a `budget` run."""

    kind: type[nn.Module]
    budget: dict[str, int]

    def build(self, size: str) -> nn.Module:
        return self.kind(**(self.budget if size == "budget" else {}))


NETWORKS = {
    "mlp": Network(Mlp, {"features": 160, "width": 160, "depth": 16, "batch": 1024}),
    "resnet18": Network(ResNet18, {"width": 16, "image": 32, "batch": 24}),
    "gpt": Network(Gpt, {"vocabulary": 256, "width": 96, "heads": 4, "depth": 6, "length": 96,
                         "batch": 16}),
    "bilstm": Network(BiLstm, {"features": 96, "width": 96, "layers": 2, "length": 32,
                               "batch": 96}),
    "treelstm": Network(TreeLstm, {"vocabulary": 200, "width": 96, "leaves": 128, "batch": 96}),
    "vae": Network(Vae, {"channels": 8, "depth": 6, "latent": 32, "image": 48, "batch": 48}),
    "resnet50": Network(ResNet, {"width": 8, "image": 32, "batch": 24}),
    "densenet": Network(DenseNet, {"growth": 6, "layers": (6, 6, 6), "image": 24, "batch": 16}),
    "mobilenet": Network(MobileNet, {"width": 8, "blocks": 8, "image": 24, "batch": 16}),
    "unet": Network(UNet, {"width": 8, "depth": 3, "image": 32, "batch": 8}),
    "detector": Network(Detector, {"width": 8, "depth": 3, "image": 64, "batch": 8}),
    "vit": Network(VisionTransformer, {"width": 48, "heads": 4, "depth": 6, "image": 24,
                                       "batch": 24}),
    "windows": Network(ShiftedWindows, {"width": 24, "window": 4, "depth": 4, "image": 32,
                                        "batch": 8}),
    "translation": Network(EncoderDecoder, {"width": 48, "heads": 4, "depth": 3, "length": 24,
                                            "batch": 24}),
    "experts": Network(MixtureOfExperts, {"width": 48, "heads": 4, "depth": 4, "length": 32,
                                          "batch": 12}),
    "statespace": Network(StateSpace, {"width": 32, "state": 8, "depth": 3, "length": 32,
                                       "batch": 16}),
    "graph": Network(GraphNetwork, {"features": 32, "width": 32, "depth": 6, "nodes": 400,
                                    "edges": 2000}),
    "maml": Network(Maml, {"width": 48, "depth": 4, "points": 200, "tasks": 4, "steps": 3}),
    "gan": Network(Gan, {"width": 12, "depth": 3, "latent": 32, "image": 24, "batch": 24}),
    "diffusion": Network(Diffusion, {"width": 12, "depth": 3, "image": 16, "batch": 12}),
}
