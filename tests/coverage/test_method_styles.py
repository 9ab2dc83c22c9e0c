"""A method has the same colour, marker and line in every figure."""

from sera_maze.algorithm.options import MaxRLOptions
from sera_maze.coverage.method_styles import METHOD_STYLES, method_of, styles_of


def test_no_two_methods_look_alike():
    assert len(set(METHOD_STYLES.values())) == len(METHOD_STYLES)


def test_the_method_of_options():
    for options, name in (
        ({"allocator": "uniform"}, "MaxRL, uniform"),
        ({"allocator": "sera"}, "SERA, history"),
        ({"allocator": "sera", "success": "exact"}, "SERA, exact p"),
        ({"allocator": "sera", "success": "critic_history"}, "SERA, critic and history"),
        ({"allocator": "sera_posterior"}, "SERA, posterior"),
        ({"allocator": "vip"}, "VIP"),
        ({"allocator": "knapsack"}, "Knapsack"),
        ({"allocator": "uniform", "advantage": "grpo"}, "GRPO"),
    ):
        assert method_of(MaxRLOptions(**options)) == name
        assert name in METHOD_STYLES


def test_styles_do_not_depend_on_the_other_lines_of_a_figure():
    sera, uniform = METHOD_STYLES["SERA, history"], METHOD_STYLES["MaxRL, uniform"]
    assert styles_of(["SERA, history", "MaxRL, uniform"]) == [sera, uniform]
    assert styles_of(["MaxRL, uniform", None, "SERA, history"])[::2] == [uniform, sera]


def test_lines_without_a_method_of_their_own_get_other_colours():
    styles = styles_of(["MaxRL, uniform", "MaxRL, uniform", None, None])
    assert styles[0] == METHOD_STYLES["MaxRL, uniform"]
    assert len({style.colour for style in styles}) == 4
    assert len(set(styles_of([None] * 12))) == 12
