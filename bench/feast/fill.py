"""Has Feast write features of items to a Redis store, for its own server and for weir to read.

    fill.py --repo DIRECTORY --project weir --redis HOST:PORT --arms arms.csv --items 20000

DIRECTORY becomes a feature repository with a view "items", alpha and beta by item_id, and the store gets
the first --items items of the file that belong to no segment.
"""

import argparse
import csv
import datetime
import pathlib

import pandas as pd
from feast import Entity, FeatureStore, FeatureView, Field, FileSource
from feast.types import Float64
from feast.value_type import ValueType

CONFIGURATION = """\
project: {project}
provider: local
registry: {repo}/registry.db
online_store:
  type: redis
  connection_string: "{redis}"
entity_key_serialization_version: 3
"""


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repo", type=pathlib.Path, required=True)
    parser.add_argument("--project", required=True)
    parser.add_argument("--redis", required=True)
    parser.add_argument("--arms", type=pathlib.Path, required=True)
    parser.add_argument("--items", type=int, required=True)
    args = parser.parse_args()

    ids, alphas, betas = [], [], []
    with args.arms.open(newline="") as file:
        for row in csv.DictReader(file):
            if len(ids) == args.items:
                break
            if not row["segment"]:
                ids.append(int(row["item"]))
                alphas.append(float(row["alpha"]))
                betas.append(float(row["beta"]))
    items = pd.DataFrame({
        "item_id": ids,
        "alpha": alphas,
        "beta": betas,
        "event_timestamp": datetime.datetime.now(datetime.timezone.utc),
    })

    repo = args.repo.resolve()
    repo.mkdir(parents=True, exist_ok=True)
    (repo / "registry.db").unlink(missing_ok=True)
    (repo / "feature_store.yaml").write_text(CONFIGURATION.format(project=args.project, repo=repo, redis=args.redis))
    # A view wants a source, though nothing is read from it.
    items.head(0).to_parquet(repo / "items.parquet")
    item = Entity(name="item", join_keys=["item_id"], value_type=ValueType.INT64)
    view = FeatureView(
        name="items",
        entities=[item],
        ttl=datetime.timedelta(0),
        schema=[Field(name="alpha", dtype=Float64), Field(name="beta", dtype=Float64)],
        source=FileSource(name="items_file", path=str(repo / "items.parquet"), timestamp_field="event_timestamp"),
    )
    store = FeatureStore(repo_path=str(repo))
    store.apply([item, view])
    store.write_to_online_store("items", df=items)


main()
