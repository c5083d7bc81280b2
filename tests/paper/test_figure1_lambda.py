"""Figure 1: what is called a dip, and when λ is called inverse to H."""

from frost.paper.sections.figure1_lambda import falls_first, is_inverse


def test_a_dip_comes_first_and_is_recovered_from():
    share = [0.1 * t for t in range(1, 11)]
    dips = {"share": share, "scale": [0.5, 0.47, 0.44, 0.46, 0.5, 0.52, 0.55, 0.56, 0.57, 0.58]}
    rises = {"share": share, "scale": [0.5, 0.53, 0.55, 0.5, 0.45, 0.44, 0.43, 0.42, 0.43, 0.44]}
    sinks = {"share": share, "scale": [0.5 - 0.01 * t for t in range(10)]}
    assert [falls_first(book, 0.5) for book in (dips, rises, sinks)] == [True, False, False]


def test_an_order_over_hurst_must_exceed_what_seeds_differ_by():
    assert is_inverse({"0.2": 0.9, "0.8": 0.5, "1": 0.4}, [0.5, 0.51]) is True
    assert is_inverse({"0.2": 0.4, "0.8": 0.5, "1": 0.9}, [0.5, 0.51]) is False
    assert is_inverse({"0.2": 0.41, "0.8": 0.5, "1": 0.4}, [0.5, 0.6]) is None
    assert is_inverse({"0.2": 0.9, "0.8": 0.5, "1": 0.4}, [0.5]) is None
