"""A headless Chromium that opens a page from disk and returns what a script in it found."""

from __future__ import annotations

import html
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
needs_browser = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is installed")
_OPTIONS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
    *("--disable-dev-shm-usage", "--window-size=1400,900", "--dump-dom"),
)
# Runs before the page, so that it sees its errors and refused loads.
_WATCH = """<script>
const faults = [];
addEventListener("error", (event) => faults.push(String(event.message || event.target.src)), true);
addEventListener("securitypolicyviolation", (event) => faults.push(event.violatedDirective));
</script>"""


def look(text: str, script: str, folder: Path, address: str = "") -> Any:
    """Open a page and return the value of a script's `return`, and check for errors on the page.

    address: what follows "#".
    """
    probe = (
        "<script>{ let found; try { found = (() => {\n"
        + script
        + "\n})(); } catch (error) { faults.push(String(error.stack)); }\n"
        "const out = document.createElement('pre'); out.id = 'probe';\n"
        "out.textContent = JSON.stringify([faults, found === undefined ? null : found]);\n"
        "document.body.append(out); }</script></body>"
    )
    assert text.count("</body>") == 1
    page = folder / "page.html"
    page.write_text(text.replace("<head>", f"<head>{_WATCH}", 1).replace("</body>", probe), "utf-8")
    command = [
        CHROMIUM,
        *_OPTIONS,
        f"--user-data-dir={folder / 'profile'}",
        f"{page.as_uri()}#{address}",
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    match = re.search(r'<pre id="probe">(.*?)</pre>', done.stdout, re.DOTALL)
    assert match, done.stderr[-2000:]
    faults, found = json.loads(html.unescape(match[1]))
    assert not faults, faults
    return found
