"""`frost.fit`: any loader, exact resume, and what it refuses."""

import json
import warnings

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import frost
from frost.data.augment import Augmentation
from frost.halting.ranking import HaltingConfig
from frost.training.settings import TrainConfig

X = torch.randn(40, 6, generator=torch.Generator().manual_seed(0))
Y = (X[:, 0] > 0).long()
BATCHES = [(X[:20], Y[:20]), (X[20:], Y[20:])]


def make(dropout: float = 0.0, **options):
    torch.manual_seed(0)
    block = nn.Sequential(nn.LayerNorm(8), nn.Dropout(dropout), nn.Linear(8, 8))
    return frost.Frost(nn.Linear(6, 8), block, **{"channels": 8, "classes": 2, "depth": 3, **options})


def settings(epochs: int = 3, **fields):
    return {"config": TrainConfig(epochs=epochs, learning_rate=1e-2, save_every=1, precision="float32", **fields),
            "is_shown": False}


class Noisy(TensorDataset):
    """Augments by random numbers of PyTorch's, as most transforms do."""

    def __getitem__(self, index):
        x, y = super().__getitem__(index)
        return x + 0.1 * torch.randn_like(x), y


class Stopping:
    """Another loader, whose plug is pulled at its so-manieth batch."""

    def __init__(self, loader, at):
        self.loader, self.left = loader, at

    def __len__(self):
        return len(self.loader)

    def __iter__(self):
        for batch in self.loader:
            if self.left == 0:
                raise OSError("pulled")
            self.left -= 1
            yield batch


@pytest.mark.parametrize("at", [1, 5, 7])
def test_a_shuffling_loader_with_random_transforms_and_dropout_goes_on_bit_for_bit(at, tmp_path):
    loader = DataLoader(Noisy(X, Y), batch_size=8, shuffle=True)
    straight = make(dropout=0.3)
    frost.fit(straight, loader, **settings())
    with pytest.raises(OSError, match="pulled"):
        frost.fit(make(dropout=0.3), Stopping(loader, at), out=tmp_path / "run", **settings())
    torch.manual_seed(99)    # another process has other random numbers
    resumed = make(dropout=0.3)
    frost.fit(resumed, loader, out=tmp_path / "run", resume=True, **settings())
    assert all(torch.equal(a, b) for a, b in zip(straight.state_dict().values(), resumed.state_dict().values(),
                                                 strict=True))
    steps = [json.loads(line)["step"] for line in (tmp_path / "run" / "logbook.jsonl").read_text().splitlines()]
    assert steps == list(range(1, 16))


def test_the_random_numbers_of_the_caller_are_left_alone():
    torch.manual_seed(3)
    expected = torch.rand(1)
    torch.manual_seed(3)
    model = make()
    torch.manual_seed(3)
    frost.fit(model, DataLoader(TensorDataset(X, Y), batch_size=8, shuffle=True), **settings(1))
    assert torch.equal(torch.rand(1), expected)


def test_a_training_that_has_ended_is_not_done_again(tmp_path):
    model = make()
    frost.fit(model, BATCHES, out=tmp_path / "run", **settings())
    other = make()
    done = frost.fit(other, BATCHES, out=tmp_path / "run", resume=True, **settings())
    assert done.last is None
    assert torch.equal(other.head.readout.weight, model.head.readout.weight)
    with pytest.raises(ValueError, match="has ended"):
        frost.fit(make(), BATCHES, out=tmp_path / "run", **settings())
    with pytest.raises(ValueError, match=r"another run: its train\.epochs is 3, here it is 4"):
        frost.fit(make(), BATCHES, out=tmp_path / "run", resume=True, **settings(4))


def test_a_validation_is_looked_at_after_each_epoch(tmp_path):
    done = frost.fit(make(), BATCHES, validation=BATCHES[1:], out=tmp_path / "run", **settings())
    lines = [json.loads(line) for line in (tmp_path / "run" / "validation.jsonl").read_text().splitlines()]
    assert [line["epoch"] for line in lines] == [1, 2, 3]
    assert len(done.validation.accuracy) == len(done.validation.loss) == 3


def test_a_generator_is_enough_for_one_epoch():
    done = frost.fit(make(), (batch for batch in BATCHES), epochs=1, steps=2, is_shown=False)
    assert done.steps == 2


def test_a_loader_that_cannot_be_rewound_says_what_is_lost(tmp_path):
    with pytest.raises(OSError, match="pulled"):
        frost.fit(make(), iter(Stopping(BATCHES, 1)), out=tmp_path / "run", steps=2, **settings(1))
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        frost.fit(make(), iter([*BATCHES, *BATCHES]), out=tmp_path / "run", steps=2, resume=True, **settings(1))
    assert any("cannot be rewound" in str(warning.message) for warning in told)


def test_an_average_of_the_weights_is_what_is_kept():
    plain, averaged = make(), make()
    frost.fit(plain, BATCHES, **settings())
    frost.fit(averaged, BATCHES, **settings(average=0.9))
    assert not torch.equal(plain.head.readout.weight, averaged.head.readout.weight)
    assert averaged.head.readout.weight.requires_grad


class Endless:
    def __iter__(self):
        while True:
            yield BATCHES[0]


def test_a_loader_without_a_length_says_how_long_an_epoch_is():
    with pytest.raises(ValueError, match="has no length"):
        frost.fit(make(), Endless(), epochs=2, is_shown=False)
    assert frost.fit(make(), Endless(), epochs=2, steps=3, is_shown=False).steps == 6


BAD = {
    "empty": ([], "gives no batch at all"),
    "no pair": ([X], "must give pairs"),
    "three": ([(X, Y, Y)], "got 3 parts"),
    "targets": ([(X, Y[:3])], "as many targets as inputs"),
    "floats": ([(X, Y.float())], "must be whole numbers"),
    "dense targets": ([(X, Y[:, None])], "one class a sample"),
    "shape": ([(torch.randn(4, 5), Y[:4])], "stem does not take"),
    "nan": ([(X.clone().fill_(torch.nan), Y)], "must be finite"),
    "generator": ((batch for batch in BATCHES), "has no length; say how many"),
    "generator twice": (iter(BATCHES), "cannot be rewound for 3 epochs"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_loader_is_refused_before_anything_is_kept(name, tmp_path):
    loader, sentence = BAD[name]
    options = {"steps": 2} if name == "generator twice" else {}
    with pytest.raises(ValueError, match=sentence) as told:
        frost.fit(make(), loader, out=tmp_path / "run", **settings(), **options)
    assert "\n" not in str(told.value)
    assert not (tmp_path / "run").exists()


def test_a_loss_or_quality_of_the_wrong_shape_is_refused():
    with pytest.raises(ValueError, match="a loss must give one number a sample"):
        frost.fit(make(), BATCHES, loss=lambda outputs, targets: nn.functional.cross_entropy(outputs, targets),
                  **settings())
    with pytest.raises(ValueError, match="a quality must give one number a sample"):
        frost.calibrate(make(), BATCHES, quality=lambda outputs, targets: outputs, is_shown=False)
    with pytest.raises(ValueError, match=r"a quality must lie in \[0, 1\], got values from 7 to 7"):
        frost.calibrate(make(), BATCHES, quality=lambda outputs, targets: torch.full((len(targets),), 7.0),
                        is_shown=False)


def test_a_head_without_a_loss_or_quality_asks_for_one():
    own = make(head=frost.OwnHead(nn.Linear(8, 1), 8), channels=None, classes=None)
    with pytest.raises(ValueError, match="has no loss of its own"):
        frost.fit(own, BATCHES, **settings())
    regressor = make(head=frost.Regressor(8), channels=None, classes=None)
    numbers = [(X, X[:, 0])]
    frost.fit(regressor, numbers, **settings())
    with pytest.raises(ValueError, match="a Regressor takes tolerance="):
        frost.calibrate(regressor, numbers, is_shown=False)


def test_a_fractional_quality_has_no_guarantee():
    model = make()
    halves = frost.calibrate(model, BATCHES, quality=lambda outputs, targets: torch.full((len(targets),), 0.5),
                             is_shown=False)
    assert frost.Calibration.from_dict(halves.to_dict()).quality.tolist() == halves.quality.tolist()
    with pytest.raises(ValueError, match="a quality of 0 or 1"):
        halves.at_accuracy_loss(1.0)


@pytest.mark.parametrize(("options", "sentence"), [
    ({"config": TrainConfig(augment=Augmentation(flip=True))}, "change inputs in the loader instead"),
    ({"resume": True}, "name the folder"),
    ({"halting": HaltingConfig(refit=8), "epochs": 1, "steps": 2}, "needs the training batches again")])
def test_what_does_not_go_together_is_refused(options, sentence):
    loader = iter(BATCHES) if "steps" in options else BATCHES
    with pytest.raises(ValueError, match=sentence):
        frost.fit(make(), loader, is_shown=False, **options)


def test_what_is_no_model_of_ours_is_refused():
    with pytest.raises(ValueError, match="fit takes a model with begin, step and read"):
        frost.fit(nn.Linear(6, 2), BATCHES)


def test_a_model_without_weights_is_refused():
    bare = frost.iterate(lambda x: x, lambda x: x, lambda x: x, depth=2)
    with pytest.raises(ValueError, match="no weight to train"):
        frost.fit(bare, [(torch.randn(4, 3), torch.zeros(4, dtype=torch.long))], epochs=1, is_shown=False)


def test_what_is_given_beside_the_configuration_wins():
    done = frost.fit(make(), BATCHES, 1, config=TrainConfig(epochs=9), learning_rate=1e-4, is_shown=False)
    assert done.steps == 2
    assert done.last.learning_rate <= 1e-4


def test_doubles_are_taken_as_the_model_has_it():
    doubles = [(x.double().numpy(), y.numpy()) for x, y in BATCHES]
    model, plain = make(), make()
    frost.fit(model, doubles, 1, is_shown=False)
    frost.fit(plain, BATCHES, 1, is_shown=False)
    assert torch.equal(model.head.readout.weight, plain.head.readout.weight)
    frost.calibrate(model, doubles, is_shown=False)
    assert frost.evaluate(model, doubles).rows == frost.evaluate(model, BATCHES).rows


def test_judges_given_to_fit_are_remembered():
    model = make(head=frost.Regressor(8), channels=None, classes=None)
    numbers = [(x, x[:, 0]) for x, _ in BATCHES]
    frost.fit(model, numbers, 1, quality=frost.within(1.0), is_shown=False)
    frost.calibrate(model, numbers, is_shown=False)
    assert frost.evaluate(model, numbers).inputs == 40


def test_a_calibration_of_other_weights_is_refused():
    model = make()
    frost.calibrate(model, BATCHES, is_shown=False)
    frost.fit(model, BATCHES, 1, is_shown=False)
    with pytest.raises(frost.NotCalibrated, match="made for other weights"):
        frost.evaluate(model, BATCHES)


def test_budgets_that_a_rule_cannot_reach_are_named():
    model = make(depth=6)
    frost.calibrate(model, BATCHES, "patience", is_shown=False)
    found = frost.evaluate(model, BATCHES)
    assert found.missing
    assert "No threshold gives 75 % of full depth" in str(found)
    with pytest.raises(ValueError, match="shares of full depth"):
        frost.evaluate(model, BATCHES, fractions=[2.0])


class Length(nn.Module):
    """A head that gives one number a sample, without an axis for it."""

    def forward(self, hidden):
        return hidden.sum(dim=1)


def test_one_number_a_sample_needs_no_axis_of_its_own():
    model = make(head=frost.OwnHead(Length(), 8, loss=nn.SmoothL1Loss(reduction="none"), quality=frost.within(1.0)),
                 channels=None, classes=None)
    numbers = [(x, x[:, 0]) for x, _ in BATCHES]
    frost.fit(model, numbers, 2, is_shown=False)
    frost.calibrate(model, numbers, is_shown=False)
    results = list(frost.Engine(model, frost.stop_when(change=0.1)).run(X))
    assert all(result.error is None and result.output.shape == () for result in results)


@pytest.mark.parametrize(("targets", "sentence"), [
    (Y + 1, "between 0 and 1, the classes of the outputs, got 1 to 2"), (Y - 1, "got -1 to 0"),
    (Y.bool(), r"use targets\.long\(\)")])
def test_common_mistakes_with_targets_are_told(targets, sentence):
    with pytest.raises(ValueError, match=sentence):
        frost.fit(make(), [(X, targets)], 1, is_shown=False)
    frost.fit(make(), [(X, Y.int())], 1, is_shown=False)    # any whole number will do


def test_single_samples_and_swapped_arguments_are_told():
    with pytest.raises(ValueError, match="wrap a data set in"):
        frost.fit(make(), TensorDataset(X, Y), 1, is_shown=False)
    with pytest.raises(ValueError, match="goes by its name"):
        frost.calibrate(make(), X, Y)


def test_an_engine_says_what_a_user_may_have_meant():
    model = make().expects(X[0])
    engine = frost.Engine(model, frost.AtDepth(2))
    told = [result.error for result in engine.run([(X[0], Y[0]), (Y[0], X[0]), X[:3]])]
    assert "leave the target out" in told[0]
    assert "a key must not be a tensor" in told[1]
    assert "this is a batch" in told[2]
    with pytest.raises(ValueError, match=r"add the batch in front: x\[None\]"):
        engine.predict(X[0])


def test_a_fit_that_failed_leaves_the_model_as_it_was():
    model = make().eval()
    for bad in ([(torch.randn(4, 7), Y[:4])], [(X, Y.float())]):
        with pytest.raises(ValueError, match=r"stem does not take|whole numbers"):
            frost.fit(model, bad, 1, is_shown=False)
    with pytest.raises(ValueError, match="one number a sample"):
        frost.fit(model, BATCHES, 1, loss=lambda outputs, targets: outputs.sum(), is_shown=False)
    assert model.signature is None
    assert not model.training
    frost.fit(model, BATCHES, 1, is_shown=False)    # by the head's own loss
    assert model.signature.parts[0].shape == (6,)


def test_the_last_fit_says_what_inputs_look_like():
    model = frost.Frost(nn.Linear(6, 8), nn.Tanh(), frost.Classifier(8, 2), depth=2)
    for length in (3, 9):
        tokens = [(torch.randn(4, length, 6), Y[:4])]
        frost.fit(model, tokens, 1, is_shown=False)
        assert model.signature.parts[0].shape == (length, 6)


@pytest.mark.parametrize("own", [True, False])
def test_a_loader_with_a_generator_of_its_own_goes_on_bit_for_bit(own, tmp_path):
    def loader():
        generator = torch.Generator().manual_seed(1) if own else None
        return DataLoader(TensorDataset(X, Y), batch_size=8, shuffle=True, generator=generator)

    straight, resumed = make(), make()
    frost.fit(straight, loader(), **settings())

    class Pulled(DataLoader):
        left = 7

        def __iter__(self):
            for batch in super().__iter__():
                Pulled.left -= 1
                if Pulled.left < 0:
                    raise OSError("pulled")
                yield batch

    pulled = Pulled(TensorDataset(X, Y), batch_size=8, shuffle=True, generator=loader().generator)
    with pytest.raises(OSError, match="pulled"):
        frost.fit(make(), pulled, out=tmp_path / "run", **settings())
    frost.fit(resumed, loader(), out=tmp_path / "run", resume=True, **settings())
    assert torch.equal(straight.head.readout.weight, resumed.head.readout.weight)


@pytest.mark.parametrize(("options", "sentence"), [
    ({"validation": iter(BATCHES)}, "looked at after every epoch"),
    ({"halting": HaltingConfig(calibrate="last-epoch")}, "is for `frost train`"),
    ({"loader": 5}, "must be an iterable")])
def test_what_is_known_at_once_is_told_at_once(options, sentence):
    with pytest.raises(ValueError, match=sentence):
        frost.fit(make(), options.pop("loader", BATCHES), 1, is_shown=False, **options)


def test_a_score_that_is_not_there_cannot_be_taught():
    linear = nn.Linear(6, 2)
    model = frost.iterate(lambda x: x, lambda x: x / 2, linear, depth=2)
    with pytest.raises(ValueError, match="no halting score to be taught"):
        frost.fit(model, BATCHES, 1, halting=HaltingConfig(objective="act"), is_shown=False)


def test_one_answer_a_sample_always_counts():
    with pytest.raises(ValueError, match="got -100 to -100"):
        frost.calibrate(make(), [(X, torch.full((40,), -100))], is_shown=False)


def test_the_folder_of_a_fit_takes_the_calibration_that_comes_later(tmp_path):
    model = make()
    frost.fit(model, BATCHES, out=tmp_path / "run", **settings())
    calibration = frost.calibrate(model, BATCHES, is_shown=False)
    model.save(tmp_path / "run")
    run = frost.load(tmp_path / "run", model=make())
    assert run.calibration.to_dict() == calibration.to_dict()
    assert (tmp_path / "run" / "logbook.jsonl").exists()
    assert run.model.signature == model.signature
