"""Runs on the Hugging Face hub: an address, what is fetched, what is sent. Moves files; what they mean is for others.

    hf://user/name             the newest commit of the branch main
    hf://user/name@revision    a branch, a tag or a commit

huggingface_hub (the extra `hub`) moves the files. Only plain data files that the run's manifest lists are fetched or
sent; what has come is verified, and kept as plain files. No code from the hub is ever run.
"""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from frost import directory
from frost.data.download import cache_folder

KINDS = (".safetensors", ".json", ".csv", ".txt", ".png")    # of files that a run may share
CARD = "README.md"
NAME = r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*"
ADDRESS = re.compile(rf"hf:/{{1,2}}({NAME})(?:@([\w./-]+))?")    # a Path swallows one of the slashes
FILE = re.compile(r"[A-Za-z0-9_][\w.-]*")
COMMIT = re.compile(r"[0-9a-f]{40}")


class Sent(NamedTuple):
    """A commit on the hub."""

    commit: str
    url: str


def is_address(path: Path | str) -> bool:
    """Whether this names a run on the hub and not a folder."""
    return str(path).startswith("hf:/")


def parts(address: Path | str) -> tuple[str, str | None]:
    """The repository and the revision of an address."""
    found = ADDRESS.fullmatch(str(address))
    if found is None or ".." in str(address):
        raise ValueError(f"'{address}' is no address of a run on the hub; write hf://user/name or "
                         "hf://user/name@revision, where the revision is a branch, a tag or a commit.")
    return found[1], found[2]


def check_repository(name: str) -> str:
    """The name of a repository, user/name; anything else is refused."""
    if not re.fullmatch(NAME, name):
        raise ValueError(f"'{name}' is no repository of the hub; name it user/name, without hf:// and revision.")
    return name


def check_files(names: Sequence[str], where: Path | str) -> list[str]:
    """Names from a manifest, and the manifest's own; other kinds of files than plain data are refused."""
    for name in names:
        if not FILE.fullmatch(name) or not name.endswith(KINDS):
            raise ValueError(f"{where} lists '{name}'; a run on the hub holds only files of the kinds "
                             f"{', '.join(KINDS)}.")
    return [*names, directory.MANIFEST]


def library() -> Any:
    """huggingface_hub; where it is missing, what to install."""
    try:
        for part in ("constants", "errors", "utils"):
            import_module(f"huggingface_hub.{part}")
        return import_module("huggingface_hub")
    except ImportError as error:
        raise ValueError("runs on the hub need huggingface_hub: pip install -e '.[hub]' in a clone of frost."
                         ) from error


def fetch(address: Path | str) -> Path:
    """A verified copy of a run, in frost's cache; a commit that is there needs no network.

    The manifest comes first, decides what else is asked for, and vouches for all of it.
    """
    repository, revision = parts(address)
    home = cache_folder() / "hub" / repository.replace("/", "--")
    if COMMIT.fullmatch(revision or "") and _is_whole(home / str(revision)):
        return home / str(revision)
    found = library()

    def snapshot(revision: str | None, names: list[str]) -> Path:
        return Path(found.snapshot_download(repository, revision=revision, allow_patterns=names, library_name="frost"))

    with _explained(found, str(address)), _quiet(found):
        folder = snapshot(revision, [directory.MANIFEST])
        if not COMMIT.fullmatch(folder.name) or not (folder / directory.MANIFEST).is_file():
            raise ValueError(f"{address} is no run of frost: it has no {directory.MANIFEST}; frost push makes one.")
        listed = directory.read_json(folder / directory.MANIFEST).get("files")
        if not isinstance(listed, dict):
            raise ValueError(f"{address} is no run of frost: its {directory.MANIFEST} does not list files.")
        names = check_files([*listed], address)
        snapshot(folder.name, names)    # the same commit, even if the branch moves on
    if not _is_whole(home / folder.name):
        _keep(folder, names, home / folder.name, str(address))
    return home / folder.name


def _is_whole(folder: Path) -> bool:
    """Whether a copy is there and verifies."""
    try:
        return bool(directory.verify(folder, ()))
    except (ValueError, OSError):
        return False


def _keep(snapshot: Path, names: Sequence[str], home: Path, address: str) -> None:
    """Copy a snapshot, which is made of links, to a folder of plain files; only if they are what the manifest says."""
    with directory.explained(home), directory.built_aside(home) as building:
        for name in names:
            if (snapshot / name).is_file():
                shutil.copyfile(snapshot / name, building / name)
        try:
            directory.verify(building, ())
        except ValueError as error:
            raise ValueError(f"{str(error).replace(str(building), address)} Nothing of it is used; if it was damaged "
                             f"here, remove {snapshot.parent.parent} and load it again, else ask its owner.") from error
        shutil.rmtree(home, ignore_errors=True)    # a damaged copy
        try:
            building.rename(home)
        except OSError:
            if not _is_whole(home):    # else another process was first
                raise


def send(folder: Path, names: Sequence[str], card: str, repository: str, revision: str | None = None,
         private: bool = False) -> Sent:
    """Put files of a folder and a card into a repository, in one commit; the repository is made if there is none.

    Args:
        revision: a branch, which is made if there is none; None is main.
        private: make it so; a repository that is there and public is refused.
    """
    found = library()
    where = f"hf://{repository}"
    with _explained(found, where), _quiet(found):
        api = found.HfApi(library_name="frost")
        api.create_repo(repository, private=private or None, exist_ok=True)
        if private and not api.repo_info(repository).private:
            raise ValueError(f"{where} exists and is public; make it private on the hub, choose another name, or leave "
                             "--private out.")
        if revision is not None:
            api.create_branch(repository, branch=revision, exist_ok=True)
        added = [found.CommitOperationAdd(path_in_repo=name, path_or_fileobj=str(folder / name)) for name in names]
        added.append(found.CommitOperationAdd(path_in_repo=CARD, path_or_fileobj=card.encode()))
        commit = api.create_commit(repository, added, commit_message="A run of frost", revision=revision)
        return Sent(commit.oid, str(commit.commit_url))


@contextmanager
def _explained(found: Any, where: str) -> Iterator[None]:
    """Turn what may go wrong on the way to the hub into one sentence that says what to do."""
    errors, constants = found.errors, found.constants
    hub = f"the hub at {constants.ENDPOINT}"
    try:
        yield
    except errors.HFValidationError as error:
        raise ValueError(f"{where}: {_first_line(error)}") from error
    except errors.RevisionNotFoundError as error:
        raise ValueError(f"{where}: there is no such revision; name a branch, a tag or a commit of the repository."
                         ) from error
    except errors.LocalEntryNotFoundError as error:
        raise ValueError(_not_here(found, hub, where, error.__cause__)) from error
    except errors.OfflineModeIsEnabled as error:
        raise ValueError(f"{where}: HF_HUB_OFFLINE keeps frost from asking the hub; unset it.") from error
    except errors.HfHubHTTPError as error:
        raise ValueError(_refusal(hub, where, error)) from error
    except errors.HTTPError as error:    # no answer, a broken one, or one too late
        raise ValueError(f"{where}: {hub} does not answer ({_first_line(error)}); try again when it can be reached."
                         ) from error
    except (errors.FileMetadataError, RuntimeError) as error:
        raise ValueError(f"{where}: {_first_line(error)}") from error


def _not_here(found: Any, hub: str, where: str, cause: BaseException | None) -> str:
    """Why a run that is not in the cache could not be asked for."""
    cache = f"{where} is not whole in the cache {found.constants.HF_HUB_CACHE}"
    if found.constants.HF_HUB_OFFLINE:
        return f"{cache}, and HF_HUB_OFFLINE keeps frost from asking the hub; unset it and load the run once."
    if isinstance(cause, found.errors.HfHubHTTPError):
        return _refusal(hub, where, cause)
    if isinstance(cause, found.errors.FileMetadataError):
        return f"{where}: {hub} does not answer as a hub does; see to HF_ENDPOINT and to proxies."
    return f"{hub} does not answer, and {cache}; try again when it can be reached."


def _refusal(hub: str, where: str, error: Any) -> str:
    """What an answer of the hub that is no success means."""
    status = error.response.status_code
    if status in (401, 403, 404):
        return (f"{where}: {hub} knows no such repository, or it is not open to you ({status}); see to the name, or "
                "log in with a token that may read it, or write to it: hf auth login, or HF_TOKEN.")
    said = getattr(error, "server_message", None) or _first_line(error)
    return f"{where}: {hub} answers {status} ({said}); try again later."


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


@contextmanager
def _quiet(found: Any) -> Iterator[None]:
    """No progress bars but on a terminal."""
    is_changed = not sys.stderr.isatty() and not found.utils.are_progress_bars_disabled()
    if is_changed:
        found.utils.disable_progress_bars()
    try:
        yield
    finally:
        if is_changed:
            found.utils.enable_progress_bars()
