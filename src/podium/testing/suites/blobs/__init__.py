"""What blobs must promise on any store and any object store. P28: whole, or visibly broken.

An object store takes this on by giving the suite a `shelf`: the object store itself, and a look behind
its back at what really lies there.
"""

from podium.testing.suites.blobs.breaking import BreakingSuite
from podium.testing.suites.blobs.lasting import LastingSuite, SharedBlobSuite
from podium.testing.suites.blobs.storing import StoringSuite


class BlobSuite(StoringSuite, BreakingSuite, LastingSuite):
    """All of it."""


__all__ = ["BlobSuite", "SharedBlobSuite"]
