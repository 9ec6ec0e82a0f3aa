"""Write a WARC file with warcio, which is in the environment of pywb: `python write_warc.py FILE < records.json`.

A record is {"url", "date", "status", "headers": [[name, value]], "body" (base64), "repeats" (index of an earlier one)}.
"""

from __future__ import annotations

import base64
import hashlib
import io
import json
import sys

from warcio.statusandheaders import StatusAndHeaders
from warcio.warcwriter import WARCWriter


def write(path: str, records: list[dict]) -> None:
    with open(path, "wb") as file:
        writer = WARCWriter(file, gzip=True)
        for record in records:
            http = StatusAndHeaders(record["status"], list(map(tuple, record["headers"])), protocol="HTTP/1.1")
            dated = {"WARC-Date": record["date"]}
            if "repeats" in record:
                first = records[record["repeats"]]
                digest = "sha1:" + base64.b32encode(hashlib.sha1(base64.b64decode(first["body"])).digest()).decode()
                made = writer.create_revisit_record(
                    record["url"], digest, first["url"], first["date"], http_headers=http, warc_headers_dict=dated
                )
            else:
                body = io.BytesIO(base64.b64decode(record["body"]))
                made = writer.create_warc_record(
                    record["url"], "response", payload=body, http_headers=http, warc_headers_dict=dated
                )
            writer.write_record(made)


if __name__ == "__main__":
    write(sys.argv[1], json.load(sys.stdin))
