"""Draw the pictures of docs/curves.md: `python docs/pictures/make.py`. No random numbers, so a run changes nothing."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pyarrow as pa

from zlayout.curve.layout import FileMap, build

HERE = Path(__file__).parent
INK, PALE, LINE, TOUCHED, BORDER = "#1f2933", "#ffffff", "#c3ccd5", "#f6c177", "#3b6ea5"


def svg(width: int, height: int, body: Iterable[str]) -> str:
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        f'font-family="sans-serif" font-size="13" fill="{INK}">'
    )
    background = f'<rect width="{width}" height="{height}" fill="{PALE}"/>'
    return "\n".join([head, background, *body, "</svg>"]) + "\n"


def text(x: float, y: float, words: str, anchor: str = "middle") -> str:
    return f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}">{words}</text>'


def box(x: float, y: float, width: float, height: float, fill: str, stroke: str, thickness: float = 1) -> str:
    return (
        f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" fill="{fill}" stroke="{stroke}" '
        f'stroke-width="{thickness:g}"/>'
    )


def grid_files(curve: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """x, y and the file of each point of the 8x8 grid, 16 files of 4 points."""
    x, y = np.divmod(np.arange(64), 8)
    keys = {"x": pa.array(x), "y": pa.array(y)}
    return x, y, build(keys, {}, curve, 1000, 16, noise=False).locate(keys)


def draw_grid(curve: str, title: str, left: float) -> list[str]:
    cell, top = 34, 60
    x, y, file = grid_files(curve)
    asked = (x == 2) | (y == 2)
    opened = sorted(set(file[asked].tolist()))
    parts = [text(left + 4 * cell, 24, title), text(left + 4 * cell, 42, f"{len(opened)} of 16 files opened")]
    for px, py, f, hit in zip(x.tolist(), y.tolist(), file.tolist(), asked.tolist(), strict=True):
        corner = (left + px * cell, top + (7 - py) * cell)
        parts.append(box(*corner, cell, cell, TOUCHED if f in opened else PALE, LINE))
        parts.append(
            f'<circle cx="{corner[0] + cell / 2:g}" cy="{corner[1] + cell / 2:g}" r="{6 if hit else 3}" fill="{INK}"/>'
        )
    for f in range(16):
        fx, fy = x[file == f], y[file == f]
        width, height = (int(fx.max() - fx.min()) + 1) * cell, (int(fy.max() - fy.min()) + 1) * cell
        parts.append(box(left + fx.min() * cell, top + (7 - fy.max()) * cell, width, height, "none", BORDER, 2.5))
    for i in range(8):
        parts.append(text(left + (i + 0.5) * cell, top + 8 * cell + 16, str(i)))
        parts.append(text(left - 10, top + (7.5 - i) * cell + 5, str(i)))
    parts.append(text(left + 4 * cell, top + 8 * cell + 34, "x"))
    parts.append(text(left - 26, top + 4 * cell + 5, "y"))
    return parts


def grid_picture() -> str:
    return svg(
        700,
        380,
        [*draw_grid("linear", "linear: sorted by x, then y", 50), *draw_grid("zorder", "z-order of x and y", 395)],
    )


def correlated_sample(rows: int) -> dict[str, pa.Array]:
    """Ship and receipt day of orders: receipt follows ship by a skewed delay (golden-ratio steps, not random)."""
    step = (np.arange(rows) * 0.6180339887498949) % 1
    other = (np.arange(rows) * 0.7548776662466927) % 1
    return {"ship": pa.array(step), "receipt": pa.array(step + 0.35 * other**2)}


def draw_boxes(curve: str, sample: dict[str, pa.Array], left: float) -> list[str]:
    layout: FileMap = build(sample, {}, curve, 1000, 64, noise=False)
    file = layout.locate(sample)
    x, y = (v.to_numpy() for v in sample.values())
    side, top, asked = 250, 60, 0.35
    touched = dict.fromkeys(sample, 0.0)  # the number of files that a query for the value of a row opens
    opened = 0
    drawn = []
    for f in range(layout.files):
        fx, fy = x[file == f], y[file == f]
        for name, all_rows, own in (("ship", x, fx), ("receipt", y, fy)):
            touched[name] += ((all_rows >= own.min()) & (all_rows <= own.max())).mean()
        hit = fx.min() <= asked <= fx.max()
        opened += bool(hit)
        low, high = (fx.min() * side, fy.min() / 1.35 * side), (fx.max() * side, fy.max() / 1.35 * side)
        shape = (left + low[0], top + side - high[1], high[0] - low[0], high[1] - low[1])
        corners = [float(f"{v:.2f}") for v in shape]
        drawn.append((hit, box(*corners, TOUCHED if hit else "none", BORDER)))
    # the files that are opened lie under the outlines of the others
    parts = [shape for _, shape in sorted(drawn, key=lambda d: not d[0])]
    line = left + asked * side
    parts.append(f'<path d="M{line:g} {top} V{top + side}" stroke="{INK}" stroke-dasharray="4 3"/>')
    parts.append(text(left + side / 2, 24, f"{curve}: {opened} of 64 files opened"))
    parts.append(
        text(left + side / 2, 42, f"on average {touched['ship']:.1f} by ship, {touched['receipt']:.1f} by receipt")
    )
    parts.append(text(left + side / 2, top + side + 20, "ship"))
    return parts


def boxes_picture() -> str:
    sample = correlated_sample(12_800)
    body = [
        part for i, curve in enumerate(("zorder", "hilbert", "kd")) for part in draw_boxes(curve, sample, 20 + 275 * i)
    ]
    return svg(840, 340, body)


PICTURES = {"grid.svg": grid_picture, "boxes.svg": boxes_picture}

if __name__ == "__main__":
    for name, draw in PICTURES.items():
        (HERE / name).write_text(draw())
