"""An application with a mistake in it."""

nope  # type: ignore[name-defined]  # noqa: B018, F821
