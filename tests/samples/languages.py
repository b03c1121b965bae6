"""Runs the code samples in each installed language."""

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

SAMPLES = Path(__file__).parents[2] / "manilla" / "reference" / "samples"

# Maps each program that a sample needs to its Debian package.
PACKAGES = {
    "curl": "curl",
    "openssl": "openssl",
    "php": "php-cli",
    "node": "nodejs",
    "npm": "npm",
    "go": "golang-go (1.22 or newer)",
    "javac": "default-jdk-headless",
}
# Maps each language to the required program and the suffix of its sample files.
LANGUAGES = {
    "curl": ("curl", ".sh"),
    "python": (sys.executable, ".py"),
    "python-client": (sys.executable, ".py"),
    "php": ("php", ".php"),
    "node": ("node", ".mjs"),
    "go": ("go", ".go"),
    "java": ("javac", ".java"),
}


def java_class(sample: str) -> str:
    return sample.title().replace("_", "")


def file(language: str, sample: str) -> Path:
    name = java_class(sample) if language == "java" else sample
    return SAMPLES / language / (name + LANGUAGES[language][1])


def programs(factory: pytest.TempPathFactory) -> Path:
    """Returns the folder with compiled samples, which all test modules share."""
    folder = factory.getbasetemp() / "programs"
    folder.mkdir(exist_ok=True)
    return folder


def skip_without(program: str) -> None:
    if shutil.which(program) is None:
        pytest.skip(f"{program} is not installed; Debian's package is {PACKAGES[program]}")


class Runner:
    """Runs the samples of one language. A sample in a compiled language is compiled once."""

    def __init__(self, language: str, folder: Path) -> None:
        skip_without(LANGUAGES[language][0])
        if language == "curl":
            skip_without("openssl")
        self.language = language
        self._folder = folder

    def run(
        self, sample: str, *words: str, **environment: str
    ) -> "subprocess.CompletedProcess[bytes]":
        return subprocess.run(
            [*self._command(sample), *words],
            capture_output=True,
            check=False,
            timeout=120,
            env={**os.environ, "LC_ALL": "C.UTF-8", **environment},
        )

    def _command(self, sample: str) -> list[str]:
        path = str(file(self.language, sample))
        match self.language:
            case "curl":
                return ["sh", path]
            case "go":
                return [self._compiled(sample, "go", "build", "-o", self._output(sample), path)]
            case "java":
                self._compiled(
                    java_class(sample) + ".class", "javac", "-d", str(self._folder), path
                )
                # These options shorten the JVM's startup, the longest part of a short program.
                quick = ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]
                return ["java", *quick, "-cp", str(self._folder), java_class(sample)]
            case _:
                return [LANGUAGES[self.language][0], path]

    def _compiled(self, result: str, *command: str) -> str:
        if not (self._folder / result).exists():
            subprocess.run(command, check=True, timeout=300, env=self._alone())
        return self._output(result)

    def _output(self, name: str) -> str:
        return str(self._folder / name)

    def _alone(self) -> Mapping[str, str]:
        """Returns environment variables that prevent Go from using the network."""
        return {**os.environ, "GOTOOLCHAIN": "local", "GOPROXY": "off", "GOFLAGS": "-mod=mod"}
