"""The peer: pypdfium2 in a loop, as its documentation shows it. Prints the pages and the seconds of processor time, from
its start on: ours start processes, too."""

from __future__ import annotations

import io
import json
import pathlib
import sys
import time

import pypdfium2


def main(folder: str) -> None:
    pages = 0
    for path in sorted(pathlib.Path(folder).glob("*.pdf")):
        document = pypdfium2.PdfDocument(path.read_bytes())
        texts = []
        for page in document:
            text = page.get_textpage()
            texts.append(text.get_text_bounded())
            text.close()
            page.close()
        pages += len(texts)
        page = document[0]
        picture = page.render(scale=400 / max(page.get_size())).to_pil()
        picture.save(io.BytesIO(), "WEBP", quality=70)
        page.close()
        document.close()
    print(json.dumps({"pages": pages, "cpu": time.process_time()}))


if __name__ == "__main__":
    main(sys.argv[1])
