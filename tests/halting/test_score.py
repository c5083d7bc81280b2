"""The halting score: the same bits for an image in any row of a batch of any length."""

import pytest
import torch

from frost.halting.score import class_features, make_score, output_features, over_positions

ROWS = (2, 3, 5, 7, 8, 13, 16, 31, 64)


@pytest.mark.parametrize("sees", ["state", "output"])
def test_the_same_image_has_the_same_bits_in_every_row(sees):
    torch.manual_seed(0)
    score = make_score(24, sees, 3)
    with torch.no_grad():
        for weight in score.parameters():
            weight.normal_()
        for _ in range(20):
            pooled, output = torch.randn(1, 24), 3 * torch.randn(1, 10)
            alone = score(pooled, class_features(output))
            for rows in ROWS:
                together = score(pooled.repeat(rows, 1), class_features(output.repeat(rows, 1)))
                assert torch.equal(together, alone.expand(rows))


def test_a_score_that_sees_the_output_is_the_sum_of_its_parts():
    torch.manual_seed(0)
    score = make_score(6, "output", 3)
    torch.nn.init.normal_(score.decided.weight)
    pooled, output = torch.randn(4, 6), torch.randn(4, 3)
    expected = score.linear(pooled)[:, 0] + output_features(output) @ score.decided.weight[0]
    torch.testing.assert_close(score(pooled, class_features(output)), expected)


def test_of_many_answers_it_sees_the_least_sure_and_the_mean():
    torch.manual_seed(0)
    output, mask = torch.randn(3, 4, 5, 6), torch.rand(3, 4, 5) < 0.6
    mask[:, 0, 0] = True
    numbers = output_features(output)
    by_hand = torch.stack([torch.cat([row[keep].amin(dim=0), row[keep].mean(dim=0)])
                           for row, keep in zip(numbers, mask, strict=True)])
    torch.testing.assert_close(class_features(output, mask), by_hand)
    torch.testing.assert_close(over_positions(numbers, None, "least"), numbers.flatten(1, 2).amin(dim=1))


def test_an_output_that_says_nothing_about_itself_cannot_be_seen():
    with pytest.raises(ValueError, match="use score_sees='state'"):
        make_score(6, "output", 0)
