"""The stream, made when it is missing and mended when its settings are not ours.

A work queue in files: a message leaves it when it was acknowledged. Notices of ours carry their own
time to live, the span for which their row is hidden, so that a row that nobody hears has one notice
in the stream and not one for every time it was told.
"""

from __future__ import annotations

from dataclasses import replace

from nats.js import JetStreamContext
from nats.js.api import RetentionPolicy, StorageType, StreamConfig, StreamInfo
from nats.js.errors import NotFoundError

from podium.backends.nats.settings import NatsSettings
from podium.kernel.errors import Unavailable
from podium.kernel.telemetry import logger

log = logger(__name__)


async def ensured(js: JetStreamContext, settings: NatsSettings) -> StreamInfo:
    wanted = _wanted(settings)
    try:
        info = await js.stream_info(settings.stream)
    except NotFoundError:
        log.warning("the broker has no stream: made anew", stream=settings.stream)
        return await js.add_stream(wanted)
    found = info.config
    if found.retention != wanted.retention or found.storage != wanted.storage:
        raise Unavailable(
            f"the stream {settings.stream} is there with retention {found.retention} in "
            f"{found.storage}, and is not ours: name another one, or remove it",
        )
    if any(getattr(found, name) != getattr(wanted, name) for name in OURS):
        log.warning("the broker's stream has other settings: mended", stream=settings.stream)
        # What the operator set beside ours (limits, placement, compression) stays.
        ours = {name: getattr(wanted, name) for name in OURS}
        return await js.update_stream(replace(found, **ours))
    return info


OURS = ("subjects", "max_age", "duplicate_window", "allow_msg_ttl", "num_replicas")


def _wanted(settings: NatsSettings) -> StreamConfig:
    return StreamConfig(
        name=settings.stream,
        subjects=[f"{settings.prefix}.>"],
        retention=RetentionPolicy.WORK_QUEUE,
        storage=StorageType.FILE,
        max_age=settings.max_age_seconds,
        duplicate_window=settings.duplicate_seconds,
        allow_msg_ttl=True,
        num_replicas=settings.replicas,
    )
