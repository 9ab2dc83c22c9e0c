"""Groups that stay together, chosen at random so that their sizes add up to a given number."""

from __future__ import annotations

from collections.abc import Sequence


def choose_groups(sizes: Sequence[int], total: int, order: Sequence[int]) -> list[int] | None:
    """Groups with ``total`` members together: the first in ``order`` that fit, or if these do not fill it, any that do.

    Args:
        sizes: members of each group, at least 1.
        total: members wanted, at least 0.
        order: the numbers of all groups, shuffled.

    Returns:
        Numbers of groups; None if no groups have so many members.
    """
    chosen, missing = [], total
    for group in order:
        if sizes[group] <= missing:
            chosen.append(group)
            missing -= sizes[group]
    if missing == 0:
        return chosen
    by_size: dict[int, list[int]] = {}
    for group in order:
        by_size.setdefault(sizes[group], []).append(group)
    # Lots of 1, 2, 4, ... groups of one size can be put together to any number of them, and are few.
    lots = [(size, count) for size, groups in by_size.items() for count in _lots(len(groups))]
    before = [1]  # bit t of before[i]: whether some of the first i lots have t members together
    for size, count in lots:
        before.append(before[-1] | before[-1] << size * count)
    if not before[-1] >> total & 1:
        return None
    chosen, missing = [], total
    for i, (size, count) in reversed(list(enumerate(lots))):
        if not before[i] >> missing & 1:
            chosen += [by_size[size].pop() for _ in range(count)]
            missing -= size * count
    return chosen


def nearest_totals(sizes: Sequence[int], total: int) -> list[int]:
    """The next smaller and the next larger number of members that some of the groups, but not all, have together."""
    possible = 1
    for size in sizes:
        possible |= possible << size
    some = [number for number in range(1, sum(sizes)) if possible >> number & 1]
    below, above = [n for n in some if n < total], [n for n in some if n > total]
    return below[-1:] + above[:1]


def _lots(count: int) -> list[int]:
    lots, size = [], 1
    while size <= count:
        lots.append(size)
        count, size = count - size, 2 * size
    return [*lots, count] if count else lots
