from agentcompass.components.configuration.merging import merged


def test_objects_merge_deeply_and_the_rest_replaces() -> None:
    under = {"a": {"b": 1, "c": [1, 2]}, "d": 1, "e": {"f": 1}}
    over = {"a": {"c": [3]}, "d": {"x": 1}, "e": None}
    assert merged(under, over) == {"a": {"b": 1, "c": [3]}, "d": {"x": 1}, "e": None}
    assert under == {"a": {"b": 1, "c": [1, 2]}, "d": 1, "e": {"f": 1}}
