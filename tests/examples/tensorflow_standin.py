"""A stand-in for TensorFlow in the images of AAU's notebook.

It has the functions that the notebook calls, and follows TensorFlow's documentation of strategies:
a model belongs to the strategy of its scope, and is trained only on that strategy's data. Each
replica gets its share of a batch, and the gradients are averaged. NumPy does the computation.
"""

from __future__ import annotations

import contextlib
import os
from collections import namedtuple
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np

__version__ = "2.6.0"
Device = namedtuple("Device", "name device_type")
_scopes: list[Strategy] = []


def _list_physical_devices(kind: str) -> list[Device]:
    visible = os.environ.get("CUDA_VISIBLE_DEVICES", "") if kind == "GPU" else "0"
    numbers = [one for one in visible.split(",") if one]
    return [Device(f"/physical_device:{kind}:{one}", kind) for one in numbers]


def _set_memory_growth(device: Device, _enable: bool) -> None:
    assert device.device_type == "GPU"


class Strategy:
    num_replicas_in_sync = 1

    @contextlib.contextmanager
    def scope(self) -> Iterator[Strategy]:
        _scopes.append(self)
        yield self
        _scopes.pop()

    def experimental_distribute_dataset(self, dataset: Dataset) -> Distributed:
        return Distributed(dataset, self)


class MirroredStrategy(Strategy):
    def __init__(self) -> None:
        self.num_replicas_in_sync = len(_list_physical_devices("GPU"))


_default = Strategy()


class Dataset:
    """`TensorSliceDataset`, limited to the notebook's order of calls."""

    def __init__(self, x: Any, y: Any, batch: int = 0, *, endless: bool = False) -> None:
        self.x, self.y, self.size, self.endless = x, y, batch, endless

    @classmethod
    def from_tensor_slices(cls, tensors: tuple[Any, Any]) -> Dataset:
        return cls(*tensors)

    def shuffle(self, buffer_size: int) -> Dataset:
        order = np.random.default_rng(seed=buffer_size).permutation(len(self.x))
        return Dataset(self.x[order], self.y[order])

    def batch(self, batch_size: int) -> Dataset:
        return Dataset(self.x, self.y, batch_size)

    def repeat(self) -> Dataset:
        return Dataset(self.x, self.y, self.size, endless=True)

    def __iter__(self) -> Iterator[tuple[Any, Any]]:
        while True:
            for at in range(0, len(self.x), self.size):
                yield self.x[at : at + self.size], self.y[at : at + self.size]
            if not self.endless:
                return


Distributed = namedtuple("Distributed", "dataset strategy")


class Dense:
    def __init__(self, units: int, activation: str) -> None:
        self.units, self.activation = units, activation
        self.weights: Any = None

    def __call__(self, x: Any) -> Any:
        if self.weights is None:
            rng = np.random.default_rng(seed=self.units)
            self.weights = rng.normal(size=(x.shape[1], self.units)) / np.sqrt(x.shape[1])
        z = x @ self.weights
        return np.maximum(z, 0) if self.activation == "relu" else 1 / (1 + np.exp(-z))


class Sequential:
    """A model that ends in one unit with a sigmoid."""

    def __init__(self, layers: list[Dense]) -> None:
        self.layers, self.strategy = layers, _scopes[-1] if _scopes else _default

    def compile(self, optimizer: str, loss: str) -> None:
        assert (optimizer, loss) == ("adam", "binary_crossentropy")
        assert self.strategy is (_scopes[-1] if _scopes else _default), "compiled in another scope"

    def fit(self, data: Distributed, epochs: int, steps_per_epoch: int, verbose: int) -> Any:
        assert data.strategy is self.strategy, "the data belong to another strategy"
        assert not verbose
        batches, means = iter(data.dataset), []
        for _ in range(epochs):
            losses = [self._step(*next(batches)) for _ in range(steps_per_epoch)]
            means.append(float(np.mean(losses)))
        return SimpleNamespace(history={"loss": means})

    def _step(self, x: Any, y: Any) -> float:
        replicas = self.strategy.num_replicas_in_sync
        shares = zip(np.array_split(x, replicas), np.array_split(y, replicas), strict=True)
        losses, gradients = zip(*(self._gradients(*share) for share in shares), strict=True)
        for layer, *ours in zip(self.layers, *gradients, strict=True):
            layer.weights -= np.mean(ours, axis=0)
        return float(np.mean(losses))

    def _gradients(self, x: Any, y: Any) -> tuple[float, list[Any]]:
        seen = [x]
        for layer in self.layers:
            seen.append(layer(seen[-1]))
        found, right = seen[-1], y[:, None]
        loss = -np.log(np.where(right > 0, found, 1 - found)).mean()
        error, gradients = (found - right) / len(x), list[Any]()
        for at in reversed(range(len(self.layers))):
            gradients.insert(0, seen[at].T @ error)
            error = (error @ self.layers[at].weights.T) * (seen[at] > 0)
        return float(loss), gradients


config = SimpleNamespace(
    list_physical_devices=_list_physical_devices,
    experimental=SimpleNamespace(set_memory_growth=_set_memory_growth),
)
distribute = SimpleNamespace(MirroredStrategy=MirroredStrategy, get_strategy=lambda: _default)
data = SimpleNamespace(Dataset=Dataset)
keras = SimpleNamespace(Sequential=Sequential, layers=SimpleNamespace(Dense=Dense))
