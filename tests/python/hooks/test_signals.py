"""Handlers of signals wait while their thread runs what is not seen."""

import _signal
import asyncio
import signal
import threading
from signal import getsignal
from signal import signal as install_by_name

import pytest
from tidepool.hooks import _signals

USED = signal.SIGUSR1


class Plugin:
    """Defers what it is told to."""

    def __init__(self):
        self.is_busy, self.deferred = False, []

    def defer_signal(self, number):
        if self.is_busy:
            self.deferred.append(number)
        return self.is_busy

    def become_forked_child(self):
        self.is_busy = False


@pytest.fixture
def plugin(monkeypatch):
    """Returns a plugin whose hooks are installed, and taken away afterwards."""
    monkeypatch.setattr(_signal, "signal", _signal.signal)
    monkeypatch.setattr(_signal, "getsignal", _signal.getsignal)
    install = _signal.signal
    before = {number: _signal.getsignal(number) for number in _signal.valid_signals()}
    install(signal.SIGINT, signal.default_int_handler)  # a shell may have it ignored
    made = Plugin()
    _signals.defer_in_replays(made)
    yield made
    for number, handler in before.items():
        if callable(handler) or number in (USED, signal.SIGINT):
            install(number, handler)


@pytest.mark.parametrize("install", [signal.signal, install_by_name])
def test_handlers_wait(plugin, install):
    heard = []
    install(USED, lambda number, frame: heard.append((number, frame is not None)))
    signal.raise_signal(USED)
    plugin.is_busy = True
    signal.raise_signal(USED)
    assert (heard, plugin.deferred) == ([(USED, True)], [USED])
    plugin.is_busy = False
    signal.raise_signal(USED)
    assert heard == [(USED, True)] * 2


def test_what_a_handler_raises_reaches_the_job(plugin):
    def stop(*_):
        raise TimeoutError

    signal.signal(USED, stop)
    with pytest.raises(TimeoutError):
        signal.raise_signal(USED)


def test_a_job_gets_back_what_it_gave(plugin):
    def first(*_):
        pass

    assert signal.signal(signalnum=USED, handler=first) is signal.SIG_DFL
    assert getsignal(USED) is signal.getsignal(signalnum=USED) is first
    again = signal.signal(USED, signal.SIG_IGN)
    assert again is first
    assert signal.getsignal(USED) is signal.SIG_IGN
    assert signal.signal(USED, again) is signal.SIG_IGN
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_handlers_that_were_there_wait_too(plugin):
    plugin.is_busy = True
    signal.raise_signal(signal.SIGINT)
    assert plugin.deferred == [signal.SIGINT]
    plugin.is_busy = False
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)


def test_an_event_loop_hears_of_a_signal_once(plugin):
    heard = []

    async def work():
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(USED, heard.append, True)
        plugin.is_busy = True
        signal.raise_signal(USED)
        plugin.is_busy = False
        await asyncio.sleep(0.01)
        loop.remove_signal_handler(USED)

    asyncio.run(work())
    assert (heard, plugin.deferred) == ([True], [])


def test_bad_handlers_are_refused_as_before(plugin):
    with pytest.raises(TypeError, match="signal handler must be"):
        signal.signal(USED, "no handler")
    refused = []

    def install():
        with pytest.raises(ValueError, match="main thread"):
            signal.signal(USED, lambda *_: None)
        refused.append(True)

    thread = threading.Thread(target=install)
    thread.start()
    thread.join()
    assert refused == [True]
