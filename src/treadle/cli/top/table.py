"""A table that keeps still: only lines that have changed are drawn, and the chosen row is chosen wherever it goes."""

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
    """What stands there, for this much room; what is longer is cut off."""
    width: int
    """In characters; or, where it grows, its share of what is left."""
    grows: bool = False
    right: bool = False
    needs: int = 0
    """Left out where the table is narrower."""
    order: Callable[[Item], Any] | None = None
    """What to sort by; None: not by this one."""


@dataclass(frozen=True)
class Plan(Generic[Item]):
    """What a table shows."""

    name: str
    columns: Sequence[Column[Item]]
    key: Callable[[Item], Hashable]
    """Which row it is, also in the next look. Rows that are equal stand in this order."""
    by: str
    """The column that it is sorted by at first."""
    empty: str
    faint: Callable[[Item], bool] = lambda _: False


class Board(Widget, Generic[Item], can_focus=True):
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
        def __init__(self, board: "Board[Any]", item: object) -> None:
            super().__init__()
            self.board = board
            self.item = item

    def __init__(self, plan: Plan[Item], name: str, takes: Callable[[Key], bool] = lambda _: False) -> None:
        super().__init__(id=name)
        self._takes = takes
        self.plan = plan
        self._sorted = self._first()
        self._given: Sequence[Item] = ()
        self.items: list[Item] = []
        self._place = 0
        self._top = 0
        self._lines: list[Text] = []

    @property
    def chosen(self) -> Item | None:
        return self.items[self._place] if self.items else None

    def show(self, items: Sequence[Item]) -> None:
        self._given = items
        self._arrange()

    def change(self, plan: Plan[Any]) -> None:
        """Show something else."""
        self.plan, self._given, self.items, self._place, self._top = plan, (), [], 0, 0
        self._sorted = self._first()
        self._draw()

    def action_move(self, by: int) -> None:
        self._place = max(0, min(len(self.items) - 1, self._place + by))
        self._draw()

    def action_page(self, by: int) -> None:
        self.action_move(by * max(1, self.size.height - 1))

    def action_sort(self) -> None:
        self._sorted = (self._sorted + 1) % len(self._orders())
        self._arrange()

    def action_open(self) -> None:
        if self.chosen is not None:
            self.post_message(self.Opened(self, self.chosen))

    def _first(self) -> int:
        return [column.title for column in self._orders()].index(self.plan.by)

    def _orders(self) -> list[Column[Item]]:
        return [column for column in self.plan.columns if column.order]

    def _arrange(self) -> None:
        order, key = self._orders()[self._sorted].order, self.plan.key
        before = None if self.chosen is None else key(self.chosen)
        self.items = sorted(self._given, key=lambda item: (order(item) if order else 0, key(item)))
        places = {key(item): place for place, item in enumerate(self.items)}
        # Of one that is gone the place stays.
        self._place = places.get(before, max(0, min(self._place, len(self.items) - 1)))
        self._draw()

    def _draw(self) -> None:
        if not self.size:
            return
        room = max(1, self.size.height - 1)
        self._top = max(0, min(self._top, len(self.items) - room))
        self._top = max(self._place - room + 1, min(self._top, self._place))
        shown = self.items[self._top : self._top + room]
        widths = self._widths()
        lines = [self._heading(widths, len(shown))]
        for place, item in enumerate(shown, self._top):
            line = Text(no_wrap=True)
            for column, width in widths:
                line.append_text(fitted(column.cell(item, width), width, column.right)).append(" " * GAP)
            if self.plan.faint(item):
                line.stylize("dim")
            if place == self._place and self.has_focus:
                # All of one kind: colours turned around would be blocks.
                line = Text(line.plain, no_wrap=True)
                line.stylize("reverse")
            lines.append(line)
        if not shown:
            lines.append(Text.assemble((self.plan.empty, "dim")))
        before, self._lines = self._lines, lines
        for y in range(max(len(before), len(lines))):
            if y >= len(before) or y >= len(lines) or not _same(before[y], lines[y]):
                self.refresh(Region(0, y, self.size.width, 1))

    def _heading(self, widths: list[tuple[Column[Item], int]], shown: int) -> Text:
        number, line = len(self.items), Text(no_wrap=True)
        counted = f"{number}" if shown == number else f"{self._top + 1}-{self._top + shown} of {number}"
        by = self._orders()[self._sorted]
        if not widths[1][0].title:
            # A second column without a title leaves its room to the name and the count.
            widths = [(widths[0][0], widths[0][1] + GAP + widths[1][1]), *widths[2:]]
        for place, (column, width) in enumerate(widths):
            title = column.title + ("▾" if column is by else "")
            if place == 0:
                title = f"{self.plan.name} {counted}" + (" ▾" if column is by else "")
            style = ("bold" if place == 0 else "") if self.has_focus else "dim"
            line.append_text(fitted(Text(title, style=style), width, column.right)).append(" " * GAP)
        return line

    def _widths(self) -> list[tuple[Column[Item], int]]:
        shown = [column for column in self.plan.columns if column.needs <= self.size.width]
        shares = sum(column.width for column in shown if column.grows)
        left = self.size.width - sum(column.width for column in shown if not column.grows) - GAP * (len(shown) - 1)
        made = [(each, max(4, left * each.width // shares) if each.grows else each.width) for each in shown]
        # What does not divide is the first one's.
        over = max(0, self.size.width - GAP * (len(made) - 1) - sum(width for _, width in made))
        return [(made[0][0], made[0][1] + over), *made[1:]]

    def render_line(self, y: int) -> Strip:
        if y >= len(self._lines):
            return Strip.blank(self.size.width, self.rich_style)
        segments = self._lines[y].render(self.app.console)
        styled = Segment.apply_style(segments, self.rich_style)
        return Strip(styled).adjust_cell_length(self.size.width, self.rich_style)

    def on_key(self, event: Key) -> None:
        # Before any binding, and in the order in which they were pressed.
        if self._takes(event):
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
