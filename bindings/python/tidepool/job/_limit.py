"""What a job has set as its budget since it began."""

from __future__ import annotations

NO_LIMIT = 2**63  # more than any budget


class Limit:
    """The budget that the job has set, outside of blocks or in one of them."""

    def __init__(self, size: int = NO_LIMIT) -> None:
        self.size = size
