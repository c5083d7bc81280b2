"""An answer at each pixel: which of them belong to the blob that was clicked? python examples/segmentation.py"""

import torch
from torch import Tensor, nn
from torch.nn.functional import avg_pool2d, max_pool2d, one_hot
from torch.utils.data import DataLoader, TensorDataset, random_split

import frost


def clicked_blobs(count: int) -> tuple[Tensor, Tensor]:
    """Blobs and one click, (n, 2, 12, 12), and the pixels of the clicked blob, (n, 12, 12); large ones take longer."""
    blobs = (avg_pool2d(torch.randn(count, 1, 12, 12), 5, stride=1, padding=2) > 0.15).float()
    places = (blobs * torch.rand_like(blobs)).flatten(1).argmax(dim=1)
    clicks = reached = one_hot(places, 144).view(-1, 1, 12, 12).float()
    for _ in range(30):    # the answer spreads by a pixel at a time
        reached = max_pool2d(reached, 3, stride=1, padding=1) * blobs
    return torch.cat([blobs, clicks], dim=1), reached[:, 0].long()


torch.manual_seed(0)
training, held_out, test = random_split(TensorDataset(*clicked_blobs(3000)), [2000, 500, 500])

block = nn.Sequential(nn.GroupNorm(4, 16), nn.Conv2d(16, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, 16, 3, padding=1))
model = frost.Frost(nn.Conv2d(2, 16, 3, padding=1), block, head=frost.Dense(16, 2), depth=8)
frost.fit(model, DataLoader(training, batch_size=16, shuffle=True), epochs=6)
calibration = frost.calibrate(model, DataLoader(held_out, batch_size=100), signal="confidence")
print(frost.evaluate(model, DataLoader(test, batch_size=100), calibration))    # right is: right at every pixel

model.save("runs/segmentation")
run = frost.load("runs/segmentation", model=model)
engine = frost.Engine(run.model, calibration.at_mean_depth(4))
answers = list(engine.run(image for image, _ in test))
right = [(answer.output.argmax(dim=-1) == blob).float().mean() for answer, (_, blob) in zip(answers, test, strict=True)]
depths = [answer.depth for answer in answers]
print(f"{100 * sum(right) / len(test):.1f} % of pixels right, {min(depths)} to {max(depths)} steps")
