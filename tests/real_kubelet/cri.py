"""Sandboxes and containers by the Container Runtime Interface, as kubelet asks for them. Calls block; grpc.RpcError tells what failed."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple, Self

import grpc

messages, services = grpc.protos_and_services("real_kubelet/cri.proto")
_ANSWER = 30.0  # seconds
# The node's network, a process namespace for each container: kubelet's choice for a pod with hostNetwork.
_NAMESPACES = messages.NamespaceOption(network=messages.NODE, pid=messages.CONTAINER, ipc=messages.POD)


class Sandbox(NamedTuple):
    """A pod's sandbox that runs; `config` is part of whatever is asked of it later."""

    id: str
    config: object


class Cri:
    """A connection to a runtime's socket."""

    def __init__(self, socket: Path) -> None:
        self._channel = grpc.insecure_channel(f"unix://{socket}")
        self._runtime = services.RuntimeServiceStub(self._channel)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._channel.close()

    def version(self) -> str:
        told = self._runtime.Version(messages.VersionRequest(), timeout=_ANSWER, wait_for_ready=True)
        return f"{told.runtime_name} {told.runtime_version}"

    def run_sandbox(self, namespace: str, name: str, uid: str, cgroup: str) -> Sandbox:
        """`cgroup`: the pod's, from the root of each hierarchy."""
        security = messages.SandboxSecurity(namespace_options=_NAMESPACES)
        config = messages.SandboxConfig(
            metadata=messages.SandboxMetadata(namespace=namespace, name=name, uid=uid),
            linux=messages.LinuxSandbox(cgroup_parent=f"/{cgroup}", security_context=security),
        )
        told = self._runtime.RunPodSandbox(messages.RunPodSandboxRequest(config=config), timeout=_ANSWER)
        return Sandbox(told.pod_sandbox_id, config)

    def run_container(self, sandbox: Sandbox, container: dict, resources: dict[str, int]) -> str:
        """Start a container as a pod's specification has it; `resources` by the names of the interface. Return its id."""
        config = messages.ContainerConfig(
            metadata=messages.ContainerMetadata(name=container["name"]),
            image=messages.ImageSpec(image=container["image"]),
            command=container.get("command", ()),
            args=container.get("args", ()),
            linux=messages.LinuxContainer(
                resources=messages.Resources(**resources),
                security_context=messages.ContainerSecurity(namespace_options=_NAMESPACES),
            ),
        )
        asked = messages.CreateContainerRequest(pod_sandbox_id=sandbox.id, config=config, sandbox_config=sandbox.config)
        identity = self._runtime.CreateContainer(asked, timeout=_ANSWER).container_id
        self._runtime.StartContainer(messages.ContainerRequest(container_id=identity), timeout=_ANSWER)
        return identity

    def stop_container(self, identity: str, grace: int) -> None:
        """SIGTERM to its first process, SIGKILL to all after `grace` seconds; back when it has ended."""
        asked = messages.StopContainerRequest(container_id=identity, timeout=grace)
        self._runtime.StopContainer(asked, timeout=grace + _ANSWER)

    def status(self, identity: str):
        """Return state, started_at and finished_at (nanoseconds), exit_code, reason."""
        return self._runtime.ContainerStatus(messages.ContainerRequest(container_id=identity), timeout=_ANSWER).status

    def remove_sandbox(self, sandbox: Sandbox) -> None:
        """Remove a sandbox with its containers, which are killed if they still run."""
        asked = messages.SandboxRequest(pod_sandbox_id=sandbox.id)
        self._runtime.StopPodSandbox(asked, timeout=_ANSWER)
        self._runtime.RemovePodSandbox(asked, timeout=_ANSWER)

    def execute(self, identity: str, *command: str) -> str:
        """Run a command in a container, as `kubectl exec` does; return what it printed."""
        told = self._runtime.ExecSync(messages.ExecSyncRequest(container_id=identity, cmd=command, timeout=10), timeout=_ANSWER)
        assert told.exit_code == 0, told.stderr.decode()
        return told.stdout.decode()
