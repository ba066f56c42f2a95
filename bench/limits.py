"""Do shared limits hold, and how well are they used, at full size?

    python bench/limits.py [slots alone kill pace]

Takes about four minutes. Starts a Prefect server of its own (in a temporary home) and workers
that use flows/slots.py and flows/pacing.py as runs do; each attempt is a process of its own, and
they are counted from outside. Prints every figure beside its bound; exit 1 if one is missed.
"""

import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from os import environ
from pathlib import Path

import psutil

sys.path.insert(0, str(Path(__file__).parent.parent))

from agentcompass.flows import server
from tests.flows.limit_users import User, mean_alive, most_alive, most_in_a_second, until

LIMIT, WANTED, SECONDS = 8, 32, 0.5

missed: list[str] = []


def main() -> None:
    wanted = sys.argv[1:] or ["slots", "alone", "kill", "pace"]
    with tempfile.TemporaryDirectory() as folder:
        environ["PREFECT_HOME"] = folder
        server.start()
        try:
            for name in wanted:
                {"slots": two_share, "alone": one_alone, "kill": one_is_killed, "pace": pace}[name](
                    Path(folder)
                )
        finally:
            server.stop()
    sys.exit(bool(missed))


def two_share(folder: Path) -> None:
    """Two runs, 32 wanted each, limit 8; the second joins when the first has all slots."""
    first = slots_user(folder / "first", 400)
    until(lambda: first.busy == LIMIT, 60)
    second = slots_user(folder / "second", 300)
    users = [first, second]
    with counting(users) as counts:
        for user in users:
            user.finish()
    both_since = second.times("ready")[0]
    both_until = min(user.times("begin")[-1] for user in users)
    show("two share: most alive", most_alive(users), at_most=LIMIT)
    show("two share: most alive, by process", max(counts), at_most=LIMIT)
    show("two share: mean use", mean_alive(users, both_since, both_until), at_least=7.0)
    joined = second.times("begin")[0] - both_since
    show("two share: second has its first slot, s", joined, at_most=10)
    shares = [mean_alive([user], both_since + 5, both_until) for user in users]
    show("two share: smaller mean share", min(shares), at_least=3)


def one_alone(folder: Path) -> None:
    user = slots_user(folder / "alone", 400)
    user.finish()
    begun = user.times("begin")
    use = mean_alive([user], user.times("ready")[0], begun[-1])
    show("one alone: most alive", most_alive([user]), at_most=LIMIT)
    show("one alone: mean use", use, at_least=7.6)


def one_is_killed(folder: Path) -> None:
    killed, other = slots_user(folder / "killed", 4000), slots_user(folder / "other", 4000)
    until(lambda: killed.busy >= 3 and other.busy >= 3, 60)
    time.sleep(3)
    killed.kill()
    took = until(lambda: other.busy == LIMIT, 120)
    show("after kill -9: the other has all slots, s", took, at_most=90)
    show("after kill -9: most alive", most_alive([killed, other]), at_most=LIMIT)
    other.kill()


def pace(folder: Path) -> None:
    for qps, openings, shortest, longest, crowd in [
        (5, 60, 11, 18, 8),
        (0.5, 6, 8, 14, 2),
        (50, 500, 9, 15, 75),
    ]:
        logs = [folder / f"pace-{qps}-{number}" for number in range(2)]
        users = [User.start("pace", f"pace{qps}", qps, openings // 2, log=log) for log in logs]
        for user in users:
            user.finish()
        turns = sorted(at for user in users for at in user.times("turn"))
        name = f"{openings} openings at {qps}/s"
        show(f"{name}: seconds", turns[-1] - turns[0], at_least=shortest, at_most=longest)
        show(f"{name}: fullest second", most_in_a_second(turns), at_most=crowd)


def slots_user(log: Path, attempts: int) -> User:
    return User.start("slots", "bench", LIMIT, WANTED, attempts, SECONDS, log=log)


@contextmanager
def counting(users: Sequence[User]) -> Iterator[list[int]]:
    """Count the attempts' processes, as the operating system has them, ten times a second."""
    counts, ended = [0], threading.Event()

    def count() -> None:
        while not ended.wait(0.1):
            alive = 0
            for user in users:
                try:
                    children = psutil.Process(user.process.pid).children()
                    alive += sum(child.name() == "sleep" for child in children)
                except psutil.Error:
                    continue
            counts.append(alive)

    counter = threading.Thread(target=count)
    counter.start()
    try:
        yield counts
    finally:
        ended.set()
        counter.join()


def show(
    name: str, value: float, at_least: float | None = None, at_most: float | None = None
) -> None:
    bounds = [f">= {at_least}"] if at_least is not None else []
    bounds += [f"<= {at_most}"] if at_most is not None else []
    good = (at_least is None or value >= at_least) and (at_most is None or value <= at_most)
    if not good:
        missed.append(name)
    print(f"{name:45} {value:8.2f}  {' '.join(bounds):16} {'' if good else 'MISSED'}", flush=True)


if __name__ == "__main__":
    main()
