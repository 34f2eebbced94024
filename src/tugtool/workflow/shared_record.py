"""A record that clones on many machines share: identify its repository, and make its tables.

A repository has a name (`state.repository`, else the address of `origin`) and root commits. The
name finds the tables; the root commits tell whether two clones have the same history.
"""

from __future__ import annotations

import os

from tugtool.errors import BadSetting, TugError
from tugtool.errors.state import DatabaseUnavailable
from tugtool.git import origin_url
from tugtool.store import locate, open_store, owners
from tugtool.system import config, files

TYPE_CHECKING = False
if TYPE_CHECKING:
    from tugtool.git import Repository
    from tugtool.schemas import StateMigrate
    from tugtool.store import Store
    from tugtool.store.postgres import PostgresStore
    from tugtool.system.config import Settings
    from tugtool.workflow.workspace import Workspace

#: A file in git's directory that names this clone's shared record.
_SEEN_PATH = "tugtool/shared-record"


def open_shared(repo: Repository, settings: Settings, busy_seconds: float) -> Store:
    """Open the record at the configured address, or in its file, as this machine sees it."""
    at_url = bool(settings.state_url())
    store = (_open_at_url if at_url else _open_file)(repo, settings, busy_seconds)
    owners.share(store, owners.this_machine(config.variable("TUGCODE_MACHINE")))
    return store


def _open_file(repo: Repository, _: Settings, busy_seconds: float) -> Store:
    url, copies, link = locate(repo.root, repo.common_dir)
    if link is not None:
        from tugtool.workflow import records

        records.refuse_link(repo, link)
    return open_store(url, busy_seconds=busy_seconds, copies=copies)


def _open_at_url(repo: Repository, settings: Settings, busy_seconds: float) -> Store:
    name = settings.word("state.repository") if settings.is_set("state.repository") else ""
    name = name or normalised(origin_url(repo.common_dir))
    if not name:
        problem = "state.repository is not set, and there is no remote origin to take a name from"
        raise BadSetting(config.CONFIG_PATH, problem, key="state.repository")
    store = open_store(settings.state_url(), busy_seconds=busy_seconds, repository=name)
    postgres = shared(store)
    if postgres is not None:
        _refuse_other_history(repo, postgres)
    return store


def shared(store: Store) -> PostgresStore | None:
    """Return the store if it is on a server, or None."""
    from tugtool.store.postgres import PostgresStore

    return store if isinstance(store, PostgresStore) else None


def normalised(url: str) -> str:
    """Return one name for all addresses of a remote: no scheme, credentials, port or `.git`."""
    _, mark, rest = url.partition("://")
    if not mark:
        host, colon, path = url.partition(":")
        if not colon or "/" in host:
            # It is a directory of this machine.
            return url.rstrip("/").removesuffix(".git").rstrip("/")
        rest = f"{host}/{path.lstrip('/')}"
    host, _, path = rest.partition("/")
    host = host.rpartition("@")[2].lower()
    # Of an IPv6 address in brackets, only what follows is the port.
    six, bracket, _ = host.partition("]")
    host = six + bracket if bracket else host.partition(":")[0]
    path = path.strip("/").removesuffix(".git").rstrip("/")
    return f"{host}/{path}" if host else f"/{path}"


def make_tables(space: Workspace) -> bool:
    """Make this repository's tables. Return whether there were none."""
    store = shared(space.store)
    if store is None:
        problem = "state.url is not set, and a file is made when its first plan is recorded"
        raise BadSetting(config.CONFIG_PATH, problem, key="state.url")
    from tugtool.store.postgres import create

    return create.make(store, roots=" ".join(_roots(space.repo)))


def migrate(space: Workspace) -> StateMigrate:
    """Migrate the tables. Return whether that was needed."""
    from tugtool.store import schema

    store = shared(space.store)
    if store is None:
        return {"migrated": _migrate_file(space.store), "version": schema.VERSION}
    from tugtool.store.postgres import create

    return {"migrated": create.migrate(store) is not None, "version": schema.VERSION}


def _migrate_file(store: Store) -> bool:
    """Migrate the file now, as the next command that writes would."""
    try:
        if store.exists():
            with store.read():
                return False
    except DatabaseUnavailable as error:
        if error.facts.get("sqlite") != "OLDER":
            raise
        store.create()
        return True
    return False


def _roots(repo: Repository) -> list[str]:
    """Return the root commits of HEAD; empty in a shallow clone."""
    from tugtool.git import command as git

    if git.run("rev-parse", "--is-shallow-repository", cwd=repo.worktree).strip() == "true":
        return []
    done = git.attempt("rev-list", "--max-parents=0", "HEAD", cwd=repo.worktree)
    return sorted(done.out.split()) if done.status == 0 else []


def _refuse_other_name(store: PostgresStore, roots: list[str]) -> None:
    """Refuse a clone without tables whose history has some under another name."""
    from tugtool.store.postgres import create

    create.refuse_second(store, " ".join(roots))


def _refuse_other_history(repo: Repository, store: PostgresStore) -> None:
    """Refuse a record of another history. Each clone checks it once, and when it changes."""
    path = os.path.join(repo.common_dir, _SEEN_PATH)
    wanted = f"{store.address.shown}\n{store.address.schema}\n{store.repository}\n".encode()
    try:
        with open(path, "rb") as file:
            if file.read() == wanted:
                return
    except OSError:
        # This clone has not checked it yet.
        pass
    try:
        there = store.exists()
    except TugError:
        # A command that needs the server reports the error; others do not wait.
        return
    own = _roots(repo)
    if not there:
        if own:
            _refuse_other_name(store, own)
        return
    recorded = store.roots()
    if recorded and own and not set(recorded) & set(own):
        reason = f"has the state of another history under the name {store.repository}"
        hint = f"give this repository its own state.repository in {config.CONFIG_PATH}"
        raise DatabaseUnavailable(store.address.shown, reason=reason, hint=hint, engine="postgres")
    files.make_directory(os.path.dirname(path))
    files.replace(path, wanted)
