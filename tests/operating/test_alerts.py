"""Each alert fires when its condition holds for long enough, and not before."""

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]

from tests.operating.alert_cases import CASES, AlertCase

RULES = "deploy/prometheus/alerts.yml"
LABEL = re.compile(r"\{\{ \$labels\.(\w+) \}\}")
VALUE = re.compile(r"\{\{ \$value( \| \w+)? \}\}")


def skip_without_promtool() -> None:
    if shutil.which("promtool") is None:
        pytest.skip("promtool is not installed; Debian's package is prometheus")


def rules(project: Path) -> dict[str, dict[str, Any]]:
    groups = yaml.safe_load((project / RULES).read_text())["groups"]
    return {rule["alert"]: rule for group in groups for rule in group["rules"]}


def test_each_alert_has_a_case(project: Path) -> None:
    assert {case.alert for case in CASES} == set(rules(project))


@pytest.mark.long
def test_each_alert_fires_when_its_condition_holds_for_long_enough(
    project: Path, tmp_path: Path
) -> None:
    skip_without_promtool()
    known = rules(project)
    run(project, tmp_path, [unit_test(case, known[case.alert]) for case in CASES])


def run(project: Path, folder: Path, tests: list[dict[str, Any]]) -> None:
    file = folder / "cases.json"  # JSON is valid YAML
    file.write_text(json.dumps({"rule_files": [str(project / RULES)], "tests": tests}))
    done = subprocess.run(
        ["promtool", "test", "rules", file], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def unit_test(case: AlertCase, rule: dict[str, Any]) -> dict[str, Any]:
    firing = {
        "exp_labels": {**case.labels, **rule["labels"]},
        "exp_annotations": {
            name: rendered(text, case) for name, text in rule["annotations"].items()
        },
    }
    return {
        "name": case.alert,
        "interval": "1m",
        "input_series": [
            {"series": name, "values": values} for name, values in case.series.items()
        ],
        "alert_rule_test": [
            {"alertname": case.alert, "eval_time": f"{case.quiet_at}m", "exp_alerts": []},
            {"alertname": case.alert, "eval_time": f"{case.fires_at}m", "exp_alerts": [firing]},
        ],
    }


def rendered(text: str, case: AlertCase) -> str:
    return VALUE.sub(case.value, LABEL.sub(lambda found: case.labels[found[1]], text))


@pytest.mark.long
@pytest.mark.parametrize(
    "alert", ["NotReconciled", "BooksNotProved", "NoWorker", "ApiDown"], ids=str
)
def test_an_alert_about_a_missing_event_fires_without_any_series(
    project: Path, tmp_path: Path, alert: str
) -> None:
    skip_without_promtool()
    rule = rules(project)[alert]
    case = AlertCase(alert, {"another_metric": f"0x{10 * 60}"}, 0, 9 * 60)
    labels = {"job": "manilla"} if alert == "ApiDown" else {}
    test = unit_test(case, {**rule, "annotations": {}})
    [_, firing] = test["alert_rule_test"]
    firing["exp_alerts"][0] = {
        "exp_labels": {**labels, **rule["labels"]},
        "exp_annotations": {
            name: LABEL.sub("", text) for name, text in rule["annotations"].items()
        },
    }
    run(project, tmp_path, [test])
