"""Makes a Feast project for each directory given and fills its online store: fill.py DIRECTORY...

Every directory has a feature_store.yaml already. What is written is known to the tests.
"""

import os
import sys
from datetime import datetime, timedelta, timezone

import pandas as pd
from feast import Entity, FeatureStore, FeatureView, Field, FileSource
from feast.types import Float32, Float64, Int32, Int64, String
from feast.value_type import ValueType

NOW = datetime.now(timezone.utc)
OLD = datetime(2020, 1, 1, tzinfo=timezone.utc)

# view: (join key, its type, time to live, features, rows, times)
VIEWS = {
    "items": (
        "item_id", ValueType.INT64, timedelta(0), {"alpha": Float64, "beta": Float64},
        [(n, n + 0.5, 2.0 * n) for n in range(1, 1001)]
        + [(2001, None, 3.0), (2002, -1.0, 3.0), (2003, float("inf"), 3.0), (-7, 4.0, 5.0), (9007199254740993, 6.0, 7.0)],
    ),
    "articles": (
        "article_id", ValueType.STRING, timedelta(hours=1), {"clicks": Int64, "impressions": Int64},
        [("a", 3, 10), ("7", 0, 5), ("007", 5, 5), ("ö/\"ü", 1, 2), ("too many clicks", 6, 5), ("old", 4, 8)],
    ),
    "users": (
        "user_id", ValueType.STRING, timedelta(0), {"segment": String},
        [("u1", "young"), ("u2", None), ("u3", "")],
    ),
    "clusters": ("user_id", ValueType.STRING, timedelta(0), {"segment": Int64}, [("u1", 12), ("u2", -1)]),
    "small": (
        "small_id", ValueType.INT32, timedelta(0), {"alpha": Float32, "beta": Int32},
        [(5, 3.5, 1), (-6, 7.25, 2)],
    ),
}


def fill(directory):
    store = FeatureStore(repo_path=directory)
    objects, frames, entities = [], {}, {}
    for view, (key, kind, ttl, features, rows) in VIEWS.items():
        frame = pd.DataFrame(rows, columns=[key, *features])
        frame["event_timestamp"] = [OLD if row[0] == "old" else NOW for row in rows]
        path = os.path.join(directory, view + ".parquet")
        frame.to_parquet(path)
        source = FileSource(name=view + "_file", path=path, timestamp_field="event_timestamp")
        if key not in entities:
            entities[key] = Entity(name=key, join_keys=[key], value_type=kind)
            objects.append(entities[key])
        schema = [Field(name=name, dtype=dtype) for name, dtype in features.items()]
        objects.append(FeatureView(name=view, entities=[entities[key]], ttl=ttl, schema=schema, source=source))
        frames[view] = frame
    store.apply(objects)
    for view, frame in frames.items():
        store.write_to_online_store(view, frame)


for d in sys.argv[1:]:
    fill(os.path.abspath(d))
