"""``kafkaspark dev`` over jobs that need no Spark: what it prints, its exit status, and a round after each change."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from kafkaspark.__main__ import main
from kafkaspark.dev.watch import await_change, signatures


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Path:
    """The folder of ``kafkaspark init orders --template arrow``, as the present folder."""
    monkeypatch.chdir(tmp_path)
    main(["init", "orders", "--template", "arrow"])
    monkeypatch.chdir(tmp_path / "orders")
    capsys.readouterr()
    return tmp_path / "orders"


def once(*arguments: str) -> int:
    return main(["dev", "job.yaml", "--input", "orders.jsonl", "--once", *arguments])


@pytest.mark.usefixtures("project")
def test_records_are_printed_and_the_rest_is_on_the_other_stream(capsys: pytest.CaptureFixture[str]) -> None:
    assert once("--rows", "2") == 0
    printed = capsys.readouterr()
    assert printed.out.splitlines() == [
        'orders-out ann: {"id": 1, "customer": "a**", "amount": 250.0}',
        'orders-out bob: {"id": 2, "customer": "b**", "amount": 5.0}',
    ]
    assert printed.err.splitlines()[:2] == [
        "default/orders: engine Continuous, no broker: the input is one checkpoint",
        "… and 3 records more; --rows 0 shows all",
    ]
    assert printed.err.splitlines()[2].startswith("5 records read, 5 written in ")


def test_json_is_what_the_input_may_be(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert once("--output", "json") == 0
    printed = capsys.readouterr().out
    assert [json.loads(line)["key"] for line in printed.splitlines()] == ["ann", "bob", "cid", "ann", "dan"]
    (project / "orders.jsonl").write_text(printed.replace('"topic": "orders-out"', '"topic": "again"'))
    assert once("--output", "json") == 0
    assert json.loads(capsys.readouterr().out.splitlines()[0])["value"]["customer"] == "a**"


def test_an_error_has_the_lines_of_code_and_input(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = project / "transform.py"
    code.write_text(code.read_text().replace("customer[:1] +", "customer[5] +"))
    (project / "orders.jsonl").write_text('{"customer": "a long name"}\n{"customer": "ann"}\n')
    assert once() == 1
    (line,) = [line for line in capsys.readouterr().err.splitlines() if line.startswith("TransformFailed: ")]
    number = next(n for n, text in enumerate(code.read_text().splitlines(), 1) if "customer[5] +" in text)
    assert line == (
        "TransformFailed: topic orders, partition 0, offset 1: IndexError: string index out of range"
        f" (transform.py:{number} in mask),"
        ' over orders.jsonl:2: {"customer":"ann"}'
    )


@pytest.mark.parametrize(
    ("file", "text", "status", "message"),
    [
        ("job.yaml", "a: [", 2, "job.yaml is not YAML"),
        ("job.yaml", "kind: Pod", 2, "no KafkaSparkJob in job.yaml: there is Pod"),
        ("orders.jsonl", "{", 2, "orders.jsonl:1 is no record"),
        ("transform.py", "import nothing_there", 1, "No module named 'nothing_there' (transform.py:1 in <module>)"),
        ("transform.py", "masked = (", 1, "SyntaxError: '(' was never closed (transform.py, line 1)"),
    ],
)
def test_what_cannot_run_has_a_status_and_its_cause(  # noqa: PLR0917
    file: str, text: str, status: int, message: str, project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (project / file).write_text(text)
    assert once() == status
    assert message in capsys.readouterr().err


def test_a_missing_input_is_an_error_of_the_command(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project / "orders.jsonl").unlink()
    assert once() == 2
    assert "orders.jsonl" in capsys.readouterr().err


@pytest.mark.usefixtures("project")
def test_options_that_need_others_say_so(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["dev", "job.yaml"]) == 2
    assert capsys.readouterr().err == "name the records by --input FILE, or a broker by --bootstrap HOST:PORT\n"
    assert once("--tail") == 2
    assert capsys.readouterr().err == "--tail needs --bootstrap HOST:PORT\n"


@pytest.fixture
def written_later() -> Callable[[Path, str], None]:
    def write(file: Path, text: str) -> None:
        timer = threading.Timer(0.3, file.write_text, [text])
        timer.daemon = True
        timer.start()

    return write


def test_a_change_ends_the_wait(tmp_path: Path, written_later: Callable[[Path, str], None]) -> None:
    files = [tmp_path / "job.yaml", tmp_path / "none.py"]
    files[0].write_text("a")
    written_later(files[0], "ab")
    assert await_change(signatures(files)) == [files[0]]
    written_later(files[1], "new")
    assert await_change(signatures(files)) == [files[1]]


def test_a_change_before_the_wait_is_not_missed(tmp_path: Path) -> None:
    file = tmp_path / "job.yaml"
    file.write_text("a")
    before = signatures([file])
    file.write_text("ab")
    assert await_change(before) == [file]
