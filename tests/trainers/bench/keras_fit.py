"""Keras: BackupAndRestore, with one backup and with two, and ModelCheckpoint's whole models."""

from __future__ import annotations

import os
from functools import partial
from typing import Any

os.environ.setdefault("KERAS_BACKEND", "torch")

import keras
import numpy
import torch
from tests.trainers.bench.state import SAVES, WIDTH, Load, Restored, Tell, Train, digest

torch.set_num_threads(1)


def _model() -> Any:
    keras.utils.set_random_seed(1)
    model = keras.Sequential([keras.layers.Input((WIDTH,)), keras.layers.Dense(WIDTH)])
    model.compile("adam", "mse")
    return model


def _data() -> tuple[Any, Any]:
    rows = numpy.random.default_rng(1).standard_normal((16, WIDTH), "float32")
    return rows, rows * 0.5


def _state(model: Any) -> list[Any]:
    return [keras.ops.convert_to_numpy(variable) for variable in (*model.weights, *model.optimizer.variables)]


def _telling(base: Any, tell: Tell, path_of: Any) -> Any:
    """The callback of Keras, which reports each save before and after it."""

    class Tells(base):  # type: ignore[misc] # the base is not typed here
        saves = 0

        def _save_model(self, *given: Any, **named: Any) -> None:
            self.saves += 1
            tell("begin", self.saves, digest(_state(self.model)), path_of(self, *given, **named))
            super()._save_model(*given, **named)
            tell("end", self.saves)

    return Tells


def _fit(folder: str, tell: Tell, double: bool) -> None:
    kind = _telling(keras.callbacks.BackupAndRestore, tell, lambda self: folder)
    backs_up = kind(folder, double_checkpoint=double, delete_checkpoint=False)
    _model().fit(*_data(), batch_size=8, epochs=SAVES + 2, verbose=0, callbacks=[backs_up])


def _restore(folder: str, double: bool) -> str:
    digests = []

    class Looks(keras.callbacks.Callback):  # type: ignore[misc] # the base is not typed here
        def on_train_begin(self, logs: Any = None) -> None:
            digests.append(digest(_state(self.model)))
            raise Restored

    restores = keras.callbacks.BackupAndRestore(folder, double_checkpoint=double)
    try:
        _model().fit(*_data(), epochs=99, verbose=0, callbacks=[restores, Looks()])
    except Restored:
        return digests[0]
    raise ValueError("it resumed without an epoch")


def _fit_models(folder: str, tell: Tell) -> None:
    pattern = os.path.join(folder, "model_{epoch:03d}.keras")
    kind = _telling(
        keras.callbacks.ModelCheckpoint, tell, lambda self, epoch, batch, logs: pattern.format(epoch=epoch + 1)
    )
    _model().fit(*_data(), batch_size=8, epochs=SAVES + 2, verbose=0, callbacks=[kind(pattern)])


def _load_model(path: str) -> str:
    return digest(_state(keras.models.load_model(path)))


KINDS: dict[str, tuple[Train, Load]] = {
    "keras-backup": (partial(_fit, double=False), partial(_restore, double=False)),
    "keras-two-backups": (partial(_fit, double=True), partial(_restore, double=True)),
    "keras-models": (_fit_models, _load_model),
}
