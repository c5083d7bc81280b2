"""The campaigns F10 and F11 in short: the same cases, with bombs of a few megabytes."""

import hostile_archives
import hostile_data
import pytest


@pytest.mark.parametrize("damage", hostile_data.DAMAGES, ids=lambda damage: damage.name)
def test_a_damaged_data_set_is_refused_by_name(damage, tmp_path):
    fault, _ = hostile_data.judge_damage(damage, tmp_path / "case")
    assert fault == ""


def test_a_plain_loader_accepts_damage_or_runs_it(tmp_path):
    plain = [hostile_data.judge_damage(damage, tmp_path / "case")[1] for damage in hostile_data.DAMAGES]
    assert plain.count("accepted") >= 10
    assert plain.count("executed") == 2


@pytest.mark.parametrize("hostile", hostile_archives.ARCHIVES, ids=lambda hostile: hostile.name)
def test_a_hostile_archive_does_no_harm(hostile, tmp_path):
    layout = hostile_archives.prepare(tmp_path)
    fault, growth = hostile_archives.judge_archive(hostile, layout, tmp_path / "case", 70)
    assert fault == ""
    assert growth <= hostile_archives.GROWTH


def test_unpacking_what_one_trusts_writes_outside(tmp_path):
    layout = hostile_archives.prepare(tmp_path)
    small = [hostile for hostile in hostile_archives.ARCHIVES if not hostile.is_bomb]
    escaped = [hostile.name for hostile in small
               if hostile_archives.escapes(hostile, layout, tmp_path / "case", "fully_trusted")]
    assert {"name with ..", "absolute name", "chain of links"} <= set(escaped)


def test_listing_a_bomb_takes_memory_without_bound(tmp_path):
    layout = hostile_archives.prepare(tmp_path)
    bomb = next(hostile for hostile in hostile_archives.ARCHIVES if hostile.name == "long name is a bomb")
    assert hostile_archives.lists_beyond(bomb, layout, tmp_path / "case")
