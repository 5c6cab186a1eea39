"""The cookbook does what it says: each command, by real curl, against a real controller and real switches."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from controller.client import wait_ready
from controller.config import load_fabric
from tests.support.controller_process import running_controller
from tests.support.cookbook import Example, examples, mismatch
from tests.support.dummy_ovs import missing

TIMEOUT_S = 60
WAIT_NS = TIMEOUT_S * 10**9


class Reader:
    """Somebody who follows a document in a folder.

    Args:
        folder: Where.
        repository: What ``.venv/bin/python`` stands for is run from here.
    """

    def __init__(self, folder: Path, repository: Path) -> None:
        self._folder = folder
        self._stack = ExitStack()
        self._address = ""
        self._variables = {**os.environ, "PYTHONPATH": str(repository)}
        self._controllers = 0
        self._openflow = ""

    def __enter__(self) -> Reader:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def follow(self, example: Example) -> str:
        """Do what the document says, and return what comes out."""
        command = example.command
        if "-m controller" in command:
            self._start(shlex.split(command.removesuffix("&")))
            return ""
        if "-m tests.support.dummy_ovs" in command:
            self._connect(shlex.split(command.removesuffix("&")))
            return ""
        if "-m tests.support.memory_gateway" in command:
            self._serve(shlex.split(command.removesuffix("&")))
            return ""
        if command.startswith("api="):
            self._variables["api"] = f"http://{self._address}"
            return ""
        command = command.replace(".venv/bin/python", sys.executable)
        if " -sN " in command:
            return self._watch(command, len(example.shown or ()))
        done = subprocess.run(
            ["bash", "-c", command], cwd=self._folder, env=self._variables, capture_output=True, text=True,
            timeout=TIMEOUT_S, check=False,
        )  # fmt: skip
        assert done.returncode == 0, f"line {example.line}: {command}: {done.returncode} {done.stderr}"
        return done.stdout

    def _watch(self, command: str, lines: int) -> str:
        """The first lines of an output without an end."""
        process = subprocess.Popen(
            ["bash", "-c", f"exec {command}"], cwd=self._folder, env=self._variables, stdout=subprocess.PIPE, text=True
        )
        try:
            assert process.stdout
            with process.stdout:
                return "".join(process.stdout.readline() for _ in range(lines))
        finally:
            process.terminate()
            process.wait(TIMEOUT_S)

    def _start(self, words: list[str]) -> None:
        """Start a controller with the document's options on free ports."""
        options = dict(zip(words[3::2], words[4::2], strict=True))
        assert words[1:3] == ["-m", "controller"]
        assert {"--listen", "--rest"} < options.keys()
        fabric = load_fabric(self._folder / options.pop("--fabric"))
        more = []
        for name in ("--store", "--tokens"):
            if name in options:
                value = options.pop(name)
                more += [name, value if value == ":memory:" else str(self._folder / value)]
        if "--gateway" in options:
            name, _, control = options.pop("--gateway").partition("=")
            more += ["--gateway", f"{name}={self._folder / control}"]
        folder = self._folder / f"controller-{self._controllers}"
        folder.mkdir()
        self._controllers += 1
        controller = self._stack.enter_context(running_controller(folder, fabric, options.pop("--design"), (), *more))
        assert options.keys() == {"--listen", "--rest"}
        self._address, self._openflow = controller.rest, controller.openflow

    def _serve(self, words: list[str]) -> None:
        """Run a gateway without ports."""
        assert words[1:3] == ["-m", "tests.support.memory_gateway"]
        lines = self._background(words[1:])
        assert lines.startswith("control socket: ")

    def _connect(self, words: list[str]) -> None:
        """Connect switches to the controller that was started last."""
        assert words[1:3] == ["-m", "tests.support.dummy_ovs"]
        file, address = words[3:]
        assert address == "127.0.0.1:6653"
        names = self._background([*words[1:3], file, self._openflow]).split()[1:]
        assert len(names) == len(load_fabric(self._folder / file).switches)
        wait_ready(f"http://{self._address}", len(names), WAIT_NS)

    def _background(self, words: list[str]) -> str:
        """Start something that goes on until the end; the line that it prints when it is there."""
        argv = [sys.executable, *words]
        process = subprocess.Popen(argv, cwd=self._folder, env=self._variables, stdout=subprocess.PIPE, text=True)
        self._stack.callback(process.wait, TIMEOUT_S)
        self._stack.callback(process.terminate)
        assert process.stdout
        with process.stdout:
            return process.stdout.readline()


def test_every_command_prints_what_stands_below_it(tmp_path: Path, repository: Path) -> None:
    """From the first to the last, in order, from an empty store."""
    lacking = [*missing(), *(tool for tool in ("bash", "curl", "sha256sum") if shutil.which(tool) is None)]
    if lacking:
        pytest.skip(f"not installed: {', '.join(lacking)}")
    text = (repository / "docs" / "cookbook.md").read_text()
    found = examples(text)
    # None is hidden in a place where nobody looks for it.
    assert len(re.findall(r"\bcurl -", text)) == sum(example.command.startswith("curl -") for example in found) >= 50
    with Reader(tmp_path, repository) as reader:
        for example in found:
            came = reader.follow(example)
            if example.shown is not None:
                wrong = mismatch(example.shown, came)
                assert not wrong, f"line {example.line}: {example.command}\n{wrong}"


JSON_SHOWN = ("HTTP/1.1 200 OK", 'ETag: "1"', "", '{"a": [1, …, {"b": "x…"}], "c": …, …}')
HEAD = 'HTTP/1.1 200 OK\r\nServer: icgw\r\netag: "1"\r\n\r\n'


@pytest.mark.parametrize(
    ("shown", "came", "wrong"),
    [
        (JSON_SHOWN, HEAD + '{"c": 5, "a": [1, 2, 3, {"b": "xyz"}], "d": 1}', ""),
        (JSON_SHOWN, HEAD + '{"c": null, "a": [1, {"b": "x"}]}', ""),
        (JSON_SHOWN, HEAD.replace("200 OK", "412 No") + "{}", "the status is 'HTTP/1.1 412 No'"),
        (JSON_SHOWN, HEAD.replace('"1"', '"2"') + "{}", "there is no header"),
        (JSON_SHOWN, HEAD + '{"a": [1, {"b": "x"}]}', "it has no c"),
        (JSON_SHOWN, HEAD + '{"c": 5, "a": [1, {"b": "yx"}]}', "/a is"),
        (JSON_SHOWN, HEAD + '{"c": 5, "a": [true, {"b": "x"}]}', "/a is"),
        (JSON_SHOWN, HEAD + '{"c": 5, "a": [1, {"b": "x", "c": 1}]}', "/a is"),
        (('{"a": 1}',), '{"a": 1, "b": 2}', "it has ['b'] as well"),
        (('{"a": "…"}',), '{"a": ""}', ""),
        (('{"a": {"b": 1}}',), '{"a": {"b": 2}}', "/a/b is 2"),
        (("[…]",), "[1, 2]", ""),
        (("[]",), "[1]", "it is [1]"),
        (("a …", "…", "d"), "a 1\nb\nc\nd\n", ""),
        (("a …", "…", "d"), "a 1\nd\ne\n", "it is"),
        ((), "something", "it is"),
        ((), "", ""),
        (("HTTP/1.1 204 No Content", ""), "HTTP/1.1 204 No Content\r\nServer: x\r\n\r\n", ""),
        (("HTTP/1.1 204 No Content", ""), "HTTP/1.1 204 No Content\r\nServer: x\r\n\r\n{}", "it is"),
    ],
)
def test_outputs_are_really_compared(shown: tuple[str, ...], came: str, wrong: str) -> None:
    """What may differ is what is written as such, and nothing else."""
    found = mismatch(shown, came)
    assert found.startswith(wrong)
    assert bool(found) == bool(wrong)
