"""Write the drawings of the concept pages.

.venv/bin/python -m tools.pictures                  all of them, in a minute
.venv/bin/python -m tools.pictures spectral em      some of them
"""

from __future__ import annotations

import sys

from tools.pictures import FOLDER, pictures

if __name__ == "__main__":
    FOLDER.mkdir(parents=True, exist_ok=True)
    drawings = pictures()
    for name in sys.argv[1:] or drawings:
        path = FOLDER / f"{name}.svg"
        path.write_text(drawings[name]().svg(), encoding="utf-8")
        print(path)
