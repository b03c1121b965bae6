"""The operating manual matches the code: tables, metrics, case kinds, commands and units.

Links in all documents lead somewhere. Decision records are short, and the index lists all of them.
"""

import ast
import importlib
import json
import operator
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml  # type: ignore[import-untyped]

from manilla.beneficiaries import beneficiary
from manilla.cases.cases import CaseKind
from manilla.cells.maps import Proxy
from manilla.cli.main import build
from manilla.console import routes as console
from manilla.dashboard import routes as dashboard
from manilla.variables import VARIABLES
from tests.cells import proxies
from tests.operating import tables
from tests.operating.tables import MADE, Made
from tests.support.certificates import Certificate
from tools import package_map

FOREIGN = {"up"}  # Prometheus's own metrics
NAME = re.compile(r"\b[a-z_]+_[a-z_]+\b|\bup\b")
QUERY_WORDS = re.compile(
    r"\{[^}]*\}|\b(by|without) \([^)]*\)|\[\d+[smhd]\]|\bhistogram_quantile\b|\bgroup_left\b",
    re.DOTALL,
)
OPERATING = "docs/operating"
DECISIONS = "docs/decisions"
ELSEWHERE = {"reference", "client"}  # code that merchants run


# `manilla up` prints these variables, which only the clients read.
OF_CLIENTS = {"MANILLA_URL", "MANILLA_MERCHANT_KEY", "MANILLA_API_KEY", "MANILLA_API_SECRET"}


def documents(project: Path) -> list[Path]:
    return sorted((project / OPERATING).glob("*.md"))


@pytest.mark.parametrize("made", MADE, ids=lambda made: made.name)
def test_generated_tables_match_the_code(project: Path, made: Made) -> None:
    text = (project / made.file).read_text()
    assert text == made.written_into(text), "run `make docs`"


def test_every_environment_variable_is_documented_and_no_other(project: Path) -> None:
    read: set[str] = set()
    for file in (project / "manilla").rglob("*.py"):
        if not ELSEWHERE & set(file.parts) and file.name != "variables.py":
            read |= set(_variables(file.read_text()))
    assert read - OF_CLIENTS == {variable.name for variable in VARIABLES}


def _variables(source: str) -> Iterator[str]:
    if "MANILLA_" not in source and "PROMETHEUS_" not in source:
        return
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield from re.findall(r"^(?:MANILLA|PROMETHEUS)_[A-Z_]*[A-Z]$", node.value)


def alerts(project: Path) -> list[dict[str, Any]]:
    rules = yaml.safe_load((project / "deploy/prometheus/alerts.yml").read_text())
    return [rule for group in rules["groups"] for rule in group["rules"]]


def queries(project: Path) -> Iterator[str]:
    yield from (rule["expr"] for rule in alerts(project))
    dashboard = json.loads((project / "deploy/grafana/manilla.json").read_text())
    for panel in dashboard["panels"]:
        yield from (target["expr"] for target in panel.get("targets", ()))


def test_every_queried_metric_exists(project: Path) -> None:
    asked = {
        name for query in queries(project) for name in NAME.findall(QUERY_WORDS.sub(" ", query))
    }
    assert asked - FOREIGN <= tables.exposed()
    assert len(asked) > 15


def test_every_metric_is_on_the_dashboard_or_alerted_on(project: Path) -> None:
    text = " ".join(queries(project))
    assert [each._name for each in tables.collectors() if each._name not in text] == []


def test_every_queried_label_exists(project: Path) -> None:
    labels = {label for each in tables.collectors() for label in each._labelnames}
    for query in queries(project):
        asked = re.findall(r"by \(([^)]*)\)", query)
        named = {label.strip() for group in asked for label in group.split(",")}
        named |= set(re.findall(r"[{,]\s*(\w+)\s*[=!]", query))
        assert named <= labels | {"le", "job"}, query


def test_every_kind_of_case_has_a_section_in_the_manual(project: Path) -> None:
    text = (project / OPERATING / "incidents.md").read_text()
    cases = text[text.index("# Cases") :]
    assert re.findall(r"^### (\w+)$", cases, re.MULTILINE) == [kind.value for kind in CaseKind]


def test_every_alert_is_documented_and_links_to_an_existing_section(project: Path) -> None:
    explained = (project / OPERATING / "monitoring.md").read_text()
    for rule in alerts(project):
        assert f"`{rule['alert']}`" in explained
        file, _, anchor = rule["annotations"]["guide"].partition("#")
        assert anchor in _anchors(project / file), rule["alert"]


def test_an_absence_alert_fires_even_if_the_event_never_happened(project: Path) -> None:
    """A comparison with a metric that does not exist yet has no result, so it fires no alert."""
    about_times = [rule for rule in alerts(project) if "time()" in rule["expr"]]
    assert len(about_times) >= 3
    for rule in about_times:
        assert "absent(" in rule["expr"], rule["alert"]


def test_every_link_in_a_document_resolves(project: Path) -> None:
    folders = ("", "docs/**/", "clients/*/", "manilla/reference/samples/")
    for document in (file for folder in folders for file in project.glob(f"{folder}*.md")):
        for target in re.findall(r"\]\((?!https?://)([^)\s]+)\)", document.read_text()):
            file, _, anchor = target.partition("#")
            found = (document.parent / file).resolve() if file else document
            assert found.exists(), f"{document.name}: {target}"
            assert not anchor or anchor in _anchors(found), f"{document.name}: {target}"


def test_a_decision_record_has_at_most_500_words(project: Path) -> None:
    records = sorted((project / DECISIONS).glob("0*.md"))
    assert len(records) > 80
    words = {record.name: len(record.read_text().split()) for record in records}
    assert {name: number for name, number in words.items() if number > 500} == {}


def test_the_index_of_decision_records_has_every_title(project: Path) -> None:
    index = (project / DECISIONS / "README.md").read_text()
    for record in (project / DECISIONS).glob("0*.md"):
        number, title = record.read_text().splitlines()[0].removeprefix("# ").split(". ", 1)
        assert record.name.startswith(f"{int(number):04}-")
        assert f"| [{int(number):04}]({record.name}) | {title} |" in index


def _anchors(file: Path) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", file.read_text(), re.MULTILINE)
    bare = [re.sub(r"[^\w\- ]", "", re.sub(r"[`*]", "", each).lower()) for each in headings]
    return {each.replace(" ", "-") for each in bare}


def test_every_command_in_the_manual_exists_with_its_options(project: Path) -> None:
    spoken = re.compile(r"(?:`|\$ |bin/|^)manilla ([a-z][^`|\n]*)", re.MULTILINE)
    said = [
        (doc.name, line) for doc in documents(project) for line in spoken.findall(doc.read_text())
    ]
    assert len(said) > 80
    root = typer.main.get_command(build())
    for document, line in said:
        command: Any = root
        words = line.split()
        while words and getattr(command, "commands", None):
            assert words[0] in command.commands, f"{document}: manilla {line}"
            command = command.commands[words.pop(0)]
        known = {flag for each in command.params for flag in (*each.opts, *each.secondary_opts)}
        options = set(re.findall(r"(--[a-z][a-z-]+)", " ".join(words)))
        assert options <= known | {"--help"}, f"{document}: manilla {line}"


def test_the_shell_scripts_pass_shellcheck(project: Path) -> None:
    for script in sorted((project / "deploy").rglob("*.sh")):
        # Scripts that other scripts source have no interpreter line and are not executable.
        assert bool(script.stat().st_mode & 0o111) is script.read_text().startswith("#!")
        subprocess.run(["sh", "-n", script], check=True)


def test_the_manuals_command_loads_the_whole_environment_file(
    project: Path, tmp_path: Path
) -> None:
    """A shell that sources the file would cut off a value at its first ampersand or space."""
    example = (project / "deploy/systemd/manilla.env.example").read_text()
    example = example.replace("\n#MANILLA_", "\nMANILLA_")
    (tmp_path / "manilla.env").write_text(example)
    manual = (project / OPERATING / "installing.md").read_text()
    (line,) = re.findall(r"^while .*/etc/manilla/manilla\.env.*$", manual, re.MULTILINE)
    line = line.replace("/etc/manilla/manilla.env", str(tmp_path / "manilla.env"))
    # The variable PATH is for `grep` and `env`.
    command = ["env", "-i", "PATH=/usr/bin:/bin", "bash", "-c", f"{line}; env"]
    taken = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    expected = {each for each in example.splitlines() if each.startswith("MANILLA_")}
    assert "MANILLA_MAIL_FROM=Example Pay <pay@example.com>" in expected
    assert {each for each in taken.splitlines() if each.startswith("MANILLA_")} == expected


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not installed")
def test_systemd_verifies_the_units(project: Path, tmp_path: Path) -> None:
    folder = project / "deploy/systemd"
    for unit in (*folder.glob("*.service"), *folder.glob("*.timer")):
        text = unit.read_text().replace("/opt/manilla/.venv/bin/manilla", "/usr/bin/env")
        (tmp_path / unit.name.replace("@", "@8000")).write_text(text)
    units = sorted(tmp_path.iterdir())
    assert len(units) == 8
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", *units],
        capture_output=True,
        text=True,
        check=False,
    )
    ours = [line for line in done.stderr.splitlines() if str(tmp_path) in line]
    assert (done.returncode, ours) == (0, [])


def test_a_unit_can_access_only_the_network_and_its_own_directory(project: Path) -> None:
    for unit in (project / "deploy/systemd").glob("*.service"):
        text = unit.read_text()
        for line in ("NoNewPrivileges=yes", "ProtectSystem=strict", "User=manilla", "LimitCORE=0"):
            assert line in text, unit.name


def test_the_proxies_accept_the_largest_upload(project: Path) -> None:
    routes = (*console.ROUTES, *dashboard.ROUTES)
    largest = max(route.body_bytes_max for route in routes)
    nginx = (project / "deploy/proxy/nginx.conf").read_text()
    caddy = (project / "deploy/proxy/Caddyfile").read_text()
    [mebibytes] = re.findall(r"client_max_body_size +([0-9]+)m;", nginx)
    [megabytes] = re.findall(r"max_size ([0-9]+)MB", caddy)
    assert min(int(mebibytes) * 1024**2, int(megabytes) * 1000**2) >= largest
    assert f"Allow {mebibytes} MiB" in (project / OPERATING / "installing.md").read_text()


def test_nginx_accepts_the_example_configuration(project: Path, tmp_path: Path) -> None:
    if proxies.is_missing(Proxy.NGINX):
        pytest.skip("nginx is not installed; Debian's package is nginx")
    certificate = Certificate(tmp_path).file
    text = (project / "deploy/proxy/nginx.conf").read_text()
    for name in ("fullchain.pem", "privkey.pem"):
        text = text.replace(f"/etc/ssl/manilla/{name}", str(certificate))
    config = tmp_path / "nginx.conf"
    config.write_text(proxies.NGINX_MAIN.format(folder=tmp_path, cells=text))
    subprocess.run([*proxies.CHECKS[Proxy.NGINX], str(config)], check=True)


def test_the_tour_names_buttons_that_exist_and_an_account_without_a_warning(project: Path) -> None:
    readme = (project / "README.md").read_text()
    tour = readme.partition("## Five-minute tour")[2].partition("\n## ")[0]
    folder = project / "manilla/dashboard/templates"
    pages = "".join(page.read_text() for page in folder.glob("*.html"))
    names = set(re.findall(r"(?<!\*)\*([A-Z][^*]+)\*(?!\*)", tour))
    assert {"New payout", "Review payout", "Pay"} <= names
    # This text is the name of a payout method and not of a button.
    for name in names - {"Provider A bank transfer"}:
        assert re.search(rf"[ >]{name}[ <]", pages), f"no page has the button {name}"
    [account] = re.findall(r"account `(\d{10})`", tour)
    assert beneficiary.check_digit_fits("058", account)


def test_the_proxies_redirect_only_pages_to_tls(project: Path) -> None:
    """A redirected API call would already have sent its keys without TLS."""
    nginx = (project / "deploy/proxy/nginx.conf").read_text()
    [plain] = re.findall(r"listen 80;.*?\n}", nginx, re.DOTALL)
    assert "location /api/ { return 403; }" in plain
    assert "location /webhooks/ { return 403; }" in plain
    caddy = (project / "deploy/proxy/Caddyfile").read_text()
    [plain] = re.findall(r"^http://.*?\n}", caddy, re.DOTALL | re.MULTILINE)
    assert "@programs path /api/* /webhooks/*" in plain
    for proxy in (nginx, caddy):
        assert '"max-age=31536000; includeSubDomains"' in proxy


def test_every_function_in_the_architecture_exists(project: Path) -> None:
    text = (project / "ARCHITECTURE.md").read_text()
    named = re.findall(r"`([a-z_/]+)\.py: ([\w.]+)`", text)
    walk = re.findall(r"^\| (\d+) \| `[a-z_/]+\.py: [\w.]+` \| .+\. \|$", text, re.MULTILINE)
    assert [int(number) for number in walk] == list(range(1, 11))
    assert len(named) > len(walk)
    for file, function in named:
        module = importlib.import_module(f"manilla.{file.replace('/', '.')}")
        assert callable(operator.attrgetter(function)(module)), f"{file}: {function}"


def test_the_architecture_has_each_package_in_the_layer_of_the_picture(project: Path) -> None:
    text = (project / "ARCHITECTURE.md").read_text()
    [table] = re.findall(
        r"^\| Layer \| Packages \|\n\|---\|---\|\n((?:\|.*\n)+)", text, re.MULTILINE
    )
    described: dict[str, list[str]] = {}
    name = ""
    for line in table.splitlines():
        name, packages = line.strip("| ").split(" | ")
        described[name] = re.findall(r"`([a-z_]+)(?:/|\.py)`:", packages)
    drawn: dict[str, list[str]] = {}
    for first, *others in package_map.rows():
        name = package_map.LAYERS.get(first, name)
        drawn.setdefault(name, []).extend((first, *others))
    assert described == drawn
