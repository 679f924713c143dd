"""Models of well-known libraries at small sizes, with random first values, and each one's loss.

Nothing here knows of Tidepool. Libraries are imported when a model of theirs is built.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn import functional

Loss = Callable[[], Tensor]
Built = tuple[nn.Module, Loss]
TEXT = {"vocab_size": 512, "hidden_size": 96, "num_hidden_layers": 4, "num_attention_heads": 4,
        "intermediate_size": 256}


def classifier(model: nn.Module, size: int, batch: int = 4) -> Built:
    images, labels = torch.randn(batch, 3, size, size), torch.randint(0, 10, (batch,))
    return model, lambda: functional.cross_entropy(model(images), labels)


def encoder() -> Built:
    """Return a network of PyTorch alone, for where no library is installed."""
    layer = nn.TransformerEncoderLayer(64, 4, 128, dropout=0.1, batch_first=True)
    model, words = nn.TransformerEncoder(layer, 3), torch.randn(8, 32, 64)
    return model, lambda: functional.mse_loss(model(words), words)


def timm(name: str, size: int, batch: int = 4, **options: object) -> Built:
    return classifier(importlib.import_module("timm").create_model(
        name, pretrained=False, num_classes=10, **options), size, batch)


def torchvision(name: str, size: int, **options: object) -> Built:
    models = importlib.import_module("torchvision.models")
    return classifier(models.get_model(name, weights=None, num_classes=10, **options), size)


def torchvision_segmentation(name: str, batch: int = 4) -> Built:
    models = importlib.import_module("torchvision.models")
    model = models.get_model(name, weights=None, weights_backbone=None, num_classes=5)
    images, labels = torch.randn(batch, 3, 96, 96), torch.randint(0, 5, (batch, 96, 96))
    return model, lambda: functional.cross_entropy(model(images)["out"], labels)


def torchvision_detection(name: str, batch: int = 2) -> Built:
    models = importlib.import_module("torchvision.models")
    model = models.get_model(name, weights=None, weights_backbone=None, num_classes=5,
                             min_size=160, max_size=160)
    images = [torch.rand(3, 160, 160) for _ in range(batch)]
    boxes = torch.tensor([[10.0, 10, 80, 90], [30, 40, 120, 150]])
    masks = torch.zeros(2, 160, 160, dtype=torch.uint8)
    masks[:, 40:80, 40:80] = 1
    targets = [{"boxes": boxes, "labels": torch.tensor([1, 2]), "masks": masks} for _ in images]
    return model, lambda: sum(model(images, targets).values())


def torchvision_video() -> Built:
    model = importlib.import_module("torchvision.models.video").r3d_18(num_classes=10)
    clips, labels = torch.randn(16, 3, 8, 48, 48), torch.randint(0, 10, (16,))
    return model, lambda: functional.cross_entropy(model(clips), labels)


def deformable() -> Built:
    ops = importlib.import_module("torchvision.ops")

    class Block(nn.Module):
        def __init__(self, width: int) -> None:
            super().__init__()
            self.offset = nn.Conv2d(width, 18, 3, padding=1)
            self.conv = ops.DeformConv2d(width, width, 3, padding=1)

        def forward(self, x: Tensor) -> Tensor:
            return x + functional.relu(self.conv(x, self.offset(x)))

    model = nn.Sequential(nn.Conv2d(3, 16, 3, padding=1), *(Block(16) for _ in range(12)),
                          nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 10))
    return classifier(model, 48, 4)


MASKED = ("bert", "deberta-v2", "electra", "albert")


def language(name: str, **options: object) -> Built:
    """Return a causal or masked language model that computes its own loss."""
    library = importlib.import_module("transformers")
    words = torch.randint(3, 500, (2, 64))
    config = library.AutoConfig.for_model(name, **{**TEXT, **options})
    kind = library.AutoModelForMaskedLM if name in MASKED else (
        library.AutoModelForSeq2SeqLM if config.is_encoder_decoder else
        library.AutoModelForCausalLM)
    model = kind.from_config(config)
    return model, lambda: model(input_ids=words, labels=words).loss


def labelled(name: str, **options: object) -> Built:
    """Return an image classifier of transformers."""
    library = importlib.import_module("transformers")
    config = library.AutoConfig.for_model(name, num_labels=10, **options)
    model = library.AutoModelForImageClassification.from_config(config)
    images, labels = torch.randn(4, 3, 64, 64), torch.randint(0, 10, (4,))
    return model, lambda: model(pixel_values=images, labels=labels).loss


def wav2vec2() -> Built:
    library = importlib.import_module("transformers")
    config = library.Wav2Vec2Config(**{**TEXT, "vocab_size": 32}, conv_dim=(64,) * 7,
                                    num_conv_pos_embeddings=16,
                                    num_conv_pos_embedding_groups=4)
    model = library.Wav2Vec2ForCTC(config)
    sound, labels = torch.randn(8, 16000), torch.randint(1, 32, (8, 12))
    return model, lambda: model(sound, labels=labels).loss


def whisper() -> Built:
    library = importlib.import_module("transformers")
    config = library.WhisperConfig(vocab_size=512, d_model=96, encoder_layers=2, decoder_layers=2,
                                   encoder_attention_heads=4, decoder_attention_heads=4,
                                   encoder_ffn_dim=256, decoder_ffn_dim=256,
                                   max_source_positions=100, pad_token_id=0, bos_token_id=1,
                                   eos_token_id=2, decoder_start_token_id=1)
    model = library.WhisperForConditionalGeneration(config)
    sound, words = torch.randn(2, 80, 200), torch.randint(3, 500, (2, 32))
    return model, lambda: model(input_features=sound, labels=words).loss


def clip() -> Built:
    library = importlib.import_module("transformers")
    sizes = {key: TEXT[key] for key in TEXT if key != "vocab_size"}
    model = library.CLIPModel(library.CLIPConfig(
        text_config={**TEXT, "eos_token_id": 2}, vision_config={**sizes, "image_size": 64,
                                                                "patch_size": 8}))
    words, images = torch.randint(3, 500, (4, 32)), torch.randn(4, 3, 64, 64)
    return model, lambda: model(input_ids=words, pixel_values=images, return_loss=True).loss


def diffusion(name: str, images: tuple[int, ...], *given: object, **options: object) -> Built:
    """Return a denoiser of diffusers that predicts noise at a time."""
    model = getattr(importlib.import_module("diffusers"), name)(**options)
    noise, times = torch.randn(*images), torch.randint(0, 1000, images[:1])
    return model, lambda: functional.mse_loss(model(noise, times, *given).sample, noise)


def autoencoder() -> Built:
    library = importlib.import_module("diffusers")
    kinds = {"down_block_types": ("DownEncoderBlock2D",) * 2,
             "up_block_types": ("UpDecoderBlock2D",) * 2}
    model = library.AutoencoderKL(block_out_channels=(32, 64), **kinds)
    images = torch.randn(2, 3, 48, 48)

    def loss() -> Tensor:
        latent = model.encode(images).latent_dist
        return functional.mse_loss(model.decode(latent.sample()).sample,
                                   images) + latent.kl().mean()
    return model, loss


def conditioned() -> Built:
    return diffusion("UNet2DConditionModel", (2, 4, 32, 32), torch.randn(2, 16, 64),
                     block_out_channels=(32, 64), cross_attention_dim=64, norm_num_groups=16,
                     attention_head_dim=8,
                     down_block_types=("CrossAttnDownBlock2D", "DownBlock2D"),
                     up_block_types=("UpBlock2D", "CrossAttnUpBlock2D"))


def graph(name: str, **options: object) -> Built:
    """Return a network of torch_geometric on a random graph."""
    nodes, edges = torch.randn(4000, 32), torch.randint(0, 4000, (2, 24000))
    labels = torch.randint(0, 8, (4000,))
    model = getattr(importlib.import_module("torch_geometric.nn"), name)(
        32, 64, num_layers=16, out_channels=8, **options)
    return model, lambda: functional.cross_entropy(model(nodes, edges), labels)


def sparse_graph() -> Built:
    """Return a graph network that multiplies by a sparse matrix, with pooling."""
    library = importlib.import_module("torch_geometric.nn")
    edges = torch.randint(0, 4000, (2, 24000))
    matrix = torch.sparse_coo_tensor(edges, torch.ones(24000), (4000, 4000)).coalesce()
    matrix, nodes = matrix.to_sparse_csr(), torch.randn(4000, 32)
    graphs = torch.arange(4000) // 200
    layers = nn.ModuleList(library.GCNConv(width, 64, normalize=False)
                           for width in (32, *(64,) * 11))
    head, labels = nn.Linear(64, 4), torch.randint(0, 4, (20,))

    def loss() -> Tensor:
        x = nodes
        for layer in layers:
            x = functional.relu(layer(x, matrix))
        return functional.cross_entropy(head(library.global_mean_pool(x, graphs)), labels)
    return nn.ModuleList([layers, head]), loss


def exact_process() -> Built:
    library = importlib.import_module("gpytorch")

    class Process(library.models.ExactGP):
        def __init__(self, x: Tensor, y: Tensor, noise: nn.Module) -> None:
            super().__init__(x, y, noise)
            self.mean = library.means.ConstantMean()
            self.kernel = library.kernels.ScaleKernel(library.kernels.RBFKernel())

        def forward(self, x: Tensor) -> object:
            return library.distributions.MultivariateNormal(self.mean(x), self.kernel(x))

    x = torch.rand(1000, 2)
    y = torch.sin(6 * x[:, 0])
    noise = library.likelihoods.GaussianLikelihood()
    model = Process(x, y, noise)
    marginal = library.mlls.ExactMarginalLogLikelihood(noise, model)
    return model, lambda: -marginal(model(x), y)


def variational_process() -> Built:
    library = importlib.import_module("gpytorch")
    variational = library.variational

    class Process(library.models.ApproximateGP):
        def __init__(self, points: Tensor) -> None:
            law = variational.CholeskyVariationalDistribution(points.size(0))
            super().__init__(variational.VariationalStrategy(self, points, law))
            self.mean = library.means.ConstantMean()
            self.kernel = library.kernels.ScaleKernel(library.kernels.MaternKernel())

        def forward(self, x: Tensor) -> object:
            return library.distributions.MultivariateNormal(self.mean(x), self.kernel(x))

    x = torch.rand(4000, 2)
    y = torch.sin(6 * x[:, 0])
    model, noise = Process(x[:100].clone()), library.likelihoods.GaussianLikelihood()
    bound = library.mlls.VariationalELBO(noise, model, num_data=4000)
    return nn.ModuleList([model, noise]), lambda: -bound(model(x), y)


def segmentation(name: str, encoder: str = "resnet18") -> Built:
    library = importlib.import_module("segmentation_models_pytorch")
    model = getattr(library, name)(encoder, encoder_weights=None, classes=3)
    images, labels = torch.randn(16, 3, 96, 96), torch.randint(0, 3, (16, 96, 96))
    dice = library.losses.DiceLoss("multiclass")
    return model, lambda: dice(model(images), labels)


def x_decoder(**options: object) -> Built:
    library = importlib.import_module("x_transformers")
    model = library.AutoregressiveWrapper(library.TransformerWrapper(
        num_tokens=256, max_seq_len=128,
        attn_layers=library.Decoder(dim=96, depth=4, heads=4, **options)))
    words = torch.randint(0, 256, (4, 128))
    return model, lambda: model(words)


def vit_pytorch(module: str, name: str, **options: object) -> Built:
    kind = getattr(importlib.import_module(f"vit_pytorch.{module}"), name)
    return classifier(kind(image_size=64, num_classes=10, **options), 64, 4)


def neural_ode() -> Built:
    solve = importlib.import_module("torchdiffeq").odeint_adjoint

    class Field(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.Sequential(nn.Linear(32, 128), nn.Tanh(), nn.Linear(128, 32))

        def forward(self, time: Tensor, state: Tensor) -> Tensor:
            return self.layers(state)

    model, first, times = Field(), torch.randn(2048, 32), torch.linspace(0, 1, 5)
    return model, lambda: solve(model, first, times, rtol=1e-3, atol=1e-4)[-1].square().mean()


VIT = {"dim": 96, "depth": 4, "heads": 4, "mlp_dim": 192}
UNET = {"block_out_channels": (32, 64), "norm_num_groups": 16,
        "down_block_types": ("DownBlock2D", "AttnDownBlock2D"),
        "up_block_types": ("AttnUpBlock2D", "UpBlock2D")}
LIBRARIES: dict[str, dict[str, Callable[[], Built]]] = {
    "torch": {"encoder": encoder},
    "timm": {
        **{name: partial(timm, name, 48) for name in (
            "efficientnet_b0", "regnety_002", "convnext_atto")},
        **{name: partial(timm, name, 48, 32) for name in (
            "resnet18", "mobilenetv3_small_100", "ghostnet_050", "seresnet18")},
        "vit_tiny": partial(timm, "vit_tiny_patch16_224", 64, img_size=64, depth=4),
        "swin": partial(timm, "swin_tiny_patch4_window7_224", 56, img_size=56, embed_dim=48,
                        depths=(2, 2), num_heads=(2, 4)),
        "mixer": partial(timm, "mixer_s32_224", 64, img_size=64),
        "cait": partial(timm, "cait_xxs24_224", 64, img_size=64, depth=4),
        "coat": partial(timm, "coat_lite_tiny", 64, img_size=64),
        "densenet": partial(timm, "densenet121", 48),
        "mobilevit": partial(timm, "mobilevit_xxs", 64),
    },
    "torchvision": {
        "shufflenet": partial(torchvision, "shufflenet_v2_x0_5", 96),
        "squeezenet": partial(torchvision, "squeezenet1_1", 96),
        "mnasnet": partial(torchvision, "mnasnet0_5", 96),
        "googlenet": partial(torchvision, "googlenet", 96, aux_logits=False),
        "deeplabv3": partial(torchvision_segmentation, "deeplabv3_mobilenet_v3_large", 16),
        "lraspp": partial(torchvision_segmentation, "lraspp_mobilenet_v3_large"),
        "r3d_18": torchvision_video,
        "faster_rcnn": partial(torchvision_detection, "fasterrcnn_mobilenet_v3_large_320_fpn", 4),
        "retinanet": partial(torchvision_detection, "retinanet_resnet50_fpn"),
        "deformable": deformable,
    },
    "transformers": {
        "gpt2": partial(language, "gpt2", n_embd=96, n_layer=4, n_head=4),
        "bert": partial(language, "bert"),
        "deberta_v2": partial(language, "deberta-v2", relative_attention=True,
                              pos_att_type=["p2c", "c2p"]),
        "llama": partial(language, "llama", num_key_value_heads=2),
        "mixtral": partial(language, "mixtral", num_key_value_heads=2, num_local_experts=4),
        "qwen3": partial(language, "qwen3", num_key_value_heads=2, head_dim=24),
        "gemma2": partial(language, "gemma2", num_key_value_heads=2, head_dim=24),
        "bloom": partial(language, "bloom", n_layer=4, n_head=4),
        "mamba": partial(language, "mamba", state_size=8),
        "t5": partial(language, "t5", d_model=96, d_kv=24, d_ff=256, num_layers=2, num_heads=4,
                      decoder_start_token_id=0),
        "bart": partial(language, "bart", d_model=96, encoder_layers=2, decoder_layers=2,
                        encoder_attention_heads=4, decoder_attention_heads=4, encoder_ffn_dim=256,
                        decoder_ffn_dim=256),
        "opt": partial(language, "opt", ffn_dim=256, word_embed_proj_dim=96),
        "gpt_neox": partial(language, "gpt_neox"),
        "electra": partial(language, "electra", embedding_size=96),
        "albert": partial(language, "albert", embedding_size=48),
        "phi3": partial(language, "phi3", num_key_value_heads=2, pad_token_id=0),
        "segformer": partial(labelled, "segformer", hidden_sizes=[16, 32, 48, 64]),
        "wav2vec2": wav2vec2, "whisper": whisper, "clip": clip,
    },
    "diffusers": {
        "unet": partial(diffusion, "UNet2DModel", (2, 3, 32, 32), **UNET),
        "conditioned": conditioned, "autoencoder": autoencoder,
    },
    "torch_geometric": {
        "gcn": partial(graph, "GCN"), "gat": partial(graph, "GAT", heads=4),
        "sage": partial(graph, "GraphSAGE"), "gin": partial(graph, "GIN"),
        "edge": partial(graph, "EdgeCNN"), "sparse": sparse_graph,
    },
    "others": {
        "gpytorch_exact": exact_process, "gpytorch_variational": variational_process,
        "smp_unet": partial(segmentation, "Unet"), "smp_fpn": partial(segmentation, "FPN"),
        "smp_deeplab": partial(segmentation, "DeepLabV3Plus"),
        "x_rotary": partial(x_decoder, rotary_pos_emb=True),
        "x_alibi": partial(x_decoder, alibi_pos_bias=True, ff_glu=True, attn_num_mem_kv=4),
        "simple_vit": partial(vit_pytorch, "simple_vit", "SimpleViT", patch_size=8, **VIT),
        "vit": partial(vit_pytorch, "vit", "ViT", patch_size=8, dropout=0.1, **VIT),
        "neural_ode": neural_ode,
    },
}
