"""One sandbox of the Daytona stand-in: its settings, its life, and how the API shows it."""

import asyncio
import hashlib
import threading
import time
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.standins.daytona_box import DaytonaBox

BROKEN_BUILD = "BROKEN-BUILD"
"""A Dockerfile that says this cannot be built."""


GIB_MB = 64
"""So small is a GiB of memory here: a limit is soon passed."""


class StandinSandbox:
    def __init__(self, wanted: dict[str, Any], root: Path, names: Mapping[str, str]) -> None:
        self.wanted = wanted
        self.id = str(uuid.uuid4())
        self.name = wanted.get("name") or self.id
        self.labels: dict[str, str] = wanted.get("labels") or {}
        self.state = "creating"
        self.error: str | None = None
        self.created = self.active = time.time()
        self.stop_minutes = wanted.get("autoStopInterval", 15)
        self.ttl_minutes = wanted.get("ttlMinutes") or 0
        self.refused_deletes = 0
        """Deletes still to be answered 409, as in the middle of a change of state."""
        self._names = names
        user = wanted.get("user") or "root"
        memory_mb = GIB_MB * (wanted.get("memory") or 0)
        self.box = DaytonaBox(root / self.id, "/home/daytona", user, names, memory_mb)

    async def boot(self, delay_seconds: float) -> None:
        build = (self.wanted.get("buildInfo") or {}).get("dockerfileContent", "")
        if build:
            self.state = "building_snapshot"
        await asyncio.sleep(delay_seconds)
        if BROKEN_BUILD in build:
            self.state, self.error = "build_failed", "the build failed: exit code 1"
        elif self.state != "destroyed":
            await self.box.start(self.wanted.get("env") or {})
            await self.apply_network({})
            if self.state == "destroyed":  # meanwhile
                self.box.kill()
            else:
                self.state, self.active = "started", time.time()

    async def apply_network(self, change: dict[str, Any]) -> None:
        self.wanted.update(change)
        cidrs = [part for part in (self.wanted.get("networkAllowList") or "").split(",") if part]
        domains = [part for part in (self.wanted.get("domainAllowList") or "").split(",") if part]
        if self.wanted.get("networkBlockAll"):
            cidrs, domains = [], []
            self.wanted.update(networkAllowList=None, domainAllowList=None)
        elif not cidrs and not domains:
            cidrs = ["0.0.0.0/0"]
        for name, address in self._names.items():
            if any(_covers(domain, name) for domain in domains):
                cidrs.append(f"{address}/32")
        await self.box.allow(cidrs)

    def stop(self) -> None:
        self.box.kill()
        self.state = "stopped"

    def destroy(self) -> None:
        self.state = "destroyed"
        threading.Thread(target=self.box.remove, daemon=True).start()

    def shown(self, toolbox_url: str) -> dict[str, Any]:
        wanted = self.wanted
        return {
            "id": self.id,
            "organizationId": "organization",
            "name": self.name,
            "snapshot": wanted.get("snapshot") or "standin/sandbox:0.1",
            "buildInfo": self._build(),
            "user": wanted.get("user") or "root",
            "env": wanted.get("env") or {},
            "labels": self.labels,
            "public": bool(wanted.get("public")),
            "networkBlockAll": bool(wanted.get("networkBlockAll")),
            "networkAllowList": wanted.get("networkAllowList"),
            "domainAllowList": wanted.get("domainAllowList"),
            "kvm": False,
            "target": wanted.get("target") or "us",
            "cpu": wanted.get("cpu") or 1,
            "gpu": wanted.get("gpu") or 0,
            "memory": wanted.get("memory") or 1,
            "disk": wanted.get("disk") or 3,
            "state": self.state,
            "errorReason": self.error,
            "autoStopInterval": self.stop_minutes,
            "autoDeleteInterval": wanted.get("autoDeleteInterval", -1),
            "createdAt": time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime(self.created)),
            "toolboxProxyUrl": toolbox_url,
        }

    def _build(self) -> dict[str, Any] | None:
        build = self.wanted.get("buildInfo")
        if build is None:
            return None
        digest = hashlib.sha256(build["dockerfileContent"].encode()).hexdigest()
        moment = "2025-01-01T00:00:00.000Z"
        reference = f"daytona-{digest}:daytona"
        return {**build, "snapshotRef": reference, "createdAt": moment, "updatedAt": moment}


def _covers(domain: str, name: str) -> bool:
    if domain.startswith("*."):
        return name.endswith(domain[1:])
    return name == domain
