"""The names of refitted judges."""

from berdslib.judging.base import short_name
from berdslib.judging.baselines import Overlap
from berdslib.judging.echo import Echo
from berdslib.judging.refit import Calibration, Refit


def test_a_refitted_judge_has_the_name_of_its_base_and_an_id_of_its_own():
    first, second = (Refit(Overlap(), Calibration(slope, 0.0, 0.5)) for slope in (1.0, 2.0))
    assert short_name(first.id) == "refit(overlap)" and first.id != second.id
    assert short_name(Echo(first).id) == "echo1:refit(overlap)"
    assert short_name(Refit(first, second.calibration).id) == "refit(refit(overlap))"
