"""The layouts by framework, in the order in which they claim a folder: the more telling ones first."""

from __future__ import annotations

from collections.abc import Mapping

from costguard.checkpoints.layouts import (
    deepspeed,
    files,
    hugging_face,
    keras,
    lightning,
    marker,
    megatron,
    orbax,
    tensorflow,
    torch_dcp,
)
from costguard.checkpoints.layouts.base import Layout
from costguard.model.checkpoint import Framework

LAYOUTS: Mapping[Framework, Layout] = {
    Framework.HUGGING_FACE: hugging_face.find,
    Framework.LIGHTNING: lightning.find,
    Framework.MEGATRON: megatron.find,
    Framework.DEEPSPEED: deepspeed.find,
    Framework.TORCH_DCP: torch_dcp.find,
    Framework.ORBAX: orbax.find,
    Framework.KERAS: keras.find,
    Framework.TENSORFLOW: tensorflow.find,
    Framework.MARKER: marker.find,
    Framework.FILES: files.find,
}
TOLD_BY_NAMES = tuple(each for each in Framework if each not in (Framework.MARKER, Framework.FILES))
