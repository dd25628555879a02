"""Object stores by obstore: a folder on a disk, or a bucket that speaks S3 (AWS, R2, and others)."""

from podium.backends.objectstore.opening import open_objects

__all__ = ["open_objects"]
