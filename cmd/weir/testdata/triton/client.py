"""Talks to a server of the Open Inference Protocol with Triton's own client: client.py HOST:PORT MODEL.

It prints the scores of one request, sent in every form that the client knows, which must all be the same.
"""

import json
import sys

import numpy as np
import tritonclient.http as triton
from tritonclient.utils import InferenceServerException

address, model = sys.argv[1:]
client = triton.InferenceServerClient(url=address, verbose=False)

assert client.is_server_live()
assert client.is_server_ready()
assert client.is_model_ready(model)
assert client.is_model_ready(model, "1")
assert not client.is_model_ready("nothing")

server = client.get_server_metadata()
assert server["name"] == "weir" and {"binary_tensor_data", "classification"} <= set(server["extensions"]), server
metadata = client.get_model_metadata(model)
assert metadata["name"] == model and [t["name"] for t in metadata["outputs"]] == ["scores", "items"], metadata
assert {"user", "items"} <= {t["name"] for t in metadata["inputs"]}, metadata

ITEMS = [7, 8, 9, 1 << 40]


def tensors(kind, binary):
    user = triton.InferInput("user", [1], "BYTES")
    user.set_data_from_numpy(np.array(["u1"], dtype=np.object_), binary_data=binary)
    items = triton.InferInput("items", [len(ITEMS)], kind)
    if kind == "BYTES":
        values = np.array([str(i) for i in ITEMS], dtype=np.object_)
    else:
        values = np.array(ITEMS, dtype={"INT64": np.int64, "UINT64": np.uint64}[kind])
    items.set_data_from_numpy(values, binary_data=binary)
    return [user, items]


answers = []
for kind in ("BYTES", "INT64", "UINT64"):
    for binary_in in (True, False):
        for outputs in (
            None,
            [triton.InferRequestedOutput("scores", binary_data=True)],
            [triton.InferRequestedOutput("scores", binary_data=False)],
        ):
            result = client.infer(model, tensors(kind, binary_in), outputs=outputs, request_id="r-1", parameters={"seed": 42})
            scores = result.as_numpy("scores")
            assert scores.dtype == np.float64 and scores.shape == (len(ITEMS),), (scores.dtype, scores.shape)
            assert result.get_response()["id"] == "r-1", result.get_response()
            answers.append((kind, binary_in, scores))

first = answers[0][2]
for kind, binary_in, scores in answers:
    assert np.allclose(scores, first, rtol=1e-8, atol=0), (kind, binary_in, scores, first)

# Without a seed it is another sample, and still one.
again = client.infer(model, tensors("BYTES", True)).as_numpy("scores")
assert ((again >= 0) & (again <= 1)).all() and not np.array_equal(again, first), again

# The best alone: by class_count, and by the parameter top.
for kind in ("BYTES", "INT64"):
    for binary in (True, False):
        ask = [triton.InferRequestedOutput("scores", binary_data=binary, class_count=3)]
        classes = client.infer(model, tensors(kind, binary), outputs=ask, parameters={"seed": 42}).as_numpy("scores")
        parts = [(c if isinstance(c, str) else c.decode()).split(":") for c in classes]
        order = np.argsort(-first)[:3]
        assert [int(p[1]) for p in parts] == order.tolist(), (parts, first)
        assert [p[2] for p in parts] == [str(ITEMS[i]) for i in order], (parts, first)
        assert np.allclose([float(p[0]) for p in parts], first[order], rtol=1e-8), (parts, first)
        best = client.infer(model, tensors(kind, binary), parameters={"seed": 42, "top": 3})
        assert np.allclose(best.as_numpy("scores"), first[order], rtol=1e-8), best.get_response()
        assert [int(i) for i in best.as_numpy("items")] == [ITEMS[i] for i in order], best.get_response()

# What is wrong is said in words that the client passes on.
try:
    client.infer(model, tensors("BYTES", True)[:1])
    raise SystemExit("a request without items was answered")
except InferenceServerException as e:
    assert "items" in e.message(), e
try:
    client.infer("nothing", tensors("BYTES", True))
    raise SystemExit("a model that does not exist answered")
except InferenceServerException as e:
    assert "nothing" in e.message(), e

many = [client.async_infer(model, tensors("INT64", True)) for _ in range(20)]
for pending in many:
    assert pending.get_result().as_numpy("scores").shape == (len(ITEMS),)

client.close()
print(json.dumps(first.tolist()))
