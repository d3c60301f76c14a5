"""`stabgate run`: what it prints, writes and returns; `compare`, `doctor` and `init` beside it."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from stabgate.cli import COMMANDS, main
from stabgate.report.session import SessionReport

EXPLAINERS = """
import numpy as np

def _noisy(spread):
    def explain(X, seed):
        return np.array([3.0, 2.0, 1.0]) + spread * np.random.default_rng(seed).normal(size=3)
    return explain

steady, shaky = _noisy(0.01), _noisy(3.0)

def between(X, seed):
    return np.array([3.0, 2.0, 1.0]) + 0.24 * np.random.default_rng(seed).normal(size=3)

def raises(X, seed):
    raise RuntimeError("no licence")
"""
CONFIG = """
[tool.stabgate]
data = "rows.csv"
drop = "label"
index = "id"
runs = 12

[tool.stabgate.gates."credit/steady"]
explainer = "stabgate_test_explainers:steady"
k = 3
max_drop = 0.1

[tool.stabgate.gates."credit/shaky"]
explainer = "stabgate_test_explainers:shaky"
k = 3
share = 0.9

[tool.stabgate.gates."credit/raises"]
explainer = "stabgate_test_explainers:raises"
k = 2
"""


@pytest.fixture
def project(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("COLUMNS", "GITHUB_ACTIONS", "GITHUB_STEP_SUMMARY", "NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    frame = pd.DataFrame(np.random.default_rng(0).normal(size=(6, 3)), columns=["age", "income", "tenure"])
    frame.assign(id=[f"r{i}" for i in range(6)], label=0).to_csv("rows.csv", index=False)
    Path("stabgate_test_explainers.py").write_text(EXPLAINERS, encoding="utf-8")
    Path("stabgate.toml").write_text(CONFIG, encoding="utf-8")
    yield tmp_path
    sys.modules.pop("stabgate_test_explainers", None)


def run(capsys, *arguments: str) -> tuple[int, str, str]:
    code = main(["run", *arguments])
    out, err = capsys.readouterr()
    return code, out, err


def test_a_configuration_from_a_shell(project):
    """Everything at once, as a pipeline has it: table, JSON, Markdown, JUnit, annotations, exit code."""
    outputs = [f"--{kind}=out/{kind}" for kind in ("json", "markdown", "junit")]
    env = {**os.environ, "GITHUB_ACTIONS": "true", "GITHUB_STEP_SUMMARY": "summary.md", "PYTHONUTF8": "1"}
    command = [sys.executable, "-m", "stabgate.cli", "run", *outputs]
    done = subprocess.run(command, capture_output=True, text=True, env=env, timeout=120)
    assert done.returncode == 1, done.stderr
    lines = done.stdout.splitlines()
    assert lines[:3] == [
        "FAIL credit/shaky: 0 of 6 rows meet k >= 3, 6 are needed (90 %)",
        "NOT MEASURED credit/steady: there is no baseline 'credit/steady' in stabgate-baselines; create it with: "
        'stabgate run credit/steady --json=results.json; stabgate accept results.json credit/steady --reason="first"',
        "NOT MEASURED credit/raises: 6 of 6 rows were not measured and count as not met",
    ]
    assert "4 gates: 1 FAIL, 2 NOT MEASURED, 1 PASS" in lines
    assert "::error title=stabgate%3A FAIL%3A credit/shaky::credit/shaky: 0 of 6 rows meet" in done.stdout
    report = SessionReport.load("out/json")
    assert report.complete
    assert next((gate.name, gate.kind, str(gate.outcome)) for gate in report.gates) == (
        "credit/shaky",
        "k-stability",
        "FAIL",
    )
    assert next(g for g in report.gates if g.name == "credit/steady" and g.verdict).record["rows"][0]["id"] == "r0"
    assert Path("out/markdown").read_text(encoding="utf-8").startswith("## ❌ stabgate: 3 of 4 gates do not pass")
    assert Path("summary.md").read_text(encoding="utf-8").startswith("## ❌ stabgate: 3 of 4 gates do not pass")
    suite = ET.parse("out/junit").getroot()[0]
    assert {name: suite.get(name) for name in ("tests", "failures", "errors")} == {
        "tests": "4",
        "failures": "1",
        "errors": "2",
    }
    cases = {(case.get("classname"), case.get("name")): case for case in suite}
    assert len(cases) == 4
    shaky = cases["stabgate.k-stability", "credit/shaky"]
    found = {entry.get("name"): entry.get("value") for entry in shaky.iter("property")}
    assert float(found["stabgate.credit/shaky.estimate"]) == 0.0
    assert int(found["stabgate.credit/shaky.instances"]) == 6
    assert "replay: stabgate run credit/shaky" in shaky.find("failure").text


def test_why_rows_were_not_measured_and_which_are_worst(project, capsys):
    _, out, _ = run(capsys, "credit/raises")
    assert re.search(r"^    row 'r0' not measured: .*no licence", out, re.M)
    assert out.count("no licence") == 1
    _, out, _ = run(capsys, "-v")
    assert out.count("no licence") == 5
    assert re.search(r"^      row 'r\d': k = \d: 'age' and 'income' cannot be told apart", out, re.M)
    assert "reason: " not in out


FLAGS = ["--explainer=stabgate_test_explainers:shaky", "--data=rows.csv", "--drop=label", "-k", "3"]
FLAGS += ["--share=0.5", "--threshold=0.95"]
LIME = ["--explainer=lime", "--set=num_samples=70", "--set=discretize_continuous=false", "--target=0", "-k", "3"]
LIME += ["--model=stabgate_test_model:model", "--data=the rows.csv", "--index=id", "--background-rows=5"]


@pytest.mark.parametrize(
    ("given", "printed"),
    [
        ([*FLAGS, "--name=my gate", "--rows=r1,r3", "--seed=3"], "stabgate run '--name=my gate' -k 3 --data=rows.csv"),
        ([*FLAGS, "--config=bare.toml", "--drop=id", "--seed=fresh"], "stabgate run --config=bare.toml -k 3 --data="),
        (["credit/shaky", "--runs=20", "--rows=r1,r3", "--seed=5"], "stabgate run credit/shaky --rows=r1,r3 --runs=20"),
        ([*LIME, "--config=bare.toml", "--rows=r1,r3", "--runs=6"], "stabgate run --config=bare.toml -k 3 --model="),
    ],
)
def test_the_printed_command_gives_the_same_measurement(project, capsys, given, printed):
    if given[0] == "--explainer=lime":
        pytest.importorskip("lime")
        Path("rows.csv").rename("the rows.csv")
        Path("stabgate_test_model.py").write_text(
            "import pandas as pd\nfrom sklearn.linear_model import LinearRegression\n"
            "rows = pd.read_csv('the rows.csv', index_col='id')\n"
            "model = LinearRegression().fit(rows, rows.age)\n",
            encoding="utf-8",
        )
    Path("bare.toml").write_text("", encoding="utf-8")
    _, out, err = run(capsys, *given, "-v", "--json=first.json", "--markdown=first.md")
    command = re.search(r"^ +replay: (.*)$", out, re.M)
    assert command, out + err
    assert command[1].startswith(printed)
    assert not {"--json", "--markdown", "--seed=fresh"} & set(re.split("[ =]", command[1]))
    main([*shlex.split(command[1])[1:], "--json=again.json"])
    first, again = (SessionReport.load(name).gates for name in ("first.json", "again.json"))
    assert [gate.name for gate in first] == [gate.name for gate in again]
    assert first[0].record == again[0].record


@pytest.mark.skipif(os.name != "posix", reason="a shell of POSIX")
def test_the_printed_command_creates_the_baseline(project, capsys):
    flags = ["--explainer=stabgate_test_explainers:steady", "--data=rows.csv", "--drop=label", "--runs=11"]
    for given in (["credit/steady", "--runs=14"], ["--name=credit/own", *flags, "--index=id", "--max-drop=0.2"]):
        _, out, _ = run(capsys, *given)
        command = re.search(r"create it with: (.*)$", out, re.M)
        assert command, out
        script = 'stabgate() { "$PYTHON" -m stabgate.cli "$@"; }; ' + command[1]
        env = {**os.environ, "PYTHON": sys.executable}
        subprocess.run(["sh", "-c", script], env=env, check=True, capture_output=True, timeout=120)
        code, out, _ = run(capsys, *given)
        assert code == 0, out


def test_accepted_baselines_are_compared_with_and_waivers_let_through(project, capsys):
    code, _, _ = run(capsys, "credit/steady", "--json=results.json")
    assert code == 3
    assert main(["accept", "results.json", "--reason", "first"]) == 0
    code, out, _ = run(capsys, "credit/steady", "-v")
    assert code == 0
    assert "2 gates: 2 PASS" in out
    assert "asked: mean k may fall by at most 0.1" in out
    assert run(capsys, "credit/shaky", "-q")[0] == 1
    assert main(["waive", "credit/shaky", "--until", "2999-12-31", "--reason", "known"]) == 0
    code, out, _ = run(capsys, "credit/shaky", "-q")
    assert code == 0
    assert "FAIL (waived until 2999-12-31: known) credit/shaky: 0 of 6 rows" in out
    assert "1 gate: 1 FAIL (1 waived)" in out


def test_exit_codes_of_what_is_not_a_failure(project, capsys):
    assert run(capsys, "credit/raises")[0] == 3
    flags = ["--config=stabgate.toml", "credit/shaky"]
    assert run(capsys, *flags, "--data=other.csv")[0] == 2
    Path("bare.toml").write_text("", encoding="utf-8")
    straddling = [
        "--config=bare.toml",
        "--data=rows.csv",
        "--drop=label",
        "--drop=id",
        "-k",
        "3",
        "--early=off",
        "--runs=3",
    ]
    straddling += ["--explainer=stabgate_test_explainers:between"]
    code, out, _ = run(capsys, *straddling)
    assert code == 3
    assert out.startswith("INCONCLUSIVE stabgate_test_explainers:between: 3 runs have no interval")
    assert run(capsys, *straddling, "--inconclusive=warn")[0] == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["nothing"],
            "there is no gate 'nothing' in stabgate.toml (there: credit/steady, credit/shaky, credit/raises)",
        ),
        (["--runs=1"], "runs='1': it must be an integer of at least 2"),
        (["--config=none.toml"], "there is no such file; stabgate init writes one"),
        (["--set=a=1"], "--set gives a setting to an explainer"),
        (["--inconclusive=pass"], "it must be fail or warn"),
    ],
)
def test_wrong_usage_has_its_own_exit_code_and_says_what_is_wrong(project, capsys, arguments, message):
    code, out, err = run(capsys, *arguments)
    assert code == 2
    assert out == ""
    assert message in err


def test_without_a_configuration_it_says_where_it_looked(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for arguments in ([], ["--runs=10"], ["some/gate"], ["--data=rows.csv"]):
        code, out, err = run(capsys, *arguments)
        assert (code, out) == (2, "")
        assert f"no configuration was found in {tmp_path}: it has no stabgate.toml, and no pyproject.toml" in err
        assert "stabgate init writes one" in err
    assert "explainer is missing" in err


@pytest.mark.parametrize(
    ("rows", "ids"),
    [("r1,r3", ["r1", "r3"]), ("r4", ["r4"]), ('["r0", "r2"]', ["r0", "r2"]), ("2", None), ("sample", None)],
)
def test_rows_are_ids_a_number_or_a_sample(project, capsys, rows, ids):
    code, out, err = run(capsys, "credit/shaky", f"--rows={rows}", "--json=r.json")
    assert code == 1, out + err
    measured = [row["id"] for row in SessionReport.load("r.json").gates[0].record["rows"]]
    assert measured == ids or (ids is None and len(measured) == {"2": 2, "sample": 6}[rows])


def test_rows_of_an_index_of_numbers_and_ids_that_are_not_there(project, capsys):
    text = CONFIG.replace('drop = "label"\nindex = "id"', 'drop = ["label", "id"]')
    Path("stabgate.toml").write_text(text, encoding="utf-8")
    assert run(capsys, "credit/shaky", "--rows=3,5", "--json=r.json")[0] == 1
    assert [row["id"] for row in SessionReport.load("r.json").gates[0].record["rows"]] == ["3", "5"]
    code, out, _ = run(capsys, "credit/shaky", "--rows=c1")
    assert code == 2
    assert "rows names 'c1', which is not among the 6 row ids of X (the first: 0, 1, 2)" in out


def test_columns_that_the_model_does_not_know_are_wrong_usage(project, capsys):
    Path("stabgate_test_explainers.py").write_text(
        "import pandas as pd\nfrom sklearn.linear_model import LinearRegression\n"
        "def model():\n    rows = pd.read_csv('rows.csv')[['age', 'income', 'tenure']]\n"
        "    return LinearRegression().fit(rows, rows.age)\n",
        encoding="utf-8",
    )
    flags = ["--name=lime", "--model=stabgate_test_explainers:model", "--explainer=lime", "-k", "2", "--drop=label"]
    Path("stabgate.toml").write_text('[tool.stabgate]\ndata = "rows.csv"\n', encoding="utf-8")
    code, out, _ = run(capsys, *flags)
    assert code == 2
    assert "data = 'rows.csv': it has column 'id', which the model was not fitted on: drop takes columns out" in out


def python(*arguments: str, stdout: int) -> tuple[int, str]:
    command = [sys.executable, "-m", "stabgate.cli", *arguments]
    done = subprocess.run(command, stdout=stdout, stderr=subprocess.PIPE, text=True, timeout=120)
    return done.returncode, done.stderr


@pytest.mark.skipif(os.name != "posix", reason="pipes of POSIX")
@pytest.mark.parametrize(
    ("arguments", "code"), [(("doctor",), 0), (("run", "--help"), 0), (("run", "credit/shaky", "--json=r.json"), 1)]
)
def test_a_reader_that_went_changes_no_exit_code(project, arguments, code):
    read, write = os.pipe()
    os.close(read)
    try:
        assert python(*arguments, stdout=write) == (code, "")
    finally:
        os.close(write)
    assert Path("r.json").exists() == ("--json=r.json" in arguments)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
@pytest.mark.parametrize("arguments", [("--help",), ("run", "credit/shaky")])
def test_a_full_disk_is_said_in_one_line(project, arguments):
    with open("/dev/full", "w") as full:
        code, err = python(*arguments, stdout=full.fileno())
    assert code == 2
    assert err == "stabgate: standard output cannot be written to (No space left on device)\n"


def test_a_gate_that_cannot_be_measured_as_written_does_not_stop_others(project, capsys):
    text = CONFIG.replace('drop = "label"', 'drop = "labl"', 1)
    Path("stabgate.toml").write_text(
        text + '\n[tool.stabgate.gates.own]\ndata = "rows.csv"\ndrop = ["label"]\n'
        'explainer = "stabgate_test_explainers:steady"\nk = 9\n'
        '[tool.stabgate.gates.good]\ndata = "rows.csv"\ndrop = ["label"]\n'
        'explainer = "stabgate_test_explainers:steady"\nk = 3\n',
        encoding="utf-8",
    )
    code, out, _ = run(capsys)
    assert code == 2
    assert "drop names the column 'labl', which is not in it; did you mean 'label'?" in out
    assert "NOT MEASURED own: k=9 asks for more than the 3 features there are" in out
    assert "6 gates: 5 NOT MEASURED, 1 PASS" in out


def test_images_of_a_folder(project, capsys):
    pytest.importorskip("torch")
    from PIL import Image

    Path("photos").mkdir()
    for i in range(6):
        pixels = np.random.default_rng(i).integers(0, 255, (16, 16, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(f"photos/{i}.png")
    Path("stabgate_test_nets.py").write_text(
        "import torch\n"
        "def net():\n"
        "    torch.manual_seed(0)\n"
        "    return torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3, padding=1), torch.nn.ReLU(), torch.nn.Flatten(),\n"
        "                               torch.nn.Linear(1024, 3)).eval()\n",
        encoding="utf-8",
    )
    Path("stabgate.toml").unlink()
    flags = ["--model=stabgate_test_nets:net", "--data=photos", "--explainer=captum", '--set=method="saliency"']
    code, out, err = run(
        capsys, *flags, "--score=0.01", "--perturbations=brightness", "--name=photos/saliency", "--json=r.json"
    )
    assert code in (0, 3), out + err
    gate = SessionReport.load("r.json").gates[0]
    assert gate.kind == "FASS"
    assert {pair["image"] for pair in gate.record["pairs"]} == {f"{i}.png" for i in range(6)}


def test_compare_says_what_fell_and_what_cannot_be_compared(project, capsys):
    assert run(capsys, "--json=a.json")[0] == 1
    module = Path("stabgate_test_explainers.py")
    module.write_text(EXPLAINERS.replace("_noisy(0.01)", "_noisy(3.0)"), encoding="utf-8")
    del sys.modules["stabgate_test_explainers"]
    text = CONFIG.replace("runs = 12", "runs = 12\nearly = 'off'")
    Path("stabgate.toml").write_text(
        text.replace('[tool.stabgate.gates."credit/raises"]\n', "[tool.stabgate.gates.new]\n")
    )
    run(capsys, "--json=b.json")
    assert main(["compare", "a.json", "a.json", "--max-drop=0.1"]) == 3  # credit/raises was measured in neither
    out = capsys.readouterr().out
    assert re.search(r"^credit/steady +mean k +3 +3 +0 +- +as before$", out, re.M)
    assert main(["compare", "a.json", "b.json"]) == 0
    out = capsys.readouterr().out
    assert re.search(r"^credit/steady +mean k +3 +1\S* +-\S+ +\S+ +fell$", out, re.M)
    assert re.search(r"^credit/shaky .* not comparable$", out, re.M)
    assert re.search(r"^  credit/shaky: .*12.*10", out, re.M)  # it ended early in one of them
    assert re.search(r"^new .* only in B$", out, re.M)
    assert re.search(r"^credit/raises .* only in A$", out, re.M)
    assert main(["compare", "a.json", "b.json", "--max-drop=0.1"]) == 1
    assert "FAIL: fell by more than allowed" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        main(["compare", "a.json"])
    assert main(["compare", "a.json", "none.json"]) == 2
    assert "none.json: cannot be read" in capsys.readouterr().err


def test_doctor_says_what_is_there_and_what_extras_add(project, capsys):
    assert main(["doctor"]) == 0
    out = capsys.readouterr().out
    assert re.search(r"^  stabgate \d", out, re.M)
    assert re.search(r"^  numpy \d", out, re.M)
    assert "configuration: stabgate.toml, 3 gates" in out
    assert re.search(r"baselines: .*stabgate-baselines, files: 0, waivers: 0", out)
    assert "cache: off (STABGATE_CACHE=off)" in out
    assert "plugin: registered as pytest_stabgate.plugin, loaded by pytest" in out
    for extra in ("shap", "lime", "dice", "torch", "mlflow", "report"):
        assert re.search(rf"^  \[{extra}\] ", out, re.M)


def test_doctor_works_with_nothing_but_the_core(project):
    """Everything that the extras bring is hidden; what is missing is named with the command that brings it."""
    code = (
        "import sys, importlib.metadata as m; "
        "hidden = {'shap', 'lime', 'dice-ml', 'pandas', 'scikit-learn', 'torch', 'captum', 'kornia', 'pillow'}; "
        "old = m.version; "
        "exec('def version(name):\\n if name in hidden: raise m.PackageNotFoundError(name)\\n return old(name)'); "
        "m.version = version; from stabgate.cli import main; code = main(['doctor']); "
        "print(sorted({'torch', 'pandas', 'sklearn', 'shap', 'mlflow'} & set(sys.modules))); sys.exit(code)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert "[lime] missing lime, pandas, scikit-learn: explainers.Lime" in done.stdout
    assert "pip install 'stabgate[torch]'" in done.stdout
    assert "GPU: unknown without torch" in done.stdout
    assert done.stdout.splitlines()[-1] == "[]"


def test_init_writes_what_passes_as_written_and_never_overwrites(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("gate").mkdir()
    Path("gate/stabgate.toml").write_text("mine", encoding="utf-8")
    assert main(["init", "gate"]) == 0
    assert "exists, left as it is: gate/stabgate.toml" in capsys.readouterr().out
    assert Path("gate/stabgate.toml").read_text(encoding="utf-8") == "mine"
    Path("gate/stabgate.toml").unlink()
    assert main(["init", "gate"]) == 0
    assert capsys.readouterr().out.count("written: ") == 1
    env = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST")}
    for command in (["-m", "pytest", "-q", "-p", "no:cacheprovider"], ["-m", "stabgate.cli", "run", "-q"]):
        done = subprocess.run(
            [sys.executable, *command], capture_output=True, text=True, cwd="gate", env=env, timeout=200
        )
        assert done.returncode == 0, done.stdout + done.stderr
        assert "1 gate: 1 PASS" in done.stdout
    assert main(["init", "gate/stabgate.toml"]) == 2


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_with_examples(command, capsys):
    with pytest.raises(SystemExit) as caught:
        main([command, "--help"])
    assert caught.value.code == 0
    out = capsys.readouterr().out
    assert "usage: stabgate" in out
    assert "example" in out
