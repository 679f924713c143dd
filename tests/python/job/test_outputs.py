"""No file of a user's is replaced by one of Tidepool's, however its path was given."""

import os
import sys

import pytest
from tidepool.job import _outputs
from tidepool.settings import _settings

KINDS = {"stats": ("statistics file", b'{"job": "1-a", "pid": 1, "state": "finished"}'),
         "trace": ("trace", b'{"tidepool_trace":1}'), "record": ("recording", b"TideWork")}


@pytest.mark.parametrize("key", KINDS)
def test_only_what_tidepool_has_written_is_replaced(tmp_path, key):
    path = tmp_path / "train.py"
    settings = _settings.resolve({"budget": "1GiB", "device": "cpu", key: path}, {})
    kind, ours = KINDS[key]
    _outputs.check(settings)
    for content in (b"", ours):
        path.write_bytes(content)
        _outputs.check(settings)
    path.write_text("import torch\n")
    with pytest.raises(_settings.SettingsError, match=f"{key} '.*': exists and is no {kind}"):
        _outputs.check(settings)


@pytest.mark.parametrize("key", KINDS)
def test_nothing_but_a_file_is_replaced(tmp_path, key):
    os.mkfifo(tmp_path / "pipe")
    for path, said in ((tmp_path / "pipe", "no regular file"), ("/dev/null", "of the system"),
                       (tmp_path / ("x" * 300), "cannot be a file's path")):
        settings = _settings.resolve({"budget": "1GiB", "device": "cpu", key: path}, {})
        with pytest.raises(_settings.SettingsError, match=said):
            _outputs.check(settings)


def test_a_recording_that_another_process_begins_is_one(tmp_path):
    path = tmp_path / "record"
    path.write_bytes(bytes(4096))
    _outputs.check(_settings.resolve({"budget": "1GiB", "device": "cpu", "record": path}, {}))


@pytest.mark.parametrize("key", KINDS)
def test_nor_by_variables_alone(installation, tmp_path, key):
    path = tmp_path / "train.py"
    path.write_text("import torch\n")
    done = installation.preloaded(sys.executable, "-c", "import torch", TIDEPOOL_BUDGET="1GiB",
                                  TIDEPOOL_DEVICE="cpu", check=0,
                                  **{f"TIDEPOOL_{key.upper()}": str(path)})
    assert f"{key} '{path}': exists and is no" in done.stderr
    assert path.read_text() == "import torch\n"


def test_one_process_takes_the_paths_of_trace_and_recording(installation, tmp_path):
    trace, record = tmp_path / "trace.jsonl", tmp_path / "record"
    log = tmp_path / "log"
    installation.preloaded(sys.executable, "-c", "import torch", TIDEPOOL_BUDGET="1GiB",
                           TIDEPOOL_DEVICE="cpu", TIDEPOOL_TRACE=str(trace),
                           TIDEPOOL_RECORD=str(record),
                           FAKE_PLUGIN_LOG=str(log), check=0)
    settings = log.read_text()
    assert f'"path": "{trace}"' in settings and f'"path": "{record}"' in settings
