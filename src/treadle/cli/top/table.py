"""The table widget. It redraws only lines that changed, and keeps a row selected when the row moves."""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, TypeVar

from rich.segment import Segment
from rich.text import Text
from textual.binding import Binding, BindingType
from textual.events import Key, Resize
from textual.geometry import Region
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget

Item = TypeVar("Item")

GAP = 2


@dataclass(frozen=True)
class Column(Generic[Item]):
    title: str
    cell: Callable[[Item, int], Text | str]
    """The content for an item and a width in characters. It is truncated if it is longer."""
    width: int
    """In characters; of a column that grows, its share of the width that is left."""
    grows: bool = False
    right: bool = False
    min_table_width: int = 0
    """The column is hidden if the table is narrower than this."""
    order: Callable[[Item], Any] | None = None
    """The sort key; None if the table cannot be sorted by this column."""


@dataclass(frozen=True)
class TableSpec(Generic[Item]):
    """What a table shows: its columns, how rows are identified and sorted."""

    name: str
    columns: Sequence[Column[Item]]
    key: Callable[[Item], Hashable]
    """Identifies the row across refreshes, and orders rows with the same sort key."""
    sort_by: str
    """The title of the column that the table is sorted by at first."""
    empty: str
    """Shown when there are no rows."""
    dimmed: Callable[[Item], bool] = lambda _: False
    keeps_order: bool = False
    """Rows are sorted when they appear and when the reader sorts them, but do not move when their values change."""


class Table(Widget, Generic[Item], can_focus=True):
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "move(-1)"),
        Binding("down,j", "move(1)"),
        Binding("pageup", "page(-1)"),
        Binding("pagedown", "page(1)"),
        Binding("home,g", "move(-1000000)"),
        Binding("end,G", "move(1000000)"),
        Binding("enter", "open"),
        Binding("s", "sort"),
    ]

    class Opened(Message):
        def __init__(self, table: "Table[Any]", item: object) -> None:
            super().__init__()
            self.table = table
            self.item = item

    def __init__(self, spec: TableSpec[Item], name: str, intercept: Callable[[Key], bool] = lambda _: False) -> None:
        """`intercept` gets every key first, and returns whether it handled the key."""
        super().__init__(id=name)
        self._intercept = intercept
        self.spec = spec
        self._sorted_by = self._default_order()
        self._ranks: dict[Hashable, int] = {}
        self._unsorted: Sequence[Item] = ()
        self._more = False
        self.items: list[Item] = []
        self._cursor = 0
        self._top = 0
        self._lines: list[Text] = []

    @property
    def selected(self) -> Item | None:
        return self.items[self._cursor] if self.items else None

    def show(self, items: Sequence[Item], *, more: bool = False) -> None:
        """`more`: there are others, which are not among the items."""
        self._unsorted, self._more = items, more
        self._sort()

    def switch_to(self, spec: TableSpec[Any]) -> None:
        """Show other items, with other columns."""
        self.spec, self._unsorted, self.items, self._cursor, self._top = spec, (), [], 0, 0
        self._more = False
        self._ranks.clear()
        self._sorted_by = self._default_order()
        self._draw()

    def action_move(self, by: int) -> None:
        self._cursor = max(0, min(len(self.items) - 1, self._cursor + by))
        self._draw()

    def action_page(self, by: int) -> None:
        self.action_move(by * max(1, self.size.height - 1))

    def action_sort(self) -> None:
        self._sorted_by = (self._sorted_by + 1) % len(self._sortable())
        self._ranks.clear()
        self._sort()

    def action_open(self) -> None:
        if self.selected is not None:
            self.post_message(self.Opened(self, self.selected))

    def _default_order(self) -> int:
        return [column.title for column in self._sortable()].index(self.spec.sort_by)

    def _sortable(self) -> list[Column[Item]]:
        return [column for column in self.spec.columns if column.order]

    def _sort(self) -> None:
        order, key = self._sortable()[self._sorted_by].order, self.spec.key
        before = None if self.selected is None else key(self.selected)
        self.items = sorted(self._unsorted, key=lambda item: (order(item) if order else 0, key(item)))
        if self.spec.keeps_order:
            for item in self.items:
                self._ranks.setdefault(key(item), len(self._ranks))
            self.items.sort(key=lambda item: self._ranks[key(item)])
        positions = {key(item): position for position, item in enumerate(self.items)}
        # If the selected row is gone, the one that took its position is selected.
        self._cursor = positions.get(before, max(0, min(self._cursor, len(self.items) - 1)))
        self._draw()

    def _draw(self) -> None:
        if not self.size:
            return
        room = max(1, self.size.height - 1)
        self._top = max(0, min(self._top, len(self.items) - room))
        self._top = max(self._cursor - room + 1, min(self._top, self._cursor))
        shown = self.items[self._top : self._top + room]
        widths = self._widths()
        lines = [self._heading(widths, len(shown))]
        for position, item in enumerate(shown, self._top):
            line = Text(no_wrap=True)
            for column, width in widths:
                line.append_text(fitted(column.cell(item, width), width, column.right)).append(" " * GAP)
            if self.spec.dimmed(item):
                line.stylize("dim")
            if position == self._cursor and self.has_focus:
                # In one style: reversed colours would show as blocks.
                line = Text(line.plain, no_wrap=True)
                line.stylize("reverse")
            lines.append(line)
        if not shown:
            lines.append(Text.assemble((self.spec.empty, "dim")))
        before, self._lines = self._lines, lines
        for y in range(max(len(before), len(lines))):
            if y >= len(before) or y >= len(lines) or not _same(before[y], lines[y]):
                self.refresh(Region(0, y, self.size.width, 1))

    def _heading(self, widths: list[tuple[Column[Item], int]], shown: int) -> Text:
        number, line = len(self.items), Text(no_wrap=True)
        total = f"{number}+" if self._more else f"{number}"
        counted = total if shown == number else f"{self._top + 1}-{self._top + shown} of {total}"
        by = self._sortable()[self._sorted_by]
        if not widths[1][0].title:
            # A second column without a title gives its width to the name and the count.
            widths = [(widths[0][0], widths[0][1] + GAP + widths[1][1]), *widths[2:]]
        for position, (column, width) in enumerate(widths):
            title = column.title + ("▾" if column is by else "")
            if position == 0:
                title = f"{self.spec.name} {counted}" + (" ▾" if column is by else "")
            style = ("bold" if position == 0 else "") if self.has_focus else "dim"
            line.append_text(fitted(Text(title, style=style), width, column.right)).append(" " * GAP)
        return line

    def _widths(self) -> list[tuple[Column[Item], int]]:
        shown = [column for column in self.spec.columns if column.min_table_width <= self.size.width]
        shares = sum(column.width for column in shown if column.grows)
        left = self.size.width - sum(column.width for column in shown if not column.grows) - GAP * (len(shown) - 1)
        made = [(each, max(4, left * each.width // shares) if each.grows else each.width) for each in shown]
        # The first column gets the remainder of the division.
        remainder = max(0, self.size.width - GAP * (len(made) - 1) - sum(width for _, width in made))
        return [(made[0][0], made[0][1] + remainder), *made[1:]]

    def render_line(self, y: int) -> Strip:
        if y >= len(self._lines):
            return Strip.blank(self.size.width, self.rich_style)
        segments = self._lines[y].render(self.app.console)
        styled = Segment.apply_style(segments, self.rich_style)
        return Strip(styled).adjust_cell_length(self.size.width, self.rich_style)

    def on_key(self, event: Key) -> None:
        # Here, because keys arrive before any binding sees them, and in the order in which they were pressed.
        if self._intercept(event):
            event.stop()

    def on_resize(self, event: Resize) -> None:
        self._draw()
        self.refresh()

    def on_focus(self) -> None:
        self._draw()

    def on_blur(self) -> None:
        self._draw()


def _same(one: Text, other: Text) -> bool:
    return one.plain == other.plain and one.spans == other.spans


def fitted(text: Text | str, width: int, right: bool = False) -> Text:
    made = Text(text) if isinstance(text, str) else text.copy()
    made.no_wrap = True
    made.truncate(max(0, width), overflow="ellipsis")
    made.align("right" if right else "left", max(0, width))
    return made
