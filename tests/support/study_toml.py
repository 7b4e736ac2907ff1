"""Study files as TOML text: a writer for tables of plain values, and a valid study to change."""

import json
from collections.abc import Mapping
from copy import deepcopy

from secureproto.simulation.heart.hospitals import study_path

HEART = study_path().read_bytes()

Table = dict[str, object]


def tabular_table() -> Table:
    """A valid tabular study with every kind of feature and rule, as the table of its file."""
    return deepcopy(
        {
            "name": "small",
            "title": "Small",
            "classes": ["no", "yes"],
            "model": {"name": "mlp", "embedding_width": 4, "hidden": [8]},
            "data": {
                "kind": "tabular",
                "missing_values": ["", "NA"],
                "label": {"column": "out", "values": {"0": "no", "1": "yes", "2": "yes"}},
                "features": [
                    {"name": "age", "kind": "number", "min": 20, "max": 80, "unit": "years"},
                    {"name": "dose", "kind": "number", "min": 0.0, "max": 2.0, "missing": "indicator"},
                    {"name": "rate", "kind": "number", "min": 40, "max": 200, "missing": "fixed", "fill": 80},
                    {"name": "sex", "kind": "category", "values": ["f", "m"]},
                    {"name": "pain", "kind": "category", "values": ["1", "2", "3"], "missing": "indicator"},
                    {"name": "ecg", "kind": "category", "values": ["0", "1"], "missing": "fixed", "fill": "0"},
                ],
            },
            "training": {"local_steps": 5, "batch_size": 8, "learning_rate": 0.05},
            "relation": {"representation": "prior", "normalisation": "softmax", "temperature": 0.1},
            "rounds": {"total": 10, "quorum": 2, "deadline": "10m"},
            "stopping": {"relative_tolerance": 0.01, "patience": 3},
            "bounds": {"max_update_norm": 10.0},
        }
    )


def private_table() -> Table:
    """A valid tabular study with privacy for training and prototypes."""
    table = tabular_table()
    del table["stopping"]
    put(table, "model.normalise_embedding", True)
    table["privacy"] = {
        "max_epsilon_study": 8.0,
        "max_delta": 1e-5,
        "training": {
            "noise_multiplier": 1.5,
            "max_grad_norm": 1.0,
            "sample_rate": 0.1,
            "steps": 20,
            "expected_batch": 8.0,
            "learning_rate": 0.5,
        },
        "prototypes": {"noise_multiplier": 4.0},
    }
    return table


def image_table() -> Table:
    """A valid image study of 8 × 6 grey pixels."""
    table = tabular_table()
    table["model"] = {"name": "cnn", "embedding_width": 4, "channels": 1, "height": 8, "width": 6}
    table["data"] = {"kind": "image"}
    return table


def put(table: Table, path: str, value: object) -> Table:
    """The table with the value at a dotted path; None removes the key, a number in the path is an index."""
    node: object = table
    *parents, last = path.split(".")
    for part in parents:
        node = node[int(part)] if isinstance(node, list) else _table(node).setdefault(part, {})
    if isinstance(node, list):
        node[int(last)] = value
    elif value is None:
        _table(node).pop(last, None)
    else:
        _table(node)[last] = value
    return table


def dumps(table: Mapping[str, object]) -> bytes:
    """The TOML of a table, inner tables inline."""
    return "".join(f"{_key(key)} = {_value(value)}\n" for key, value in table.items()).encode()


def _value(value: object) -> str:
    match value:
        case bool():
            return str(value).lower()
        case str():
            return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
        case int() | float():
            return repr(value)
        case list() | tuple():
            return f"[{', '.join(map(_value, value))}]"
        case Mapping():
            return f"{{ {', '.join(f'{_key(key)} = {_value(item)}' for key, item in value.items())} }}"
    raise TypeError(type(value).__name__)


def _key(key: object) -> str:
    return _value(str(key))


def _table(node: object) -> Table:
    assert isinstance(node, dict)
    return node
