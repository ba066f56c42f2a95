"""What model calls cost. Unknown is None, never 0; sums say when a part is unknown."""

from typing import Self

from agentcompass.components.contracts.frozen import Frozen


class Usage(Frozen):
    """Usage of one call, one attempt or a whole run; usages add with `+`."""

    calls: int = 0
    input_tokens: int | None = None
    """Prompt tokens, cached ones included."""
    cached_input_tokens: int | None = None
    output_tokens: int | None = None
    """Completion tokens, reasoning included."""
    reasoning_tokens: int | None = None
    cost_usd: float | None = None
    """Sum over the calls whose price is known; None when none is."""
    uncounted_calls: int = 0
    """Calls whose reply carried no token counts."""
    unpriced_calls: int = 0
    """Calls whose price is unknown; above 0, `cost_usd` is a partial sum."""

    @property
    def cost_partial(self) -> bool:
        return self.cost_usd is not None and self.unpriced_calls > 0

    def __add__(self, other: Self) -> "Usage":
        def known_sum(name: str) -> float | None:
            known = [v for u in (self, other) if (v := getattr(u, name)) is not None]
            return sum(known) if known else None

        return Usage.model_validate(
            {
                "calls": self.calls + other.calls,
                "uncounted_calls": self.uncounted_calls + other.uncounted_calls,
                "unpriced_calls": self.unpriced_calls + other.unpriced_calls,
                **{
                    name: known_sum(name)
                    for name in (
                        "input_tokens",
                        "cached_input_tokens",
                        "output_tokens",
                        "reasoning_tokens",
                        "cost_usd",
                    )
                },
            }
        )
