"""Reads feeds with feedparser, and says where what weir made of a source reads otherwise.

A line of standard input is JSON: name, type (a Content-Type), truncated, items (how many), kept (indexes of some), and in Base64
source, filtered and converted (by format). A line of standard output is what differs in one of them.
"""

import base64
import html
import io
import json
import re
import sys

import feedparser

feedparser.RESOLVE_RELATIVE_URIS = False
feedparser.SANITIZE_HTML = False


def read(document, content_type):
    headers = {"content-type": content_type} if content_type else {}
    return feedparser.parse(io.BytesIO(base64.b64decode(document)), response_headers=headers)


def plain(value):
    """What an entry says, without objects of feedparser."""
    return json.loads(json.dumps(value, default=str, sort_keys=True))


def words(title):
    """What a reader sees of a title: formats differ in how they write its markup, and XML has no control characters."""
    title = re.sub("[\\x00-\\x08\\x0b\\x0c\\x0e-\\x1f]", "", title or "")
    for _ in range(2):
        title = html.unescape(re.sub("<[^<>]*>", "", title))
    return title.split()


compared = 0
for line in sys.stdin:
    case = json.loads(line)
    source = read(case["source"], case["type"])
    filtered = read(case["filtered"], case["type"])
    entries = [plain(e) for e in source.entries]
    if case["truncated"]:  # of which feedparser reads part of an item, and weir leaves that out
        entries = entries[: case["items"]]
    if len(entries) != case["items"]:
        print(json.dumps({"name": case["name"], "kind": "count", "what": f"feedparser reads {len(entries)} items, weir {case['items']}"}))
        continue
    compared += 1
    wanted = [entries[i] for i in case["kept"]]
    got = [plain(e) for e in filtered.entries]
    if got != wanted:
        differing = next((i for i, (a, b) in enumerate(zip(got, wanted)) if a != b), None)
        what = f"{len(got)} entries, not {len(wanted)}" if differing is None else f"entry {differing}: {got[differing]} is not {wanted[differing]}"
        print(json.dumps({"name": case["name"], "kind": "filtered", "what": what}))
    head, kept = plain(source.feed), plain(filtered.feed)
    if head != kept and not case["truncated"]:
        what = {k: (kept.get(k), head.get(k)) for k in head.keys() | kept.keys() if kept.get(k) != head.get(k)}
        print(json.dumps({"name": case["name"], "kind": "feed", "what": f"got and wanted: {what}"}))
    for kind, document in case["converted"].items():
        other = read(document, "")
        if len(other.entries) != len(entries):
            print(json.dumps({"name": case["name"], "kind": kind, "what": f"{len(other.entries)} items, not {len(entries)}"}))
            continue
        for i, (a, b) in enumerate(zip(other.entries, entries)):
            wanted = {"published_parsed": plain(b.get("published_parsed")), "title": words(b.get("title"))}
            if b.get("links"):  # otherwise feedparser takes an id for one
                wanted["link"] = b.get("link")
            for field, value in wanted.items():
                got = words(a.get(field)) if field == "title" else plain(a.get(field))
                if value and got != value:
                    print(json.dumps({"name": case["name"], "kind": kind, "what": f"{field} of entry {i} is {got!r}, not {value!r}"}))
print(json.dumps({"name": "", "kind": "compared", "what": str(compared)}))
