"""Four threads that draw, seed, change switches, replace kernels and train, one after another.

    python thread_job.py OUT.json SEED ACTIONS MODE...

A token passes between the threads, in an order that the seed decides, also in the middle of forked
streams of random numbers, of backward passes and, if the seed is odd, of the job's kernels: so what
each action returns does not depend on the pace of threads. A mode is `plain`, `ample`, one of
chaos, or `budget=SHARE` of the peak of `ample`; each runs in a process of its own, forked from this
one. OUT gets by mode what each action returned, and statistics.
"""

import json
import os
import random
import sys
import threading
import traceback
import warnings
import zlib
from pathlib import Path

import torch
from thread_actions import Actor, World

THREADS = 4
CHAOS_BUDGET = "4GiB"


class Token:
    """Who may act: one thread at a time, in an order from a seed."""

    def __init__(self, seed: int):
        self._order = random.Random(seed)
        self._turns = [threading.Semaphore(0) for _ in range(THREADS)]
        self._here = list(range(THREADS))
        self._mine = threading.local()

    def begin(self) -> None:
        self._turns[0].release()

    def wait(self, number: int) -> None:
        """Wait for the first turn of the calling thread, which has this number from now on."""
        self._mine.number = number
        self._turns[number].acquire()

    def pass_on(self) -> None:
        """Let another thread act, or this one again; return when it is this one's turn."""
        self._turns[self._order.choice(self._here)].release()
        self._turns[self._mine.number].acquire()

    def retire(self) -> None:
        self._here.remove(self._mine.number)
        if self._here:
            self._turns[self._order.choice(self._here)].release()


def state_of_all() -> str:
    """Return what a thread sees of the switches and of the default generator."""
    state = zlib.crc32(bytes(torch.get_rng_state().tolist()))
    return (f"{torch.get_default_dtype()} {torch.are_deterministic_algorithms_enabled()} "
            f"{torch._C._get_mkldnn_enabled()} "
            f"{torch.utils.deterministic.fill_uninitialized_memory} {torch.is_grad_enabled()} "
            f"{torch.is_inference_mode_enabled()} "
            f"{torch.is_autocast_enabled('cpu')} {torch.get_num_threads()} {state}")


def interleaved(seed: int, actions: int) -> list[str]:
    """Return what all actions returned, in order."""
    torch.manual_seed(seed)
    token, world, found, errors = Token(seed), World(seed), [], []

    def work(number: int) -> None:
        token.wait(number)
        try:
            actor = Actor(world, number, seed, token.pass_on)
            for n in range(actions):
                found.append(f"{actor.act(n >= actions // 2)} {state_of_all()}")
                token.pass_on()
            actor.leave()
        except BaseException as error:
            errors.append(error)
        finally:
            token.retire()

    threads = [threading.Thread(target=work, args=(k,)) for k in range(THREADS)]
    for thread in threads:
        thread.start()
    token.begin()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    return found


def run_mode(mode: str, seed: int, actions: int, peak: int) -> dict:
    """Run in this process, attached as the mode says."""
    import tidepool

    if mode.startswith("budget="):
        tidepool.enable(device="cpu", budget=int(float(mode.split("=")[1]) * peak))
    elif mode == "ample":
        tidepool.enable(device="cpu", budget=CHAOS_BUDGET)
    elif mode != "plain":
        tidepool.enable(device="cpu", budget=CHAOS_BUDGET, chaos=mode)
    outcome = {"found": interleaved(seed, actions)}
    if mode != "plain":
        outcome["stats"] = tidepool.stats()["devices"]["cpu"]
    return outcome


def in_child(work, path: Path) -> dict:
    """Run work() in a forked child; return what it returned."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            path.write_text(json.dumps(work()), encoding="utf-8")
            status = 0
        except BaseException:  # the child must not go on as its parent
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(status)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert status == 0, f"a child ended with {status}"
    return json.loads(path.read_text(encoding="utf-8"))


def main() -> None:
    out, seed, actions, modes = Path(sys.argv[1]), *map(int, sys.argv[2:4]), sys.argv[4:]
    warnings.simplefilter("ignore")
    outcomes = {}
    for mode in modes:
        peak = outcomes["ample"]["stats"]["allocated_peak_bytes"] if "ample" in outcomes else 0
        outcomes[mode] = in_child(lambda m=mode, p=peak: run_mode(m, seed, actions, p), out)
        out.write_text(json.dumps(outcomes), encoding="utf-8")


if __name__ == "__main__":
    main()
