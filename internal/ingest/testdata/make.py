"""Writes the fixtures of this folder with pyarrow, as Spark, pandas and others lay them out.

    python3 -m venv build/venv && build/venv/bin/pip install pyarrow
    build/venv/bin/python internal/ingest/testdata/make.py

Every file holds the same lists, which the tests compute by themselves: user u of 1..60, in an order
of their own, has u % 7 items, the k-th of which is (u * 31 + k * 17) % 1000 + 1.
"""

import os
from decimal import Decimal

import pyarrow as pa
import pyarrow.ipc as ipc
import pyarrow.parquet as pq

here = os.path.dirname(os.path.abspath(__file__))
users = [(u * 37) % 61 for u in range(1, 61)]
lists = [[(u * 31 + k * 17) % 1000 + 1 for k in range(u % 7)] for u in users]
name = lambda u: f"user-{u:03d}"
title = lambda i: f"Item №{i}"


def parquet(file, columns, **options):
    pq.write_table(pa.table(columns), os.path.join(here, file), **{"row_group_size": 25, **options})


def arrow(file, columns, stream=False, compression=None, batch=25):
    table = pa.table(columns)
    opts = ipc.IpcWriteOptions(compression=compression)
    new = ipc.new_stream if stream else ipc.new_file
    with new(os.path.join(here, file), table.schema, options=opts) as w:
        w.write_table(table, max_chunksize=batch)


# Spark's ALS.recommendForAllUsers: array<struct<item, rating>>, everything nullable but the user.
als = {
    "userId": pa.array(users, pa.int32()),
    "recommendations": pa.array(
        [[{"movieId": i, "rating": 1.0 - k / 10} for k, i in enumerate(l)] for l in lists],
        pa.list_(pa.struct([("movieId", pa.int32()), ("rating", pa.float32())])),
    ),
}
parquet("als.parquet", als, compression="snappy", data_page_version="1.0")
parquet("als_v2.parquet", als, compression="zstd", data_page_version="2.0", use_dictionary=False, data_page_size=64, write_batch_size=5)
arrow("als.arrow", als)
arrow("als.arrows", als, stream=True, compression="zstd")

# Plain lists, of numbers of other widths and of names.
parquet("int64.parquet", {"user_id": pa.array(users, pa.int64()), "items": pa.array(lists, pa.large_list(pa.int64()))},
        compression="gzip", use_compliant_nested_type=False)
parquet("uint.parquet", {"user": pa.array(users, pa.uint64()), "items": pa.array(lists, pa.list_(pa.uint32()))},
        use_dictionary=False, data_page_size=64, write_batch_size=5, column_encoding={"user": "DELTA_BINARY_PACKED", "items.list.element": "DELTA_BINARY_PACKED"})
# Decimals of more digits than an int64 has, as Spark makes of unsigned ids: bytes in Parquet.
parquet("decimal.parquet", {"user": pa.array(map(Decimal, users), pa.decimal128(38)),
                            "items": pa.array([[Decimal(i) for i in l] for l in lists], pa.list_(pa.decimal128(20)))})
parquet("decimal_plain.parquet", {"user": pa.array(map(Decimal, users), pa.decimal256(76)),
                                  "items": pa.array([[Decimal(i) for i in l] for l in lists], pa.list_(pa.decimal128(20)))},
        use_dictionary=False, data_page_version="2.0")
arrow("decimal.arrow", {"user": pa.array(map(Decimal, users), pa.decimal256(76)),
                        "items": pa.array([[Decimal(i) for i in l] for l in lists], pa.list_(pa.decimal128(20)))})
parquet("names.parquet", {"uid": [name(u) for u in users], "recs": [[title(i) for i in l] for l in lists]})
parquet("names_plain.parquet", {"uid": [name(u) for u in users], "recs": [[title(i) for i in l] for l in lists]},
        use_dictionary=False, compression="none")
arrow("fixed.arrow", {"user": pa.array(users, pa.int16()), "items": pa.array(lists, pa.large_list(pa.uint16()))}, compression="lz4")
arrow("names.arrow", {"user": pa.array([name(u) for u in users]).dictionary_encode(),
                      "items": pa.array([[title(i) for i in l] for l in lists], pa.list_(pa.large_string()))})

# One item a row, out of order, with a rank or a score.
rows = sorted(((u, i, k) for u, l in zip(users, lists) for k, i in enumerate(l)), key=lambda r: (r[2] * 7 + r[1] * 13) % 101)
col = lambda n, typ, of=lambda x: x: pa.array([of(r[n]) for r in rows], typ)
parquet("rank.parquet", {"user": col(0, pa.int64()), "item": col(1, pa.int32()), "rank": col(2, pa.int32())})
parquet("score.parquet", {"user_id": col(0, pa.int32()), "item_id": col(1, pa.int64()), "score": col(2, pa.float64(), lambda k: 1 / (k + 3))},
        use_dictionary=False)
parquet("decimal_score.parquet", {"user": col(0, pa.decimal128(20), Decimal), "item": col(1, pa.decimal128(20), Decimal),
                                  "score": col(2, pa.decimal128(38, 18), lambda k: Decimal(1) / (1 << k))})
arrow("decimal_score.arrow", {"user": col(0, pa.decimal32(9), Decimal), "item": col(1, pa.decimal64(18), Decimal),
                              "score": col(2, pa.decimal128(38, 18), lambda k: Decimal(1) / (1 << k))})
parquet("rating.parquet", {"userId": col(0, pa.float64()), "itemId": col(1, pa.int32()), "rating": col(2, pa.float32(), lambda k: -k)})
arrow("rank.arrow", {"user": col(0, pa.string(), name), "item": col(1, pa.string_view(), title), "rank": col(2, pa.uint8())})

# LZ4, in pages that hardly compress: 2000 rows of users i % 50.
n = range(2000)
lz4 = {"user": pa.array([i % 50 for i in n], pa.int64()), "item": pa.array([i * 2654435761 % 1099511627689 for i in n], pa.int64()),
       "score": pa.array([i * 1583 % 2003 for i in n], pa.float64())}
parquet("lz4.parquet", lz4, compression="lz4", use_dictionary=False, data_page_size=4000, write_batch_size=100, row_group_size=1500)
parquet("lz4_v2.parquet", lz4, compression="lz4", use_dictionary=["user", "item"], data_page_version="2.0", row_group_size=1500)

# What rows should not hold: nulls at every level, negative and broken numbers. 10 good ones.
bad_users = [1, None, -3, 4, 5, 6] + list(range(7, 16))
bad_lists = [[11], [2], [3], None, [5, None], [6, -7]] + [[i] for i in range(7, 16)]
parquet("bad.parquet", {"user": pa.array(bad_users, pa.int32()), "items": pa.array(bad_lists, pa.list_(pa.int32()))}, row_group_size=4)
arrow("bad.arrow", {"user": pa.array(bad_users, pa.int32()), "items": pa.array(bad_lists, pa.list_(pa.int32()))}, batch=4)
parquet("bad_floats.parquet", {"user": pa.array([1.0, 2.5, float("nan"), 4.0]), "item": pa.array([1, 2, 3, 4]),
                               "score": pa.array([0.5, 0.5, 0.5, float("nan")])})
long = [[1] * 65536, [2] * 65535, [3]]
parquet("long.parquet", {"user": [1, 2, 3], "items": pa.array(long, pa.list_(pa.int32()))}, compression="zstd")
arrow("long.arrow", {"user": [1, 2, 3], "items": pa.array(long, pa.list_(pa.int32()))}, compression="zstd")

# A UUID for a user, and columns nobody asks for.
parquet("uuid.parquet", {"user": pa.array([bytes(range(u, u + 16)) for u in range(1, 5)], pa.binary(16)),
                         "at": pa.array([0] * 4, pa.timestamp("us")), "item": pa.array([1, 2, 3, 4])})
