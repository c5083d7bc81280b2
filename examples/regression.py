"""Numbers instead of classes, right if within a tolerance: python examples/regression.py"""

import torch
from sklearn.datasets import make_friedman1
from torch import nn
from torch.utils.data import DataLoader, TensorDataset, random_split

import frost

torch.manual_seed(0)
columns, targets = make_friedman1(4000, n_features=10, noise=0.2, random_state=0)
mean, deviation = targets.mean(), targets.std()    # the model answers in standard deviations from the mean
table = TensorDataset(torch.tensor(columns).float(), torch.tensor((targets - mean) / deviation).float())
training, held_out, test = random_split(table, [2000, 1000, 1000])

block = nn.Sequential(nn.LayerNorm(32), nn.Linear(32, 64), nn.GELU(), nn.Linear(64, 32))
model = frost.Frost(nn.Linear(10, 32), block, head=frost.Regressor(32, tolerance=0.5 / deviation), depth=8)
frost.fit(model, DataLoader(training, batch_size=64, shuffle=True), epochs=20)
calibration = frost.calibrate(model, DataLoader(held_out, batch_size=100))    # by the halting score
print(frost.evaluate(model, DataLoader(test, batch_size=100), calibration))   # right is: within 0.5 of the truth

model.save("runs/regression")
run = frost.load("runs/regression", model=model)
engine = frost.Engine(run.model, calibration.at_mean_depth(3))
for result in engine.run((float(target), row) for row, target in list(test)[:5]):
    truth, answer = (mean + deviation * number for number in (result.key, result.output.item()))
    print(f"{truth:5.2f} is estimated as {answer:5.2f} after {result.depth} steps")
