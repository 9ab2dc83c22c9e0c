"""Groups whose sizes add up to a number, against every subset."""

import itertools

from hypothesis import given, settings
from hypothesis import strategies as st

from sera_maze.envs.pools.splitting import choose_groups, nearest_totals


@given(sizes=st.lists(st.integers(1, 9), min_size=1, max_size=9), data=st.data())
@settings(max_examples=300, deadline=None)
def test_against_every_subset(sizes, data):
    totals = {sum(part) for n in range(len(sizes) + 1) for part in itertools.combinations(sizes, n)}
    order = data.draw(st.permutations(range(len(sizes))))
    for total in range(sum(sizes) + 2):
        chosen = choose_groups(sizes, total, order)
        if total in totals:
            assert len(set(chosen)) == len(chosen)
            assert sum(sizes[group] for group in chosen) == total
        else:
            assert chosen is None
        some = totals - {0, sum(sizes)}
        below, above = sorted(t for t in some if t < total), sorted(t for t in some if t > total)
        assert nearest_totals(sizes, total) == below[-1:] + above[:1]


def test_groups_come_in_the_given_order_where_they_fit():
    assert choose_groups([1, 1, 1, 1], 2, [3, 1, 0, 2]) == [3, 1]
    assert choose_groups([4, 3, 3], 6, [0, 1, 2]) in ([1, 2], [2, 1])  # 4 comes first, and nothing fills it up to 6


def test_many_groups_of_a_few_sizes():
    sizes = [6] * 20_000 + [10] * 20_000 + [15]
    chosen = choose_groups(sizes, 100_001 + 12, range(len(sizes)))
    assert sum(sizes[group] for group in chosen) == 100_013
    assert choose_groups(sizes, 29, range(len(sizes))) is None
