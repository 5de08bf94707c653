"""Four kinds of models with their data: what a step computes, and what a sample costs to read. Real PyTorch."""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import nn


@dataclass(frozen=True)
class Kind:
    """`encoded` is one sample as it lies in storage, `decoded` makes a tensor of it, `label` is what a batch learns."""

    make: Callable[[float], nn.Module]
    batch: int
    encoded: Callable[[np.random.Generator], bytes]
    decoded: Callable[[bytes], torch.Tensor]
    loss: Callable[[nn.Module, torch.Tensor], torch.Tensor]


def _wide(number: int, scale: float) -> int:
    return max(8, int(number * scale) // 8 * 8)


class Residual(nn.Module):
    """Two convolutions and what went in."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.inner = nn.Sequential(
            nn.Conv2d(width, width, 3, padding=1),
            nn.BatchNorm2d(width),
            nn.ReLU(),
            nn.Conv2d(width, width, 3, padding=1),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(x + self.inner(x))


def _resnet(scale: float) -> nn.Module:
    width = _wide(32, scale)
    return nn.Sequential(
        nn.Conv2d(3, width, 3, stride=2, padding=1),
        *(Residual(width) for _ in range(4)),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(width, 10),
    )


class Attentive(nn.Module):
    """A transformer over patches of an image or over tokens."""

    def __init__(self, width: int, layers: int, tokens: int, patch: int = 0) -> None:
        super().__init__()
        self.into = nn.Conv2d(3, width, patch, patch) if patch else nn.Embedding(tokens, width)
        layer = nn.TransformerEncoderLayer(width, 4, 4 * width, dropout=0.0, batch_first=True, norm_first=True)
        self.layers = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.out = nn.Linear(width, tokens)
        self.patch = patch

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        into = self.into(x)
        inner: torch.Tensor = self.layers(into.flatten(2).transpose(1, 2) if self.patch else into)
        answer: torch.Tensor = self.out(inner.mean(1) if self.patch else inner)
        return answer


class Tables(nn.Module):
    """A large table of embeddings and a small network: it reads much memory and computes little."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.bags = nn.EmbeddingBag(200_000, width, sparse=False)
        self.rest = nn.Sequential(nn.Linear(width, 64), nn.ReLU(), nn.Linear(64, 1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        answer: torch.Tensor = self.rest(self.bags(x))
        return answer


def _image(random: np.random.Generator) -> bytes:
    """Smooth, so that it packs as photographs do."""
    coarse = random.integers(0, 255, (16, 16, 3), dtype=np.uint8)
    return zlib.compress(np.kron(coarse, np.ones((6, 6, 1), dtype=np.uint8)).tobytes(), 6)


def _unpacked(sample: bytes) -> torch.Tensor:
    """Unpacked, cropped, turned over and normalised, as usual."""
    pixels = np.frombuffer(zlib.decompress(sample), dtype=np.uint8).reshape(96, 96, 3)
    cut = pixels[16:80, 16:80][:, ::-1].astype(np.float32) / 255.0
    return torch.from_numpy(np.ascontiguousarray(((cut - 0.45) / 0.22).transpose(2, 0, 1)))


_WORD = re.compile(r"[a-z]+|[0-9]+|[^\sa-z0-9]")


def _text(random: np.random.Generator) -> bytes:
    letters = np.array(list("abcdefghij 0123,. "))
    return json.dumps({"text": "".join(random.choice(letters, 700))}).encode()


def _tokens(sample: bytes) -> torch.Tensor:
    words = _WORD.findall(json.loads(sample)["text"])
    ids = [zlib.crc32(word.encode()) % 1000 for word in words]
    return torch.tensor((ids * 2)[:96] + [0] * max(0, 96 - 2 * len(ids)), dtype=torch.long)


def _row(random: np.random.Generator) -> bytes:
    return ",".join(map(str, random.integers(0, 200_000, 40))).encode()


def _ids(sample: bytes) -> torch.Tensor:
    return torch.tensor([int(one) for one in sample.decode().split(",")], dtype=torch.long)


def _classified(model: nn.Module, x: torch.Tensor) -> torch.Tensor:
    answer: torch.Tensor = model(x)
    return nn.functional.cross_entropy(answer, torch.arange(len(x), device=x.device) % 10)


def _next_token(model: nn.Module, x: torch.Tensor) -> torch.Tensor:
    answer: torch.Tensor = model(x)
    return nn.functional.cross_entropy(answer[:, :-1].flatten(0, 1), x[:, 1:].flatten())


def _regressed(model: nn.Module, x: torch.Tensor) -> torch.Tensor:
    answer: torch.Tensor = model(x)
    return (answer - 1.0).square().mean()


KINDS: dict[str, Kind] = {
    "resnet": Kind(_resnet, 8, _image, _unpacked, _classified),
    "vit": Kind(lambda scale: Attentive(_wide(96, scale), 3, 10, patch=8), 8, _image, _unpacked, _classified),
    "gpt": Kind(lambda scale: Attentive(_wide(96, scale), 3, 1000), 6, _text, _tokens, _next_token),
    "embedding": Kind(lambda scale: Tables(_wide(32, scale)), 128, _row, _ids, _regressed),
}


class Trained:
    """A model with its optimizer on a device."""

    def __init__(self, kind: str, device: str, scale: float = 1.0, half: bool = False) -> None:
        torch.manual_seed(7)
        self.kind, self.device, self.half = KINDS[kind], device, half
        self.model = self.kind.make(scale).to(device)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=1e-3, momentum=0.9)

    def step(self, batch: torch.Tensor) -> torch.Tensor:
        self.optimizer.zero_grad()
        with torch.autocast(self.device, dtype=torch.bfloat16, enabled=self.half):
            loss = self.kind.loss(self.model, batch)
        loss.backward()
        self.optimizer.step()
        return loss.detach()

    def state(self) -> dict[str, Any]:
        return {"model": self.model.state_dict(), "optimizer": self.optimizer.state_dict()}
