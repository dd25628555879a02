"""What can go wrong, as numbers. A seed's mix is drawn by the nemesis; a mutant forces its own."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Faults:
    """Chances are per call, ring or message; `_every_seconds` is the mean time between two blows.

    Zero is never.
    """

    # Processes
    kill_every_seconds: float = 0.0
    pause_every_seconds: float = 0.0
    stall: float = 0.0
    """A process is stopped exactly in front of a write: after the reads that the write relies on."""
    stall_at: tuple[str, ...] = ()
    """Only in front of these bodies; empty means in front of any."""

    # The connection to the store
    lost_before: float = 0.0
    """The call never arrives, and the caller knows: Unavailable."""
    lost_after: float = 0.0
    """It happened, and the caller does not learn it: CommitUnknown."""
    stuck: float = 0.0
    """One call takes minutes, while its process runs on."""
    stuck_at: tuple[str, ...] = ()

    disk_full: float = 0.0
    """The store itself refuses a round, with everybody in it."""

    # Bells
    ring_lost: float = 0.0
    ring_doubled: float = 0.0
    ring_late: float = 0.0

    # Clocks
    node_clock_every_seconds: float = 0.0
    database_clock_every_seconds: float = 0.0
    drift_max: float = 0.0

    # Clients and broker
    resend: float = 0.0
    """A submission that was answered is sent again all the same."""
    message_lost: float = 0.0
    message_doubled: float = 0.0
    message_late: float = 0.0

    # After the end
    broken_for_ever: float = 0.0
    """When all else is healed, one process stays stopped: the others must do without it."""

    @property
    def unsettle(self) -> bool:
        """Do any of these keep a process from doing what is due in time?"""
        return any(
            (
                self.kill_every_seconds,
                self.pause_every_seconds,
                self.stall,
                self.lost_before,
                self.lost_after,
                self.stuck,
                self.disk_full,
                self.database_clock_every_seconds,
            )
        )


NONE = Faults()
