"""Copies PostgreSQL's binaries to a folder that the server's operating system account can read.

All instances on a machine share one cache folder. A lock on the cache serializes copying and
removing. Each process holds a shared lock on every copy that it uses until it exits, so that no
other process removes the copy.
"""

import fcntl
import hashlib
import os
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import structlog

log = structlog.get_logger(__name__)

DEFAULT_CACHE = Path("/var/cache/manilla")
SKIPPED = ("include", "doc", "man", "__pycache__")
LOCK = "lock"
PREFIX, STAGING_PREFIX = "postgresql-", ".staging-"

_held: dict[Path, int] = {}  # file descriptors of the shared locks that this process holds


def readable_copy(
    installation: Path, cache: Path | None, runs: Callable[[Path], bool]
) -> Path | None:
    """Returns the `bin` folder of a copy that `runs` accepts, or None if no copy can be created.

    If the cache folder cannot be used, the copy is created in the folder for temporary files.
    """
    for folder in (cache or DEFAULT_CACHE, Path(tempfile.gettempdir()) / "manilla-postgresql"):
        try:
            binaries = _copy_in(folder, installation, runs)
        except OSError as error:
            log.warning("postgres_cache_unusable", folder=str(folder), error=str(error))
            continue
        if runs(binaries):
            return binaries
        log.warning("postgres_copy_does_not_run", folder=str(folder))
    return None


def is_readable(installation: Path) -> bool:
    """Returns True if every account can read the installation's files, not only run its programs.

    If the umask was restrictive during the installation, other accounts may be able to run programs
    but not to read the data files next to them.
    """
    for top in (installation, _libraries(installation)):
        for folder, folders, files in os.walk(top):
            folders[:] = set(folders) - set(SKIPPED)
            needed = {**dict.fromkeys(files, 0o4), **dict.fromkeys(folders, 0o5)}
            for name, bits in needed.items():
                if (Path(folder) / name).lstat().st_mode & bits != bits:
                    return False
    return True


def _copy_in(cache: Path, installation: Path, runs: Callable[[Path], bool]) -> Path:
    copy = cache / f"{PREFIX}{_digest(installation)}"
    binaries = copy / installation.parent.name / installation.name / "bin"
    with _locked_cache(cache):
        if copy.exists() and not runs(binaries):
            _remove_unless_used(copy)
        if not copy.exists():
            _copy(installation, copy)
        _hold(copy)
        for other in set(cache.glob(f"{PREFIX}*")) - {copy}:
            _remove_unless_used(other)
    return binaries


@contextmanager
def _locked_cache(cache: Path) -> Iterator[None]:
    _ensure_ours(cache)
    descriptor = _open_lock(cache)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        # Delete incomplete copies left by a process that died.
        for leftover in cache.glob(f"{STAGING_PREFIX}*"):
            shutil.rmtree(leftover, ignore_errors=True)
        yield
    finally:
        os.close(descriptor)


def _ensure_ours(cache: Path) -> None:
    """Ensures that only our account can write to the folder, because we run programs from the
    folder.
    """
    for folder in (*reversed(cache.parents), cache):
        if not folder.exists():
            with suppress(FileExistsError):
                folder.mkdir()
                folder.chmod(0o755)  # regardless of the umask
    status = cache.lstat()
    is_writable_by_others = bool(stat.S_IMODE(status.st_mode) & 0o022)
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid() or is_writable_by_others:
        raise PermissionError(f"{cache} must be a folder that only its owner can write to")


def _digest(installation: Path) -> str:
    """Returns a hash of the names and contents of the installation's files."""
    digest = hashlib.sha256()
    for top in (installation, _libraries(installation)):
        for folder, folders, files in os.walk(top):
            folders[:] = sorted(set(folders) - set(SKIPPED))
            for name in sorted(files):
                file = Path(folder) / name
                content = os.readlink(file).encode() if file.is_symlink() else file.read_bytes()
                digest.update(f"{file.relative_to(top)}\0{len(content)}\0".encode())
                digest.update(content)
    return digest.hexdigest()[:32]


def _libraries(installation: Path) -> Path:
    """Returns the folder next to the wheel's package in which the linker looks for libpq."""
    return installation.parent.with_name(installation.parent.name + ".libs")


def _copy(installation: Path, copy: Path) -> None:
    staging = Path(tempfile.mkdtemp(dir=copy.parent, prefix=STAGING_PREFIX))
    skipped = shutil.ignore_patterns(*SKIPPED)
    package = staging / installation.parent.name
    shutil.copytree(installation, package / installation.name, ignore=skipped, symlinks=True)
    libraries = _libraries(installation)
    if libraries.exists():
        shutil.copytree(libraries, staging / libraries.name, symlinks=True)
    _let_everybody_read(staging)
    staging.rename(copy)


def _let_everybody_read(top: Path) -> None:
    """Makes the copied files readable for all accounts, whatever the umask was at installation."""
    for path in (top, *top.rglob("*")):
        if not path.is_symlink():
            path.chmod(0o755 if path.stat().st_mode & stat.S_IXUSR else 0o644)


def _hold(copy: Path) -> None:
    if copy not in _held:
        descriptor = _open_lock(copy)
        fcntl.flock(descriptor, fcntl.LOCK_SH)
        _held[copy] = descriptor


def _remove_unless_used(copy: Path) -> None:
    descriptor = _open_lock(copy)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if not _has_processes(copy):
            # Rename the copy first, because an interrupted deletion would leave it incomplete.
            doomed = copy.with_name(STAGING_PREFIX + copy.name)
            copy.rename(doomed)
            shutil.rmtree(doomed, ignore_errors=True)
    except BlockingIOError:
        pass
    finally:
        os.close(descriptor)


def _has_processes(copy: Path) -> bool:
    """Returns True if a program from this copy is running.

    A server can outlive the process that started it. In that case, no process holds a lock on the
    copy.
    """
    for program in Path("/proc").glob("[0-9]*/exe"):
        with suppress(OSError):
            if program.readlink().is_relative_to(copy.resolve()):
                return True
    return False


def _open_lock(folder: Path) -> int:
    return os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
