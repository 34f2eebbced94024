"""A record that clones on many machines share: identify its repository, and make its tables.

A repository has a name (`state.repository`, else the address of `origin`) and root commits. The
name finds the tables; the root commits tell whether two clones have the same history.
"""

from __future__ import annotations

import sys

from tugtool.errors import BadSetting, TugError
from tugtool.errors.server import ServerUnreachable
from tugtool.errors.state import DatabaseUnavailable, OnlyForFiles
from tugtool.git import origin_url
from tugtool.store import back_up, locate, open_store, owners
from tugtool.system import config, files, os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from tugtool.git import Repository
    from tugtool.schemas import Issue, StateMigrate
    from tugtool.store import Store
    from tugtool.store.owners import Machine
    from tugtool.store.postgres import PostgresStore
    from tugtool.store.remote import RemoteStore
    from tugtool.system.config import Settings
    from tugtool.workflow.workspace import Workspace

#: A file in git's directory that names this clone's shared record.
_SEEN_PATH = "tugtool/shared-record"


def open_shared(repo: Repository, settings: Settings, busy_seconds: float) -> Store:
    """Open the record at the configured address, or in its file, as this machine sees it."""
    url = settings.state_url()
    if url and settings.file is not None:
        _refuse_untrusted(repo, settings, url)
    machine = owners.this_machine(config.variable("TUGCODE_MACHINE"))
    if url.startswith(("http://", "https://", "http+unix://")):
        return _open_served(repo, settings, machine, busy_seconds)
    store = (_open_at_url if url else _open_file)(repo, settings, busy_seconds)
    owners.share(store, machine)
    return store


def _refuse_untrusted(repo: Repository, settings: Settings, url: str) -> None:
    from tugtool.system.state_config import without_password
    from tugtool.workflow import trust

    trust.refuse_state_address(repo, settings, without_password(url))


def _open_served(
    repo: Repository, settings: Settings, machine: Machine, busy_seconds: float
) -> Store:
    """Open the record that a server has; operations go there, git stays here."""
    from tugtool.state import operations
    from tugtool.store.remote import RemoteStore

    ca_file = settings.word("state.ca_file") if settings.is_set("state.ca_file") else ""
    ca_file = os.path.join(repo.root, ca_file) if ca_file else ""
    store = RemoteStore(
        settings.state_url(),
        machine=machine,
        token=config.variable("TUGCODE_TOKEN"),
        busy_seconds=busy_seconds,
        ca_file=ca_file,
    )
    plain = not store.address.is_secure and not store.address.is_local
    if plain and not (settings.is_set("state.plain_http") and settings.value("state.plain_http")):
        reason = "is on another machine and has no TLS: the token could be read on its way"
        hint = f"use https://, or set state.plain_http = true in {config.CONFIG_PATH}"
        raise ServerUnreachable(store.address.shown, reason=reason, hint=hint)
    operations.install()
    _refuse_other_history(repo, store, store.address.shown)
    return store


def _open_file(repo: Repository, settings: Settings, busy_seconds: float) -> Store:
    url, copies, link = locate(repo.root, repo.common_dir)
    if link is not None:
        from tugtool.workflow import records

        records.refuse_link(repo, link)
    store = open_store(url, busy_seconds=busy_seconds, copies=copies)
    refuse_private(repo, settings, store)
    return store


#: How to say that a clone has its state in a file, whatever the settings suggest.
ALONE = "export TUGCODE_STATE_URL="


def refuse_private(repo: Repository, settings: Settings, store: Store) -> None:
    """Let a clone that shares a state not make a private one because it lacks the address."""
    if store.exists() or not _lacks_address(settings):
        return
    sign = _sign(repo, settings)
    if sign is None:
        return
    guarded: Any = store
    made = guarded.create

    def create(*words: Any) -> Any:
        if not store.exists():
            raise _no_address(sign)
        return made(*words)

    guarded.create = create


def _lacks_address(settings: Settings) -> bool:
    """Return whether neither the environment nor the file says where the state is."""
    named = (config.variable("TUGCODE_STATE_URL"), config.variable("TUGCODE_SERVER"))
    return named == (None, None) and not settings.is_set("state.url")


def _sign(repo: Repository, settings: Settings) -> str | None:
    """Return what says that this repository's clones share a state; None if nothing does."""
    if settings.is_set("state.repository"):
        return f"{config.CONFIG_PATH} sets state.repository"
    try:
        with open(os.path.join(repo.common_dir, _SEEN_PATH), encoding="utf-8") as file:
            return f"this clone has used {file.readline().strip()}"
    except (OSError, ValueError):
        return None


def _no_address(sign: str) -> DatabaseUnavailable:
    reason = (
        f"is not known here: {sign}, so machines share the state; set TUGCODE_STATE_URL or "
        f"TUGCODE_SERVER to its address, or, if this clone is really alone: {ALONE}"
    )
    hint = "tugcode config"
    return DatabaseUnavailable("the state's address", reason=reason, hint=hint, engine="state")


def lacking_address(repo: Repository, settings: Settings) -> list[Issue]:
    """Return W172: where no state is, and other clones may share one."""
    if not _lacks_address(settings):
        return []
    sign = _sign(repo, settings)
    if sign is not None:
        error = _no_address(sign)
        message, hint = error.message, error.hint
    elif settings.is_set("remote.name"):
        message = (
            f"{config.CONFIG_PATH} names a remote, and no address of a state that machines share "
            "is known here: if others carry out these plans, set TUGCODE_STATE_URL or "
            f"TUGCODE_SERVER first; if this clone is alone: {ALONE}"
        )
        hint = "tugcode config"
    else:
        return []
    return [{"code": "W172", "severity": "warning", "message": message, "hint": hint or ""}]


def _open_at_url(repo: Repository, settings: Settings, busy_seconds: float) -> Store:
    name = settings.word("state.repository") if settings.is_set("state.repository") else ""
    name = name or normalised(origin_url(repo.common_dir))
    if not name:
        problem = "state.repository is not set, and there is no remote origin to take a name from"
        raise BadSetting(config.CONFIG_PATH, problem, key="state.repository")
    store = open_store(settings.state_url(), busy_seconds=busy_seconds, repository=name)
    postgres = shared(store)
    if postgres is not None:
        named = (postgres.address.shown, postgres.address.schema, postgres.repository or "")
        _refuse_other_history(repo, postgres, *named)
    return store


def shared(store: Store) -> PostgresStore | None:
    """Return the store if it is in PostgreSQL, or None."""
    postgres = sys.modules.get("tugtool.store.postgres")
    return store if postgres is not None and isinstance(store, postgres.PostgresStore) else None


class Serving:
    """A store of a server, which acts for the machines of its callers."""

    def __init__(self, space: Workspace) -> None:
        self._space, self.store = space, space.open_store()
        self._stage = owners.Stage(self.store)
        self._host = owners.this_machine().id

    def act_for(self, id: str, name: str, *, token: str | None = None) -> None:
        """Act for a machine; with `token` for what a worker with that token has there.

        In a file a machine's id is its name, so that everybody who reads the file can tell them
        apart. Nobody but the token's bearer has a machine of that name.
        """
        machine = owners.Machine(id, name)
        if shared(self.store) is None or token is not None:
            machine = owners.told_apart(id, name, token=token)
        at_home = id == self._host and token is None and shared(self.store) is None
        self._stage.act_for(None if at_home else machine)

    def roots(self) -> list[str]:
        """Return the root commits of the repository that is served."""
        return _roots(self._space.repo)

    def back_up(self) -> str | None:
        """Back the record up after an answer. Return the problem, or None."""
        try:
            return back_up(self.store)
        except Exception as error:
            # The operation itself has succeeded, so a failed backup is only reported.
            return f"no backup was made: {error!r}"

    def act_at_home(self) -> None:
        """Act for this machine again."""
        self._stage.act_for(None)


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
    _refuse_served(space.store, "--create-database")
    store = shared(space.store)
    if store is None:
        problem = "state.url is not set, and a file is made when its first plan is recorded"
        raise BadSetting(config.CONFIG_PATH, problem, key="state.url")
    from tugtool.store.postgres import create

    return create.make(store, roots=" ".join(_roots(space.repo)))


def migrate(space: Workspace) -> StateMigrate:
    """Migrate the tables. Return whether that was needed."""
    from tugtool.store import schema

    _refuse_served(space.store, "state migrate")
    store = shared(space.store)
    if store is None:
        return {"migrated": _migrate_file(space.store), "version": schema.VERSION}
    from tugtool.store.postgres import create

    return {"migrated": create.migrate(store) is not None, "version": schema.VERSION}


def _refuse_served(store: Store, command: str) -> None:
    """Refuse what only the machine with the database can do."""
    remote = sys.modules.get("tugtool.store.remote")
    if remote is not None and isinstance(store, remote.RemoteStore):
        instead = f"run it where {store.address.shown} has its repository"
        raise OnlyForFiles(command, instead=instead)


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


def _refuse_other_history(
    repo: Repository, store: RemoteStore | PostgresStore, *named: str
) -> None:
    """Refuse a record of another history. Each clone checks it once, and when it changes."""
    path = os.path.join(repo.common_dir, _SEEN_PATH)
    wanted = "".join(f"{each}\n" for each in named).encode()
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
    own, postgres = _roots(repo), shared(store)
    if not there:
        if own and postgres is not None:
            _refuse_other_name(postgres, own)
        return
    recorded = store.roots()
    if recorded and own and not set(recorded) & set(own):
        raise _of_another(store.address.shown, postgres)
    files.make_directory(os.path.dirname(path))
    files.replace(path, wanted)


def _of_another(shown: str, postgres: PostgresStore | None) -> DatabaseUnavailable:
    """Return the refusal of a record whose repository has another history."""
    if postgres is None:
        reason = "has the state of a repository with another history"
        return DatabaseUnavailable(shown, reason=reason, hint="tugcode config", engine="server")
    reason = f"has the state of another history under the name {postgres.repository}"
    hint = f"give this repository its own state.repository in {config.CONFIG_PATH}"
    return DatabaseUnavailable(shown, reason=reason, hint=hint, engine="postgres")
