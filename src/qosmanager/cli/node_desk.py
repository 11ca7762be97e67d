"""What this agent reads and writes of its own node in the cluster, and the ConfigMap it goes by, put together.

In: the API, the state directory. Out: `Desk`: the node's labels and pause as last heard, the file that holds the ConfigMap's text, and the
writer of the node's status. Each watch has a thread of its own.
"""

from __future__ import annotations

import random
from pathlib import Path

from qosmanager.cli.errors import CannotRunError
from qosmanager.cli.first_word import await_first
from qosmanager.kubernetes.answers import Right
from qosmanager.kubernetes.api import Api
from qosmanager.kubernetes.batch_resources import BatchNote
from qosmanager.kubernetes.config_map import ConfigMapName, KeptConfigMap
from qosmanager.kubernetes.memory import AgentMemory
from qosmanager.kubernetes.node import NodeReader, NodeWriter, Unpublished
from qosmanager.kubernetes.node_pause import NodePause
from qosmanager.kubernetes.node_status import StatusNote
from qosmanager.kubernetes.object_watch import ObjectWatch, Taker
from qosmanager.kubernetes.worker import Worker
from qosmanager.linux.boot import LinuxBoot
from qosmanager.linux.journal import prepare_directory
from qosmanager.linux.notebook import FileNotebook
from qosmanager.linux.replace_file import replace_file
from qosmanager.ports import Clock

MEMORY, CONFIG = "kubernetes.json", "config-map.yaml"  # in the state directory
_FIRST_CONFIG = 10.0  # seconds that the start waits for the ConfigMap
_FIRST_NODE = 3.0  # seconds that it waits for the node's labels


class Desk:
    """`config`: the file that is kept for a ConfigMap; None: none is watched. Raises CannotRunError for a directory that cannot be used."""

    def __init__(self, node_name: str, api: Api, directory: Path, clock: Clock) -> None:
        try:
            prepare_directory(directory)
        except OSError as error:
            raise CannotRunError(f"--state-dir {directory}: {error.strerror or error}; a directory that can be written is needed") from None
        self.node_name = node_name
        self.memory = AgentMemory(FileNotebook(directory / MEMORY), clock)
        self.pause = NodePause(self.memory, LinuxBoot().id, clock)
        self.config: Path | None = None
        self._reader = NodeReader(self.memory, self.pause)
        self.writer = NodeWriter(api, node_name, self._reader, (StatusNote(self.memory), Unpublished()), clock)
        self._api = api
        self._directory = directory
        self._clock = clock
        self._watches: list[ObjectWatch] = []
        self._workers: list[Worker] = []
        self._kept: KeptConfigMap | None = None

    def publish(self) -> None:
        """Have the batch resources published too; before anything is started."""
        self.writer = NodeWriter(self._api, self.node_name, self._reader, (StatusNote(self.memory), BatchNote()), self._clock)

    def start(self) -> None:
        """Begin to watch the node; wait a little for its labels, unless a predecessor has kept them."""
        self._watch("node-watch", Right("get", "nodes"), self.node_name, self._reader.take)
        await_first(f"node {self.node_name}", _FIRST_NODE, lambda: self.memory.labels is not None, lambda: self.problems)

    def take_configuration(self, name: ConfigMapName) -> None:
        """Begin to watch a ConfigMap. Raises CannotRunError when nothing of it is known, neither now nor from before."""
        path = self.config = self._directory / CONFIG
        kept = self._kept = KeptConfigMap(name, lambda text: replace_file(path, text.encode(), 0o600))
        self._watch("config-map-watch", Right("get", "configmaps", name.namespace), name.name, self._kept.take)
        await_first(f"ConfigMap {name}", _FIRST_CONFIG, lambda: kept.known or bool(kept.problem), lambda: self.problems)
        if not kept.known and not path.exists():
            raise CannotRunError(f"--config-map {name}: {'; '.join(self.problems) or 'not heard of'}", code=1)

    def stop(self) -> None:
        """Watch no more."""
        for worker in self._workers:
            worker.stop()

    @property
    def problems(self) -> tuple[str, ...]:
        """What is not heard or not followed, for people."""
        told = [self.pause.problem, self._kept.problem if self._kept else "", *(watch.problem for watch in self._watches)]
        return tuple(dict.fromkeys(filter(None, told)))

    def _watch(self, name: str, right: Right, of: str, take: Taker) -> None:
        watch = ObjectWatch(self._api, right, of, take, (self._clock, random.random))
        worker = Worker(name, lambda _: watch.once(), self._clock)
        self._watches.append(watch)
        self._workers.append(worker)
        worker.start()
