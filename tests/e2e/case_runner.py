"""Trains cases, each in a fork of a process that has imported PyTorch once already.

Reads requests from standard input and answers each on standard output, one line of JSON each:

    {"pairs": ["mlp:sgd"], "size": "chaos", "steps": 3, "threads": 1,
     "settings": {"budget": "1GiB", "chaos": "op"} or null}

The answer has the results by pair and, where Tidepool was attached, its statistics; or an error.
This process runs no operator itself, so that a child starts as a fresh job would.
"""

import argparse
import json
import os
import sys
import tempfile
import traceback
from collections.abc import Callable
from pathlib import Path

import torch
import torch._dynamo  # optimizers import it at their first step
import train_job


def train(request: dict) -> dict:
    """Do what a request asks, in this process."""
    attached = request["settings"] is not None
    if attached:
        import tidepool

        settings = dict(request["settings"])
        if "room" in settings:
            os.environ["TIDEPOOL_ROOM"] = settings.pop("room")
        tidepool.enable(device="cpu", **settings)
    torch.set_num_threads(request["threads"])
    options = argparse.Namespace(size=request["size"], steps=request["steps"], seed=0)
    run = train_job.measure_working_set if request.get("measure") else train_job.run_case
    answer = {"results": {pair: run(pair, options) for pair in request["pairs"]}}
    if attached:
        answer["stats"] = tidepool.stats()["devices"]["cpu"]
    return answer


def run_child(answer: Callable[[dict], dict], request: dict, path: Path) -> int:
    """Answer a request in a child process; return how it ended."""
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    status = 1
    try:
        path.write_text(json.dumps(answer(request)))
        status = 0
    except BaseException:  # the child must not go on as its parent
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(status)


def serve(answer: Callable[[dict], dict]) -> None:
    """Answer requests until there are no more."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "answer.json"
        for line in sys.stdin:
            path.unlink(missing_ok=True)
            status = run_child(answer, json.loads(line), path)
            print(path.read_text() if status == 0 else json.dumps({"ended_with": status}),
                  flush=True)


if __name__ == "__main__":
    serve(train)
