"""What `./dev test` asked for: the usual tests, or all; all of them, or one shard."""

import os
import zlib

FULL = os.environ.get("TIDEPOOL_FULL") == "1"
# "I/N", from 1/N to N/N: with others, on other machines or later, the shards make up all tests.
SHARD, SHARDS = map(int, os.environ.get("TIDEPOOL_SHARD", "1/1").split("/"))


def is_in_shard(name: str) -> bool:
    """Tell whether this shard runs what has this name."""
    return zlib.crc32(name.encode()) % SHARDS == SHARD - 1
