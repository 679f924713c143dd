"""The command line: what it refuses, what it becomes, and that the job is left alone."""

import json
import os
import shlex
import signal
import subprocess
import sys

import pytest
from tidepool import cli


@pytest.mark.parametrize("arguments, options, command", [
    (["--budget", "1GiB", "--", "python", "a.py", "--budget"], ["--budget", "1GiB"],
     ["python", "a.py", "--budget"]),
    (["--budget=1GiB", "-m", "pkg", "-x"], ["--budget=1GiB"], [sys.executable, "-m", "pkg", "-x"]),
    (["--chaos", "a.py", "b"], ["--chaos=op"], [sys.executable, "a.py", "b"]),
    (["--chaos=alloc", "--", "-m", "pkg"], ["--chaos=alloc"], [sys.executable, "-m", "pkg"]),
    (["--budget", "1GiB", "sh", "-c", "x.py"], ["--budget", "1GiB"], ["sh", "-c", "x.py"]),
    (["--budget", "1GiB"], ["--budget", "1GiB"], []),
    (["--steps", "3", "a.py"], ["--steps", "3"], [sys.executable, "a.py"]),
    (["--batch", "@", "8:9", "a.py", "@"], ["--batch", "@", "8:9"], [sys.executable, "a.py", "@"]),
])
def test_options_and_command_are_told_apart(arguments, options, command):
    assert cli.split_command(arguments) == (options, command)


def test_a_script_that_is_a_program_is_started_as_one(installation, tmp_path):
    """By the name under which it would be found, with what its first line asks for."""
    script = tmp_path / "tool.py"
    script.write_text(f"#!{sys.executable} -O\nimport sys; print(__debug__, sys.argv[1:])\n")
    environ = {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    for program, printed in ((False, "True"), (True, "False")):
        script.chmod(0o755 if program else 0o644)
        done = installation.tidepool("run", "--budget", "1GiB", str(script), "a", check=0)
        assert done.stdout == f"{printed} ['a']\n"
    done = installation.tidepool("run", "--budget", "1GiB", "--", "tool.py", "a", check=0,
                                 **environ)
    assert done.stdout == "False ['a']\n"


def test_a_script_that_takes_any_python_runs_in_ours(installation, tmp_path, monkeypatch):
    """Also one that is here, whatever has its name elsewhere."""
    monkeypatch.chdir(tmp_path)
    for folder, first in (("here", "#!/usr/bin/env python3\r\n"), ("there", "#!/bin/false\n")):
        (tmp_path / folder).mkdir()
        script = tmp_path / folder / "tool.py"
        script.write_text(f"{first}import sys; print(sys.executable)\n")
        script.chmod(0o755)
    environ = {"PATH": f"{tmp_path / 'there'}:{os.environ['PATH']}"}
    for folder, word in (("here", "tool.py"), ("here", "./tool.py"), (".", "here/tool.py")):
        monkeypatch.chdir(tmp_path / folder)
        done = installation.tidepool("run", "--budget", "1GiB", word, check=0, **environ)
        assert done.stdout == f"{sys.executable}\n"


@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&- >&- 2>&-"])
def test_a_job_starts_although_streams_are_closed(installation, tmp_path, closed):
    """They are closed for the job, too."""
    job = ("import os, pathlib\nopen_ = []\nfor number in range(3):\n    try:\n"
           "        os.fstat(number)\n        open_.append(number)\n"
           f"    except OSError:\n        pass\npathlib.Path({str(tmp_path / 'a')!r}).write_text("
           "str(open_))")
    written = []
    for front in ([], installation.command("run", "--budget", "1GiB", "--")):
        line = shlex.join([*front, sys.executable, "-S", "-c", job])
        installation.run("sh", "-c", f"{line} {closed}", check=0)
        written.append((tmp_path / "a").read_text())
    assert written[0] == written[1]


@pytest.mark.parametrize("environ, into", [
    ({"PYTHONIOENCODING": "ascii"}, ""), ({}, ">/dev/full"), ({}, "2>/dev/full"),
    ({}, ">/dev/full 2>&1")])
@pytest.mark.parametrize("command, status", [("verify", 3), ("probe", 3), ("run", 127)])
def test_a_report_that_cannot_be_printed_is_no_verdict(installation, environ, into, command,
                                                       status):
    budget = [] if command == "probe" else ["--budget", "1GiB"]
    line = shlex.join(installation.command(command, *budget, "--", "/nowhere/Gr\u00f6\u00dfe"))
    if command == "run" and "2>" in into:
        status = 2  # why it does not start cannot be said
    done = installation.run("bash", "-c", f"{line} {into}", check=status, **environ)
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("arguments, parts", [
    (["--budget", "8gib", "--", "true"], ["budget '8gib'", "did you mean GiB"]),
    (["--budget", "1GiB", "--policy", "cop", "--", "true"], ["policy 'cop'", "did you mean coop"]),
    (["--budget", "1GiB", "--device", "cuda", "--policy", "none", "--chaos=op", "--", "true"],
     ["chaos 'op'", "where nothing is evicted", "policy none"]),
    (["--budget", "1GiB", "--chaos=often", "--", "true"], ["chaos 'often'", "random:SEED"]),
    (["--budget", "1GiB", "--stats", "/nowhere/x.json", "--", "true"], ["/nowhere/x.json"]),
    (["--budget", "1GiB", "--stats", __file__, "--", "true"], ["is no statistics file"]),
    (["--trace", __file__, "--", "true"], ["--trace", "is no trace"]),
    (["--trace", "x", "--trace-steps", "3:1", "--", "true"], ["trace_steps '3:1'", "FIRST:LAST"]),
    (["--", "true"], ["no budget"]),
    (["--budget", "1GiB"], ["no command"]),
    (["--budgte", "1GiB", "--", "true"], ["--budgte"]),
    (["--budget", "--", "true"], ["--budget"]),
])
def test_bad_settings_are_refused_before_the_job_starts(installation, arguments, parts):
    done = installation.tidepool("run", *arguments, check=2)
    assert done.stdout == ""
    for part in parts:
        assert part in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("arguments, part", [
    (["--budget", "8gib", "--", "true"], "tidepool verify: budget '8gib'"),
    (["--budget", "1GiB", "--steps", "0", "--", "true"], "expected a whole number above zero"),
    (["--budget", "1GiB", "--stats", "x.json", "--", "true"], "--stats"),
    (["--budget", "1GiB"], "no command"),
])
def test_what_verify_refuses_is_no_verdict(installation, arguments, part):
    done = installation.tidepool("verify", *arguments, check=3)
    assert done.stdout == "" and part in done.stderr and "Traceback" not in done.stderr


@pytest.mark.parametrize("arguments, part", [
    (["--memory", "8gib", "--", "true"], "'8gib': unknown unit"),
    (["--memory", "0", "--", "true"], "'0': expected more than zero bytes"),
    (["--slowdown", "10", "--", "true"], "expected a share such as 10%"),
    (["--slowdown", "nan%", "--", "true"], "expected a share such as 10%"),
    (["--slowdown", "inf%", "--", "true"], "expected a share such as 10%"),
    (["--memory", "1GiB", "--slowdown", "10%", "--", "true"], "not allowed with"),
    (["--device", "gpu", "--", "true"], "device 'gpu'"),
    (["--batch", "@", "8:512", "--", "true", "@"], "--batch needs --memory"),
    (["--memory", "1GiB", "--batch", "@", "9:8", "--", "true", "@"], "--batch '9:8'"),
    (["--memory", "1GiB", "--batch", "@", "8:9", "--", "true"], "no such word"),
    (["--slowdown", "10%"], "no command"),
])
def test_what_probe_refuses_is_no_answer(installation, arguments, part):
    done = installation.tidepool("probe", *arguments, check=3)
    assert done.stdout == "" and part in done.stderr and "Traceback" not in done.stderr


def test_verify_runs_the_job_plain_first(installation):
    job = "import os; print(sorted(name for name in os.environ if name.startswith('TIDEPOOL')))"
    done = installation.tidepool("verify", "--budget", "1GiB", "--", sys.executable, "-c", job,
                                 check=3, TIDEPOOL_POLICY="coop")
    assert done.stdout == ("could not run: no process of the job imported PyTorch where we could "
                           "follow it\n")
    assert "['TIDEPOOL_VERIFY']" in done.stderr


def test_a_wrong_variable_is_refused_too(installation):
    done = installation.tidepool("run", "--budget", "1GiB", "--", "true", check=2,
                                 TIDEPOOL_POLLICY="coop")
    assert "did you mean TIDEPOOL_POLICY?" in done.stderr


def test_exit_status_and_output_are_the_jobs(installation):
    done = installation.tidepool("run", "--budget", "1GiB", "--", "sh", "-c", "echo out; exit 7",
                                 check=7)
    assert (done.stdout, done.stderr) == ("out\n", "")
    assert "not found" in installation.tidepool("run", "--budget", "1GiB", "--", "no-such-thing",
                                                check=127).stderr
    assert "--chaos=alloc" in installation.tidepool("run", "--budget", "1GiB", "--chaos", "alloc",
                                                    "--", "true", check=127).stderr
    installation.tidepool("run", "--budget", "1GiB", "--", "/etc/passwd", check=126)


def test_signals_reach_the_job(installation):
    done = installation.tidepool("run", "--budget", "1GiB", "--", "sh", "-c", "kill -TERM $$")
    assert done.returncode == -signal.SIGTERM
    code = (f"import sys; sys.path.insert(0, {str(installation.package.parent)!r}); "
            "from tidepool.cli import main; main()")
    job = "import time; print('up', flush=True); time.sleep(60)"
    process = subprocess.Popen([sys.executable, "-c", code, "run", "--budget", "1GiB", "--",
                                sys.executable, "-c", job], stdout=subprocess.PIPE)
    assert process.stdout.readline() == b"up\n"
    process.terminate()
    assert process.wait(10) == -signal.SIGTERM


def test_modules_and_scripts_run_in_this_python(installation, tmp_path):
    (tmp_path / "job.py").write_text("import sys, torch; print(sys.executable, sys.argv[1:])")
    expected = f"{sys.executable} ['--x', '1']\n"
    run = ["run", "--budget", "1GiB"]
    script = installation.tidepool(*run, str(tmp_path / "job.py"), "--x", "1", check=0)
    assert script.stdout == expected and "attached" in script.stderr
    paths = f"{tmp_path}:{os.path.dirname(__file__)}/fake_torch"
    module = installation.tidepool(*run, "-m", "job", "--x", "1", check=0, PYTHONPATH=paths)
    assert module.stdout == expected and "attached" in module.stderr


def test_settings_reach_the_plugin_and_statistics_the_file(installation, tmp_path):
    job = "import os, torch; os.chdir('/')"
    done = installation.tidepool(
        "run", "--budget", "2GiB", "--policy", "coop", "--chaos", "--stats",
        str(tmp_path / "out.json"), "--", sys.executable, "-c", job, check=0,
        FAKE_PLUGIN_LOG=str(tmp_path / "log"))
    settings = json.loads((tmp_path / "log").read_text().removeprefix("attach "))
    assert settings["budget_bytes"] == 2**31
    assert (settings["policy"], settings["chaos"]) == ("coop", "op")
    content = json.loads((tmp_path / "out.json").read_text())
    assert content["devices"]["cpu"]["evictions"] == 3 and content["torch"] == "9.1.0+fake"
    assert done.stdout == ""
    assert done.stderr.splitlines() == [
        "tidepool: attached, budget 2 GiB on cpu, policy coop, chaos op",
        "tidepool: peak 1536 MiB of 2 GiB, 3 evictions (3 MiB), 4 operators replayed in 1.5 s, "
        "2 KiB of bookkeeping"]


def test_a_link_to_a_file_leads_to_the_next_one(installation, tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "link.json").symlink_to("folder/out.json")
    for _ in range(2):
        installation.tidepool("run", "--budget", "2GiB", "--stats", str(tmp_path / "link.json"),
                              "--", sys.executable, "-c", "import torch", check=0)
        assert (tmp_path / "link.json").is_symlink()
        assert json.loads((tmp_path / "folder" / "out.json").read_text())["state"] == "finished"


ATTEMPTS = "try:\n    import torch\nexcept BaseException:\n    pass\nprint('ran')"


@pytest.mark.parametrize("command", [
    [sys.executable, "-c", ATTEMPTS],
    ["sh", "-c", f'{sys.executable} -c "{ATTEMPTS}"'],
    [sys.executable, "-c", "import subprocess, sys; sys.exit(subprocess.run("
                           f"[sys.executable, '-c', {ATTEMPTS!r}]).returncode)"],
])
def test_a_job_does_not_run_without_its_budget(installation, command):
    run = ["run", "--budget", "1GiB"]
    environ = {"FAKE_PLUGIN_REFUSES": "no room"}
    done = installation.tidepool(*run, "--", *command, check=2, **environ)
    assert done.stdout == "" and done.stderr.count("this process ends") == 1
    assert "no room" in done.stderr
    for inherited in ({}, {"TIDEPOOL_REQUIRED": "1"}):
        done = installation.tidepool(*run, "--if-possible", "--", *command, check=0, **environ,
                                     **inherited)
        assert done.stdout == "ran\n" and "running without Tidepool: no room" in done.stderr


def test_a_verified_job_ends_by_itself(installation):
    environ = cli.job_environment(
        cli._parser().parse_args(["verify", "--budget", "1GiB"]), {"TIDEPOOL_REQUIRED": "1"})
    assert environ["TIDEPOOL_REQUIRED"] == "0"


def test_an_older_preload_stays_behind_ours(installation):
    assert cli.preload_list(installation.shim, "/lib/a.so b.so") == \
        f"{installation.shim}:/lib/a.so:b.so"
    assert cli.preload_list(installation.shim, str(installation.shim)) == str(installation.shim)
    with pytest.raises(cli.Refusal, match="missing"):
        cli.preload_list(installation.shim.with_name("none.so"), "")


def test_help_and_version_are_products(installation):
    assert "tidepool run --budget 8GiB" in installation.tidepool("run", "--help", check=0).stdout
    assert "differs from itself" in installation.tidepool("verify", "--help", check=0).stdout
    assert installation.tidepool("--version", check=0).stdout.startswith("tidepool ")
    done = installation.run(sys.executable, "-m", "tidepool", "run", check=2,
                            PYTHONPATH=str(installation.package.parent))
    assert "no command" in done.stderr
