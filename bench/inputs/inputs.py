"""Writes the inputs that the import figures are measured with, as Parquet by another
implementation than the one under test.

    inputs.py --users 5000000 --items 200 --max-item 10000000 -o DIRECTORY

DIRECTORY/lists has a row a user, (user: int32, items: list<int32>), and DIRECTORY/exploded a row an
item, (user: int32, item: int32, rank: int16), both in --parts part files with _SUCCESS, compressed
by Snappy, as Spark leaves them. Users are spread over the part files by hash and in no order within
one, so that importing has to sort; the rows of one user are together, since they were exploded from
a list. Both hold the same lists: drawn at random without duplicates, the same for the same --seed.
"""

import argparse
import pathlib

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

BATCH = 50_000  # users at a time: 80 MB of items


def draw(rng, users, items, max_item):
    """users x items distinct ids of 1..max_item, one row a user."""
    # Sorted rows show duplicates side by side. Few rows have any: those are drawn anew.
    rows = rng.integers(1, max_item, (users, items), dtype=np.int32, endpoint=True)
    while True:
        ordered = np.sort(rows, axis=1)
        bad = np.flatnonzero((ordered[:, 1:] == ordered[:, :-1]).any(axis=1))
        if len(bad) == 0:
            return rows
        rows[bad] = rng.integers(1, max_item, (len(bad), items), dtype=np.int32, endpoint=True)


def lists(users, rows):
    n, items = rows.shape
    offsets = pa.array(np.arange(0, n * items + 1, items, dtype=np.int32))
    return pa.table({"user": users, "items": pa.ListArray.from_arrays(offsets, pa.array(rows.ravel()))})


def exploded(users, rows):
    n, items = rows.shape
    return pa.table({
        "user": np.repeat(users, items),
        "item": rows.ravel(),
        "rank": np.tile(np.arange(1, items + 1, dtype=np.int16), n),
    })


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--users", type=int, default=5_000_000)
    parser.add_argument("--items", type=int, default=200)
    parser.add_argument("--max-item", type=int, default=10_000_000)
    parser.add_argument("--parts", type=int, default=16)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("-o", "--output", type=pathlib.Path, required=True)
    args = parser.parse_args()
    if args.max_item < 10 * args.items:
        parser.error("--max-item must be ten times --items or more, or drawing without duplicates takes for ever")

    rng = np.random.default_rng(args.seed)
    everybody = rng.permutation(args.users).astype(np.int32)
    for shape in (lists, exploded):
        (args.output / shape.__name__).mkdir(parents=True, exist_ok=True)
    for part, users in enumerate(np.array_split(everybody, args.parts)):
        writers = {}
        for start in range(0, len(users), BATCH):
            batch = users[start : start + BATCH]
            rows = draw(rng, len(batch), args.items, args.max_item)
            for shape in (lists, exploded):
                table = shape(batch, rows)
                if shape not in writers:
                    path = args.output / shape.__name__ / f"part-{part:05d}.snappy.parquet"
                    # A random item id is worth no dictionary.
                    plain = [c for c in table.column_names if c in ("user", "rank")]
                    writers[shape] = pq.ParquetWriter(path, table.schema, compression="snappy", use_dictionary=plain)
                writers[shape].write_table(table)
        for writer in writers.values():
            writer.close()
        print(f"part {part + 1} of {args.parts}", flush=True)
    for shape in (lists, exploded):
        (args.output / shape.__name__ / "_SUCCESS").touch()


main()
