"""The halting score: the same bits for an image in any row of a batch of any length."""

import pytest
import torch

from frost.halting.score import decidedness, make_score

ROWS = (2, 3, 5, 7, 8, 13, 16, 31, 64)


@pytest.mark.parametrize("sees", ["state", "output"])
def test_the_same_image_has_the_same_bits_in_every_row(sees):
    torch.manual_seed(0)
    score = make_score(24, sees)
    with torch.no_grad():
        for weight in score.parameters():
            weight.normal_()
        for _ in range(20):
            pooled, output = torch.randn(1, 24), 3 * torch.randn(1, 10)
            alone = score(pooled, output)
            for rows in ROWS:
                together = score(pooled.repeat(rows, 1), output.repeat(rows, 1))
                assert torch.equal(together, alone.expand(rows))


def test_a_score_that_sees_the_output_is_the_sum_of_its_parts():
    torch.manual_seed(0)
    score = make_score(6, "output")
    torch.nn.init.normal_(score.decided.weight)
    pooled, output = torch.randn(4, 6), torch.randn(4, 3)
    expected = score.linear(pooled)[:, 0] + decidedness(output) @ score.decided.weight[0]
    torch.testing.assert_close(score(pooled, output), expected)
