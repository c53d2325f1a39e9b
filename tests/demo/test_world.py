"""The made-up world: some columns matter, the others only seem to."""

from __future__ import annotations

from easeml_meter.demo.world import REAL, MailWorld, honest, tuned


def test_only_tuning_to_the_validation_mails_makes_a_filter_worse() -> None:
    world = MailWorld(seed=11)
    train, validation, hidden = world.draw(600), world.draw(150), world.draw(8_000)
    errors = [hidden.error(each) for each in honest(train)]
    assert errors == sorted(errors, reverse=True)
    picked = [hidden.error(each) for each in tuned(train, validation)]
    assert picked[-1] > 1.5 * errors[-1]
    assert validation.error([*tuned(train, validation)][-1]) < errors[-1]


def test_the_same_seed_draws_the_same_mails() -> None:
    one, other = MailWorld(5).draw(3), MailWorld(5).draw(3)
    assert (one.inputs == other.inputs).all()
    assert one.inputs.shape[1] > REAL
