"""The digits run that comes with the package learns another question, odd or even: python examples/fine_tune.py"""

import torch
from torch.utils.data import DataLoader, TensorDataset

import frost
from frost.data.digits import load_digits

torch.manual_seed(0)
digits = load_digits()    # scikit-learn's, 1×8×8 in [0, 1], parted as for the run: it has not seen `test`
training, held_out, test = (TensorDataset(part.images, part.labels % 2)
                            for part in (digits.train, digits.validation, digits.test))

model = frost.create("digits", classes=2, pretrained=True)    # all its weights but those of the head
frost.fit(model, DataLoader(training, batch_size=32, shuffle=True), epochs=4)
calibration = frost.calibrate(model, DataLoader(held_out, batch_size=100), signal="confidence")
print(frost.evaluate(model, DataLoader(test, batch_size=100), calibration))

model.save("runs/fine_tune")
run = frost.load("runs/fine_tune")    # no model=…: the folder says how to build one that frost knows by name
engine = frost.Engine(run.model, calibration.at_mean_depth(3))
for result in engine.run((int(label), image) for image, label in list(test)[:8]):
    names = ("even", "odd")
    print(f"{names[result.key]}, answered {names[int(result.output.argmax())]} after {result.depth} steps")
