"""The layouts by framework, in the order in which they claim a folder: the more specific ones first."""

from __future__ import annotations

from collections.abc import Mapping

from costguard_vm.checkpoints.layouts import deepspeed, hugging_face, megatron, orbax, plain, pytorch, tensorflow
from costguard_vm.checkpoints.layouts.base import Layout
from costguard_vm.model.checkpoint import Framework

LAYOUTS: Mapping[Framework, Layout] = {
    Framework.HUGGING_FACE: hugging_face.find_hugging_face,
    Framework.LIGHTNING: pytorch.find_lightning,
    Framework.MEGATRON: megatron.find_megatron,
    Framework.DEEPSPEED: deepspeed.find_deepspeed,
    Framework.TORCH_DCP: pytorch.find_torch_dcp,
    Framework.ORBAX: orbax.find_orbax,
    Framework.KERAS: tensorflow.find_keras,
    Framework.TENSORFLOW: tensorflow.find_tensorflow,
    Framework.MARKER: plain.find_marker,
    Framework.FILES: plain.find_files,
}
BY_NAMES = tuple(one for one in Framework if one not in (Framework.MARKER, Framework.FILES))  # need no settings
