from agentcompass.components.configuration.merging import merged


def test_objects_merge_deeply_and_the_rest_replaces() -> None:
    under = {"a": {"b": 1, "c": [1, 2]}, "d": 1, "e": {"f": 1}}
    over = {"a": {"c": [3]}, "d": {"x": 1}, "e": None}
    assert merged(under, over) == {"a": {"b": 1, "c": [3]}, "d": {"x": 1}, "e": None}
    assert under == {"a": {"b": 1, "c": [1, 2]}, "d": 1, "e": {"f": 1}}


def test_images_and_policies_replace_where_they_are_such_and_nowhere_else() -> None:
    under = {"setup": {"build": {"context": "."}}, "network": {"run": {"deny": ["a"]}}}
    over = {"setup": {"image": "i"}, "network": {"run": {"allow": ["b"]}}}
    assert merged(under, over) == over
    variables = {"env": {"build": "1", "x": "2"}, "limits": {"allow": {"x": 1}}}
    more = {"env": {"image": "y"}, "limits": {"allow": {"y": 2}}}
    assert merged(variables, more) == {
        "env": {"build": "1", "x": "2", "image": "y"},
        "limits": {"allow": {"x": 1, "y": 2}},
    }
    assert merged({"env": {"x": "2"}}, {"env": {"allow": "1"}}) == {"env": {"x": "2", "allow": "1"}}
