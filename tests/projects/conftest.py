"""Projects that use Treadle as others do. Each has tests of its own, which the tests here run."""

collect_ignore = ["fastapi"]
