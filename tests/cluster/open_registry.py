"""A real registry without a login, in place of unreachable registries.

It stores images without a container tool. Each image is a folder in one layer.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

from tests.ssh.kept import Keeper
from tests.ssh.sshd import free_port
from tests.ssh.waiting import wait_until

_PATIENCE_S = 300.0
_CONFIG = """
version: 0.1
log: {{level: error}}
storage: {{filesystem: {{rootdirectory: '{folder}/images'}}}}
http: {{addr: '{address}'}}
"""
_MIRROR = """
[[registry]]
location = "{name}"
[[registry.mirror]]
location = "{address}"
insecure = true
"""
_TYPE = "application/vnd.oci.image"


@dataclass(frozen=True)
class OpenRegistry:
    folder: Path
    address: str

    @classmethod
    def start(cls, keeper: Keeper, folder: Path) -> OpenRegistry:
        """Start the registry with the new folder `folder`, and return when it answers."""
        folder.mkdir()
        registry = cls(folder, f"127.0.0.1:{free_port()}")
        config = folder / "config.yml"
        config.write_text(_CONFIG.format(folder=folder, address=registry.address))
        keeper.start(["docker-registry", "serve", str(config)], folder / "log")
        wait_until(registry._answers, _PATIENCE_S)
        return registry

    def mirrors(self, *names: str) -> str:
        """Return a registries.conf(5) that uses it for the registries of these names."""
        return "".join(_MIRROR.format(name=name, address=self.address) for name in names)

    def put(self, image: Path, names: Sequence[str], **config: Any) -> None:
        """Store the folder `image` under these names, each with a tag. `config` has fields of an
        OCI image config, e.g. Entrypoint."""
        unpacked = _run(["tar", "-C", str(image), "-c", "."])
        packed = _run(["gzip", "-1"], unpacked)
        about = {
            "architecture": "amd64",
            "os": "linux",
            "config": config,
            "rootfs": {"type": "layers", "diff_ids": [_digest(unpacked)]},
        }
        described = json.dumps(about).encode()
        manifest = {
            "schemaVersion": 2,
            "mediaType": f"{_TYPE}.manifest.v1+json",
            "config": _descriptor(f"{_TYPE}.config.v1+json", described),
            "layers": [_descriptor(f"{_TYPE}.layer.v1.tar+gzip", packed)],
        }
        for name in names:
            repository, _, tag = name.partition(":")
            for blob in (packed, described):
                with self._ask("POST", f"{repository}/blobs/uploads/") as answer:
                    place = answer.headers["Location"].partition("/v2/")[2]
                self._ask("PUT", f"{place}&digest={_digest(blob)}", blob).close()
            text = json.dumps(manifest).encode()
            kind = {"Content-Type": str(manifest["mediaType"])}
            self._ask("PUT", f"{repository}/manifests/{tag}", text, kind).close()

    def _ask(
        self, method: str, path: str, data: bytes = b"", headers: dict[str, str] | None = None
    ) -> Any:
        url = f"http://{self.address}/v2/{path}"
        kind = headers or {"Content-Type": "application/octet-stream"}
        return urlopen(Request(url, data, kind, method=method), timeout=_PATIENCE_S)

    def _answers(self) -> bool:
        try:
            self._ask("GET", "").close()
        except OSError:
            return False
        return True


def _run(argv: Sequence[str], given: bytes = b"") -> bytes:
    done = subprocess.run(
        argv, input=given, stdout=subprocess.PIPE, check=True, timeout=_PATIENCE_S
    )
    return done.stdout


def _digest(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def _descriptor(kind: str, content: bytes) -> dict[str, object]:
    return {"mediaType": kind, "digest": _digest(content), "size": len(content)}
