"""How long the rest of a run will take, from how long its own attempts took. Pure but for time.

What was taken over from an earlier run says nothing of speed. Tries that are still running do:
they last at least as long as they have. So the distribution of a try's length is the
product-limit estimate (Kaplan & Meier 1958, J. Am. Stat. Assoc. 53, 457-481) over the tries
started last, ended or not, with an exponential end where the longest has not ended.

The rest is the time until no attempt waits (at the number of tries lately running side by side),
and then the time until the last of those running ends, which is what a long tail takes.
"""

import math
from bisect import bisect_right
from collections.abc import Hashable, Sequence

ENOUGH = 3
"""Attempts that must have ended before anything is said; half of those at once, if that is more."""
LATEST = 500
"""Tries that count, and at least four times those at once: speed changes."""
MEMORY_SECONDS = 60.0
"""How far back "lately" reaches."""
CALM_SECONDS = 5.0
"""The shown end moves towards the newest estimate by a time constant of this or a tenth of the
rest."""
TAIL = 64
"""Running tries looked at for the end; enough for its distribution."""


class TimeLeft:
    def __init__(self) -> None:
        self._began: dict[Hashable, float] = {}
        self._latest: dict[Hashable, float | None] = {}
        """The tries started last, in order, and how long those that ended took."""
        self._tries = self._attempts = self._skipped = 0
        self._due: list[float] = []
        self._busy = self._passed = self._moved_at = 0.0
        self._end: float | None = None
        self._said_at = 0.0

    def started(self, place: Hashable, now: float) -> None:
        self._move(now)
        self._began[place] = now
        self._latest.pop(place, None)  # an earlier try of the same attempt
        self._latest[place] = None
        while len(self._latest) > max(LATEST, 4 * len(self._began)):
            del self._latest[next(iter(self._latest))]

    def ended(self, place: Hashable, now: float, *, for_good: bool = True) -> None:
        """`for_good`: no further try follows."""
        self._move(now)
        length = now - self._began.pop(place, now)
        if place in self._latest:
            self._latest[place] = length
        self._tries += 1
        self._attempts += for_good

    def skipped(self) -> None:
        self._skipped += 1

    def pauses(self, until: float) -> None:
        self._due.append(until)

    def pausing(self, now: float) -> int:
        self._due = [due for due in self._due if due > now]
        return len(self._due)

    def seconds(self, waiting: int, now: float) -> float | None:
        """None: too little is known, or nothing is left."""
        self._move(now)
        enough = self._attempts >= max(ENOUGH, len(self._began) // 2)
        if not enough or not (waiting or self._began):
            return None
        rest = self._rest(waiting, now)
        if self._end is None:
            self._end = now + rest
        else:
            calm = max(CALM_SECONDS, rest / 10)
            self._end += (now + rest - self._end) * -math.expm1((self._said_at - now) / calm)
        self._said_at = now
        return max(self._end - now, 0.0)

    def _rest(self, waiting: int, now: float) -> float:
        ages = sorted(now - began for began in self._began.values())
        ended = sorted(length for length in self._latest.values() if length is not None)
        running = sorted(now - self._began[place] for place in self._latest.keys() & self._began)
        length = _Length(ended, running)
        tries = self._tries / max(self._attempts, 1)
        needed = self._attempts / max(self._attempts + self._skipped, 1) or 1.0
        at_once = max(self._busy / self._passed if self._passed else 1.0, 0.1)
        until_none_waits = waiting * needed * tries * length.mean / at_once
        last = length.until_all_end(ages[:: len(ages) // TAIL + 1] or [0.0])
        pause = max(self._due, default=now) - now
        longest_pause = pause + length.mean if pause > 0 else 0.0
        return max(until_none_waits + last, longest_pause)

    def _move(self, now: float) -> None:
        """Keep the average number of running tries, the latest counting most."""
        if self._passed or self._began:
            kept = math.exp((self._moved_at - now) / MEMORY_SECONDS)
            fresh = MEMORY_SECONDS * (1 - kept)
            self._busy = self._busy * kept + len(self._began) * fresh
            self._passed = self._passed * kept + fresh
        self._moved_at = now


class _Length:
    """How long a try lasts: the share of tries that last longer than a given time."""

    def __init__(self, ended: Sequence[float], running: Sequence[float]) -> None:
        """Both in ascending order, seconds."""
        self._times: list[float] = []
        self._shares: list[float] = []
        share, area, before, at_risk, younger = 1.0, 0.0, 0.0, len(ended) + len(running), 0
        for place, time in enumerate(ended):
            gone = bisect_right(running, time, lo=younger)  # a try of the same age outlasts it
            while younger < gone and running[younger] < time:
                younger += 1
            area += share * (time - before)
            before = time
            share *= 1 - 1 / (at_risk - place - younger)
            self._times.append(time)
            self._shares.append(share)
        self._end = max((sum(ended) + sum(running)) / len(ended), 0.001)
        self.mean = max(area + share * self._end, 0.001)

    def until_all_end(self, ages: Sequence[float]) -> float:
        """The median of the time until tries of these ages have all ended."""
        outlast = [max(self._longer(age), 1e-12) for age in ages]

        def all_ended(after: float) -> float:
            chance = 1.0
            for age, share in zip(ages, outlast, strict=True):
                chance *= 1 - self._longer(age + after) / share
            return chance

        low, high = 0.0, self.mean
        while all_ended(high) < 0.5:
            low, high = high, 2 * high
        for _ in range(10):
            middle = (low + high) / 2
            low, high = (middle, high) if all_ended(middle) < 0.5 else (low, middle)
        return high

    def _longer(self, seconds: float) -> float:
        place = bisect_right(self._times, seconds)
        if place == 0:
            return 1.0
        share = self._shares[place - 1]
        if place == len(self._times):
            share *= math.exp((self._times[-1] - seconds) / self._end)
        return share
