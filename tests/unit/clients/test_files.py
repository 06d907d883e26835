import os
import stat

import pytest

from callgate.clients import Hint, InstallRecord, InstallRecords
from callgate.clients.files import back_up, digest, read, replace
from callgate.clients.jsonc import MAX_BYTES
from callgate.errors import ConfigError
from support.table import rows


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "my config.json"
    path.write_bytes(b"{}\r\n")
    path.chmod(0o640)
    return path


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


def test_a_file_is_replaced_with_its_rights_and_nothing_is_left_beside_it(file):
    replace(read(file), b"[]")
    assert file.read_bytes() == b"[]"
    assert mode(file) == 0o640
    assert list(file.parent.iterdir()) == [file]


def test_a_file_that_is_not_there_is_none(tmp_path):
    assert read(tmp_path / "none.json") is None
    assert read(tmp_path / "no folder" / "none.json") is None


def test_a_link_is_followed_and_stays_a_link(file, tmp_path):
    link = tmp_path / "link.json"
    link.symlink_to(file)
    source = read(link)
    replace(source, b"[]")
    assert link.is_symlink()
    assert file.read_bytes() == b"[]"
    assert back_up(source) == file.with_name("my config.json.callgate-backup")


def test_a_link_to_nothing_and_links_in_a_circle_are_told(tmp_path):
    (tmp_path / "a").symlink_to(tmp_path / "gone")
    with pytest.raises(ConfigError, match="a link to a file that is not there"):
        read(tmp_path / "a")
    (tmp_path / "b").symlink_to(tmp_path / "c")
    (tmp_path / "c").symlink_to(tmp_path / "b")
    with pytest.raises(ConfigError, match=r"cannot be read|is a link"):
        read(tmp_path / "b")


def test_what_is_no_file_is_refused_at_once(tmp_path):
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    for name in ("folder", "pipe"):
        with pytest.raises(ConfigError, match="is not a regular file"):
            read(tmp_path / name)
    with pytest.raises(ConfigError, match="is not a regular file"):
        read(type(tmp_path)("/dev/zero"))


def test_a_huge_file_is_not_read(tmp_path):
    with (tmp_path / "huge").open("wb") as out:
        out.truncate(MAX_BYTES + 1)
    with pytest.raises(ConfigError, match="larger than"):
        read(tmp_path / "huge")


def test_what_changed_in_the_meantime_is_not_replaced(file):
    source = read(file)
    file.write_bytes(b'{"new": 1}')
    with pytest.raises(ConfigError, match="in the meantime"):
        replace(source, b"[]")
    assert file.read_bytes() == b'{"new": 1}'
    assert list(file.parent.iterdir()) == [file]


def test_what_was_taken_away_in_the_meantime_stays_away(file):
    source = read(file)
    file.unlink()
    with pytest.raises(ConfigError):
        replace(source, b"[]")
    assert list(file.parent.iterdir()) == []


def test_a_read_only_file_and_a_read_only_folder_are_left_alone_whoever_asks(file):
    source = read(file)
    file.chmod(0o440)
    with pytest.raises(ConfigError, match="is read-only"):
        replace(read(file), b"[]")
    file.chmod(0o640)
    file.parent.chmod(0o555)
    try:
        with pytest.raises(ConfigError, match="its folder is read-only"):
            replace(source, b"[]")
    finally:
        file.parent.chmod(0o755)
    assert file.read_bytes() == b"{}\r\n"


@rows(("given", "kept"), [(0o644, 0o600), (0o600, 0o600), (0o666, 0o600), (0o400, 0o400)])
def test_a_backup_is_for_its_owner_alone_and_never_overwrites_another(file, given, kept):
    file.chmod(given)
    first, second = back_up(read(file)), back_up(read(file))
    assert first != second
    for backup in (first, second):
        assert backup.read_bytes() == b"{}\r\n"
        assert mode(backup) == kept


def test_a_backup_does_not_follow_a_link_that_waits_there(file, tmp_path):
    victim = tmp_path / "victim"
    victim.write_text("precious")
    file.with_name(f"{file.name}.callgate-backup").symlink_to(victim)
    assert back_up(read(file)).name.endswith("-2")
    assert victim.read_text() == "precious"


# ---- records ----


def record(path, **changes):
    made = InstallRecord(
        path, "cursor", path.with_suffix(".b"), digest(b"1"), digest(b"2"), "now", {("a", "b"): Hint()}
    )
    return made._replace(**changes)


def test_a_record_comes_back_as_it_was_put(tmp_path):
    records = InstallRecords(tmp_path / "state")
    assert records.get(tmp_path / "x") is None
    assert records.all() == []
    first = record(tmp_path / "x", servers={("projects", "/p", "mcpServers", "é"): Hint("serverUrl", "http")})
    records.put(first)
    records.put(record(tmp_path / "y"))
    assert records.get(tmp_path / "x") == first
    assert {one.file.name for one in records.all()} == {"x", "y"}
    records.drop(tmp_path / "x")
    records.drop(tmp_path / "x")
    assert [one.file.name for one in records.all()] == ["y"]
    assert {mode(path) for path in (tmp_path / "state" / "installed").iterdir()} == {0o600}


@rows("text", ["", "[]", "{}", '{"client": 1}', "\x00", "[" * 100_000])
def test_a_spoilt_record_is_none(tmp_path, text):
    records = InstallRecords(tmp_path)
    records.put(record(tmp_path / "x"))
    (path,) = (tmp_path / "installed").iterdir()
    path.write_text(text)
    assert records.get(tmp_path / "x") is None
    assert records.all() == []


def test_a_state_folder_that_cannot_be_made_is_told(tmp_path):
    (tmp_path / "state").write_text("a file")
    with pytest.raises(ConfigError, match="cannot be written"):
        InstallRecords(tmp_path / "state").put(record(tmp_path / "x"))
