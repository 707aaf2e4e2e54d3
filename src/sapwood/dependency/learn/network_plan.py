"""Plan of the networks of a dependency parser: how many there are, and their passes.

Without a budget, plans count words: the same treebank has the same networks on any machine, however
busy. A budget in seconds allows fewer passes, and is measured while the networks are trained.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import inf
from typing import NamedTuple

from sapwood.core.progress import tell
from sapwood.networks.training import NetworkPlan


@dataclass(frozen=True)
class ArcNetworkSettings:
    """Settings of the networks that users do not set.

    They were chosen on documents held out of English EWT's train part.

    Attributes
    ----------
    words_read, words_power
        Words that all networks read in all their passes, for a treebank of 100,000 words; they grow
        with this power of the size of the treebank.
    pretrained_fraction
        Words that networks with given vectors read, as a fraction of those that others read.
    fewest_passes, most_passes
        Bounds of the passes of one network, unless the user names a number.
    passes_of_two, words_of_two
        With fewer passes for each of two networks there is one, which makes them all: two of 15
        passes are as good as one of 30, and take longer to parse. So there is for a treebank of
        fewer words, which is learnt within a minute or two.
    least_passes
        With time for fewer passes there is no network: it would be worse than the other members.
    dropout, dropout_words
        Dropout of units in networks that read at least this number of words; with fewer it is that
        of `NetworkPlan`, since shorter trainings are too short to overfit.
    side_loss
        Weight of the losses of tags and relations.
    weights, pretrained_weights
        Ensemble weight of one network, and of two or more, beside the parsers by features; of
        networks that read given vectors.
    time_fraction
        Fraction of the remaining budget that the networks may take.
    word_seconds, step_seconds, given_seconds
        CPU seconds of one core: of a word that is read, of a step of Adam, and of the projection of
        1,000 given numbers of a word.
    """

    words_read: float = 3.7e6
    words_power: float = 0.5
    pretrained_fraction: float = 0.6
    fewest_passes: int = 8
    most_passes: int = 30
    passes_of_two: int = 25
    words_of_two: int = 15_000
    least_passes: int = 3
    dropout: float = 0.33
    dropout_words: float = 2.4e6
    side_loss: float = 1.0
    weights: tuple[float, float] = (0.65, 0.65)
    pretrained_weights: tuple[float, float] = (0.65, 0.7)
    time_fraction: float = 0.95
    word_seconds: float = 2.5e-4
    step_seconds: float = 0.012
    given_seconds: float = 3e-5


class NetworkPlans(NamedTuple):
    """The networks that are trained one after the other, and their ensemble weight."""

    plans: tuple[NetworkPlan, ...]
    weight: float


def usual_passes(n_words: int, settings: ArcNetworkSettings, *, is_given: bool = False) -> float:
    """Passes of all networks together over a treebank of n words.

    Examples
    --------
    >>> settings = ArcNetworkSettings()
    >>> [round(usual_passes(n, settings)) for n in (2_000, 20_000, 200_000, 10**6)]
    [262, 83, 26, 12]
    """
    words = float(settings.words_read * (n_words / 1e5) ** settings.words_power)
    words *= settings.pretrained_fraction if is_given else 1.0
    return max(words / max(n_words, 1), settings.fewest_passes)


def arc_pass_seconds(
    n_words: int, batch_words: int, n_given: int, settings: ArcNetworkSettings
) -> float:
    """Estimate the CPU seconds of a pass of a network over n words, in batches of some."""
    each = settings.word_seconds + settings.given_seconds * n_given / 1000
    return each * n_words + settings.step_seconds * n_words / batch_words


def plan_networks(
    n_words: int,
    *,
    most: int,
    passes: int | None = None,
    seed: int = 0,
    seconds: float = inf,
    n_given: int = 0,
    settings: ArcNetworkSettings | None = None,
) -> NetworkPlans | None:
    """Plan the networks for a treebank of n words; None where there is no time for one.

    Parameters
    ----------
    most
        The most networks.
    passes
        Of each network; None chooses.
    seconds
        That the networks may take in all.
    n_given
        Numbers that each word is given from elsewhere.

    Examples
    --------
    >>> for n_words in (20_000, 200_000):
    ...     found = plan_networks(n_words, most=2)
    ...     print([plan.passes for plan in found.plans], [plan.seed for plan in found.plans])
    [30, 30] [0, 1000]
    [26] [0]
    >>> plan_networks(200_000, most=2, seconds=60) is None
    True
    """
    settings = settings or ArcNetworkSettings()
    room = inf
    if seconds < inf:
        batch_words = NetworkPlan.usual(n_words).words
        room = int(seconds / arc_pass_seconds(n_words, batch_words, n_given, settings))
    if passes is None:
        wanted = min(usual_passes(n_words, settings, is_given=bool(n_given)), room)
        most = 1 if n_words < settings.words_of_two else most
        n = max(1, min(most, int(wanted / settings.passes_of_two)))
        each = min(int(wanted / n), settings.most_passes)
    else:
        n = max(1, min(most, int(min(room, passes * most) / passes)))
        each = int(min(passes, room))
    if each < min(settings.least_passes, passes or settings.least_passes):
        return None
    plans = tuple(_plan(n_words, each, seed + 1000 * k, settings) for k in range(n))
    weights = settings.pretrained_weights if n_given else settings.weights
    return NetworkPlans(plans, weights[min(n, 2) - 1])


def _plan(n_words: int, passes: int, seed: int, settings: ArcNetworkSettings) -> NetworkPlan:
    plan = replace(NetworkPlan.usual(n_words, passes, seed), side_loss=settings.side_loss)
    is_long = passes * n_words >= settings.dropout_words
    return replace(plan, dropout=settings.dropout) if is_long else plan


def passes_in_time(
    planned: int, end: float, now: Callable[[], float]
) -> Callable[[int], int | None]:
    """A function from the passes that are done to those that end in time at the pace so far.

    It returns None where there is no end. Seconds before the first pass count as part of it.
    """
    began = now()

    def count(done: int) -> int | None:
        if end == inf:
            return None
        each = (now() - began) / done
        return min(planned, done + max(0, int((end - now()) / max(each, 1e-9))))

    return count


def follow_passes(
    name: str, planned: int, end: float, now: Callable[[], float]
) -> Callable[..., int | None]:
    """A listener that announces each pass of a network, and returns how many end in time."""
    count = passes_in_time(planned, end, now)

    def listen(iteration: int, log_likelihood: float) -> int | None:
        in_time = count(iteration)
        tell(member=name, iteration=iteration, log_likelihood=log_likelihood)
        return in_time

    return listen
