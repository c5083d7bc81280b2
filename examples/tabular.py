"""Rows of a table, with a small MLP as the block: python examples/tabular.py"""

import torch
from sklearn.datasets import load_breast_cancer
from sklearn.preprocessing import scale
from torch import nn
from torch.utils.data import DataLoader, TensorDataset, random_split

import frost

torch.manual_seed(0)
columns, labels = load_breast_cancer(return_X_y=True)
table = TensorDataset(torch.tensor(scale(columns)).float(), torch.tensor(labels))
training, held_out, test = random_split(table, [269, 120, 180])

block = nn.Sequential(nn.LayerNorm(32), nn.Linear(32, 64), nn.GELU(), nn.Linear(64, 32))
model = frost.Frost(nn.Linear(30, 32), block, head=frost.Classifier(32, 2), depth=6)
frost.fit(model, DataLoader(training, batch_size=32, shuffle=True), epochs=10)
calibration = frost.calibrate(model, DataLoader(held_out, batch_size=120), signal="margin")
print(frost.evaluate(model, DataLoader(test, batch_size=180), calibration))

model.save("runs/tabular")
run = frost.load("runs/tabular", model=model)
engine = frost.Engine(run.model, frost.stop_when(confidence=0.99))
results = list(engine.run((int(label), row) for row, label in test))
right = [int(result.output.argmax()) == result.key for result in results]
depth = [result.depth for result in results]
print(f"confidence 0.99: {sum(right)} of {len(test)} right, {sum(depth) / len(test):.2f} steps in the mean")
