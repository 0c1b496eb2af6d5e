"""Each version of the schema has a migration of Django's."""

from importlib.resources import files

from treadle.db.migrations import migration_files


def test_there_is_a_django_migration_for_each_version_of_the_schema() -> None:
    """So that `manage.py migrate --check` and `showmigrations` tell that a new version of Treadle needs a migration.

    If this fails: copy the newest file in contrib/django/migrations, and change its number, name and dependency."""
    folder = files("treadle").joinpath("contrib/django/migrations")
    found = sorted(path.name for path in folder.iterdir() if path.name[0].isdigit())
    expected = [name.split(".")[0] + ".py" for _, name in migration_files()]
    assert found == expected
    for name, before in zip(found[1:], found, strict=False):
        text = folder.joinpath(name).read_text()
        assert f'("treadle", "{before.removesuffix(".py")}")' in text
        assert f"UpgradeSchema({int(name[:4])})" in text
